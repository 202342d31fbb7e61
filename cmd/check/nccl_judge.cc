// Findings of the installed NCCL's facts, figures, log and RAS, and whom they are about.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/check/nccl.h"
#include "cmd/judge/odd_link.h"
#include "cmd/measure/timing.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr const char* kMakeAlike = "install and set it alike on all hosts";

// A fact that is to be the same on all hosts; "": the host has none.
struct AlikeFact {
  const char* name;
  const char* what;
  bool fault;  // else it is told
  std::string (*value)(const NcclFacts& facts);
};

std::string file_name(const NcclLibrary& library) {
  const std::string name = library.path.substr(library.path.rfind('/') + 1);
  return library.path.empty() ? "" : format("{} ({})", name, library.version);
}

constexpr AlikeFact kAlikeFacts[] = {
    {"nccl/version", "NCCL", true, [](const NcclFacts& f) { return f.library.version; }},
    {"nccl/net-plugin", "network plugin", true,
     [](const NcclFacts& f) { return file_name(f.net); }},
    {"nccl/tuner-plugin", "tuner plugin", true,
     [](const NcclFacts& f) { return file_name(f.tuner); }},
    {"nccl/path", "libnccl", false, [](const NcclFacts& f) { return f.library.path; }},
};

std::string or_none(const std::string& value) {
  return value.empty() ? "none" : value;
}

// Values by the hosts that have them: "2.28.9 on n1, n2; none on n3".
std::string values_text(const std::vector<NcclHost>& hosts,
                        const std::vector<std::string>& values) {
  NamesBy<std::string> by;
  for (size_t i = 0; i < hosts.size(); ++i) by[or_none(values[i])].push_back(hosts[i].host.name);
  std::string text;
  for (const auto& [value, names] : by.groups())
    text += format("{}{} on {}", text.empty() ? "" : "; ", value, folded_hosts(names));
  return text;
}

// Hosts that have not what more than half of them have; where nobody has, all are told of once.
void compare_hosts(const std::vector<NcclHost>& hosts, const std::string& name,
                   const std::string& what, bool fault, const std::vector<std::string>& values,
                   std::vector<Finding>& findings) {
  std::vector<std::string> shown;  // usual_value() has "" for none
  for (const std::string& value : values) shown.push_back(or_none(value));
  const std::string most = usual_value(shown);
  const auto same = size_t(std::ranges::count(shown, most));
  if (hosts.size() < 2 || same == shown.size()) return;
  if (most.empty()) {
    Finding finding{.name = name};
    const std::string message = format("{} is not alike: {}", what, values_text(hosts, values));
    fault ? finding.fail(ErrorCode::failed, message, kMakeAlike)
          : finding.warn(message, kMakeAlike);
    findings.push_back(std::move(finding));
    return;
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (shown[i] == most) continue;
    Finding finding = host_finding(name, hosts[i].host);
    finding.measured = shown[i];
    finding.expected = most;
    finding.n = same;
    finding.of = shown.size();
    finding.odd = true;
    const std::string message = format("{}: {}: {}, where {} of {} hosts have {}", hosts[i].host,
                                       what, shown[i], same, shown.size(), most);
    fault ? finding.fail(ErrorCode::failed, message, kMakeAlike)
          : finding.warn(message, kMakeAlike);
    findings.push_back(std::move(finding));
  }
}

void compare_variables(const std::vector<NcclHost>& hosts, std::vector<Finding>& findings) {
  std::set<std::string> names;
  for (const NcclHost& host : hosts)
    for (const NcclVariable& one : host.facts.variables) names.insert(one.name);
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const NcclHost& host : hosts) {
      const std::string* value = host.facts.variable(name.c_str());
      values.push_back(value == nullptr ? "" : *value);
    }
    compare_hosts(hosts, "nccl/variables", name, false, values, findings);
  }
}

// Faults of a host by itself.
void judge_own(const NcclHost& host, std::vector<Finding>& findings) {
  const NcclFacts& facts = host.facts;
  if (!facts.library.path.empty() && !facts.library.missing.empty())
    findings.push_back(
        host_finding("nccl/library", host.host)
            .fail(ErrorCode::failed,
                  format("{}: {}: {}", host.host, facts.library.path, facts.library.missing),
                  "install NCCL 2.10 or later"));
  for (const auto& [library, variable] :
       {std::pair(&facts.net, "NCCL_NET_PLUGIN"), std::pair(&facts.tuner, "NCCL_TUNER_PLUGIN")}) {
    if (library->missing.empty()) continue;
    const std::string* named = facts.variable(variable);
    findings.push_back(
        host_finding("nccl/plugins", host.host)
            .warn(format("{}: {} cannot be used, and NCCL goes on without it: {}", host.host,
                         named != nullptr ? format("{}={}", variable, *named)
                                          : std::string("a plugin"),
                         library->missing),
                  "install what is missing, or name its folder in LD_LIBRARY_PATH"));
  }
  for (const NcclConfigFile& file : facts.files)
    for (const std::string& problem : file.problems) {
      findings.push_back(host_finding("nccl/files", host.host)
                             .warn(format("{}: {}: {}", host.host, file.path, problem)));
    }
}

const NcclChoice* choice_of(const std::vector<NcclChoice>& choices, const NcclRow& row,
                            uint64_t call_bytes) {
  for (const NcclChoice& choice : choices)
    // Versions that name no function count the whole.
    if (choice.bytes == (choice.function.empty() ? row.bytes : call_bytes)) return &choice;
  return nullptr;
}

// Among all that is slow the worst counts, and the largest where several are alike.
struct Slow {
  const NcclRow* worst = nullptr;
  size_t sizes = 0;
  void add(const NcclRow& row, double share) {
    ++sizes;
    if (worst == nullptr || share <= least) worst = &row, least = share;
  }
  double least = 1;
};

std::string sizes_text(const Slow& slow) {
  return slow.sizes > 1 ? format(" ({} sizes are so, this is the worst)", slow.sizes) : "";
}

std::string both_text(double slow, double fast, const NcclRow& row) {
  return row.bytes >= kNcclBandwidthBytes ? format("{} of {} GB/s at {}", four_digits(slow),
                                                   four_digits(fast), human_bytes(row.bytes))
                                          : format("{} us, not {}, at {}", four_digits(slow),
                                                   four_digits(fast), human_bytes(row.bytes));
}

std::string choice_text(const NcclRow& row) {
  if (row.algorithm.empty()) return "";
  return format("; NCCL took {}/{}{}, collctl {}/{}", row.algorithm, row.protocol,
                row.channels > 0 ? format(" on {} channels", row.channels) : "", row.own_algorithm,
                row.own_protocol);
}

constexpr const char* kSlowRemedy =
    "look at what NCCL chose (network, ways, channels, algorithm) beside ours, at its variables "
    "and plugins, and at its log: NCCL_DEBUG=INFO";

}  // namespace

std::vector<Finding> nccl_fact_findings(std::span<const NcclHost> all) {
  std::vector<Finding> findings;
  std::vector<NcclHost> hosts;
  for (const NcclHost& host : all)
    if (host.facts.gpus > 0) hosts.push_back(host);
  const bool any = std::ranges::any_of(
      hosts, [](const NcclHost& host) { return !host.facts.library.path.empty(); });
  if (any)
    for (const NcclHost& host : hosts)
      if (host.facts.library.path.empty())
        findings.push_back(host_finding("nccl/library", host.host)
                               .fail(ErrorCode::failed,
                                     format("{}: {}", host.host, host.facts.library.missing),
                                     "install NCCL as on the other hosts, or name its folder in "
                                     "LD_LIBRARY_PATH"));
  std::erase_if(hosts, [](const NcclHost& host) { return host.facts.library.path.empty(); });
  for (const NcclHost& host : hosts) judge_own(host, findings);
  for (const AlikeFact& fact : kAlikeFacts) {
    std::vector<std::string> values;
    for (const NcclHost& host : hosts) values.push_back(fact.value(host.facts));
    compare_hosts(hosts, fact.name, fact.what, fact.fault, values, findings);
  }
  compare_variables(hosts, findings);
  return findings;
}

std::vector<NcclRow> nccl_rows(const BenchReport& timed) {
  std::vector<NcclRow> rows;
  for (const BenchRow& row : timed.rows) {
    const Timing& own = row.out_of_place;
    if (own.versus.empty() || own.time_us <= 0 || own.versus[0].time_us <= 0) continue;
    NcclRow& one = rows.emplace_back();
    one.collective = name_of(timed.spec.collective);
    one.bytes = row.bytes;
    one.own_us = own.time_us;
    one.nccl_us = own.versus[0].time_us;
    one.own_GBps = own.busbw_GBps;
    one.nccl_GBps = own.busbw_GBps * own.time_us / one.nccl_us;
    one.own_algorithm = row.algorithm;
    one.own_protocol = row.protocol;
    one.own_channels = row.channels;
  }
  return rows;
}

void add_watched(const BenchReport& watched, std::vector<NcclRow>& rows) {
  std::vector<NcclChoice> choices;
  if (watched.closing && !watched.closing->nccl.empty())
    choices = watched.closing->nccl.front().log.choices;
  const std::string name = name_of(watched.spec.collective);
  for (const BenchRow& seen : watched.rows)
    for (NcclRow& row : rows) {
      if (row.collective != name || row.bytes != seen.bytes) continue;
      if (!seen.out_of_place.versus.empty()) row.wrong = seen.out_of_place.versus[0].wrong;
      const uint64_t call_bytes = seen.count * kernels::element_size(seen.type);
      if (const NcclChoice* choice = choice_of(choices, row, call_bytes)) {
        row.algorithm = choice->algorithm;
        row.protocol = choice->protocol;
        row.channels = choice->channels;
      }
    }
}

bool nccl_differs(std::span<const NcclRow> rows, double below) {
  return std::ranges::any_of(
      rows, [&](const NcclRow& row) { return row.ratio() < below || row.ratio() * below > 1; });
}

std::vector<Finding> nccl_speed_findings(std::span<const NcclRow> rows, double below) {
  if (rows.empty()) return {};
  const NcclRow& last = rows.back();
  Finding all{.name = "nccl/" + last.collective};
  all.measured = four_digits(last.nccl_GBps);
  all.expected = four_digits(below * last.own_GBps);
  all.unit = "GB/s";
  all.basis = format("NCCL's bus bandwidth at {}; {:g} of ours, {} GB/s", human_bytes(last.bytes),
                     below, four_digits(last.own_GBps));
  Slow wide, latency, own;
  for (const NcclRow& row : rows) {
    if (row.ratio() < below)
      (row.bytes >= kNcclBandwidthBytes ? wide : latency).add(row, row.ratio());
    if (row.ratio() * below > 1 && row.bytes >= kNcclBandwidthBytes) own.add(row, 1 / row.ratio());
  }
  std::vector<Finding> findings;
  if (wide.worst != nullptr)
    all.fail(ErrorCode::failed,
             format("{}: NCCL is slow, the wire is fast: {} (by collctl){}{}", last.collective,
                    both_text(wide.worst->nccl_GBps, wide.worst->own_GBps, *wide.worst),
                    sizes_text(wide), choice_text(*wide.worst)),
             kSlowRemedy);
  findings.push_back(std::move(all));
  if (latency.worst != nullptr) {
    findings.push_back(Finding{.name = format("nccl/{}/latency", last.collective)}.warn(format(
        "{}: NCCL is slow at small sizes, the wire is fast: {} (by collctl){}{}", last.collective,
        both_text(latency.worst->nccl_us, latency.worst->own_us, *latency.worst),
        sizes_text(latency), choice_text(*latency.worst))));
  }
  if (own.worst != nullptr) {
    findings.push_back(Finding{.name = format("nccl/{}/ours", last.collective)}.warn(
        format("{}: collctl is slow, the wire is fast: {} (by NCCL){}{}", last.collective,
               both_text(own.worst->own_GBps, own.worst->nccl_GBps, *own.worst), sizes_text(own),
               choice_text(*own.worst)),
        "these hosts can do more than collctl's other figures say: do not drain one for them "
        "alone"));
  }
  return findings;
}

std::vector<Finding> nccl_data_findings(const BenchReport& watched) {
  std::vector<Finding> findings;
  for (const BenchRow& row : watched.rows)
    for (const VersusTiming& other : row.out_of_place.versus) {
      if (other.wrong <= 0) continue;
      std::string where = format("rank {}", other.wrong_rank);
      if (watched.header)
        for (const HostLine& host : watched.header->hosts)
          if (std::ranges::find(host.ranks, other.wrong_rank) != host.ranks.end())
            where += format(" on {}", host.host);
      const std::string name = name_of(watched.spec.collective);
      findings.push_back(Finding{.name = format("nccl/{}/data", name)}.fail(
          ErrorCode::bad_data,
          format("{} at {}: {} elements of NCCL's result are wrong, first on {}; collctl's of "
                 "the same input {} right",
                 name, human_bytes(row.bytes), other.wrong, where,
                 row.out_of_place.wrong == 0 ? "is" : "is not"),
          "collctl check --only node,cluster,gpus says whether memory or links are at fault; "
          "else compare NCCL's version and variables with a host that is right"));
    }
  return findings;
}

namespace {

Finding log_finding(const NcclOnHost& host) {
  return host_finding("nccl/choice", host.host);
}

void judge_log(const NcclOnHost& host, const NcclReport& report, std::vector<Finding>& findings) {
  const NcclLog& log = host.log;
  if (log.empty()) {
    findings.push_back(log_finding(host).leave_out(format(
        "{}: what NCCL chose is not known: its log says nothing that can be read", host.host)));
    return;
  }
  const auto known = std::ranges::find(report.hosts, host.host, &NcclHost::host);
  const auto own_has = [&](std::string_view what) {
    return std::ranges::any_of(report.own_ways, [&](const OwnWay& way) {
      return way.via.find(what) != std::string::npos;
    });
  };
  if (log.network == "Socket" && log.crosses_hosts() && known != report.hosts.end() &&
      !known->facts.ports.empty()) {
    findings.push_back(log_finding(host).warn(
        format("{}: NCCL goes by sockets (\"{}\") although {} active ({})", host.host,
               log.network_line,
               known->facts.ports.size() == 1
                   ? std::string("an RDMA port is")
                   : format("{} RDMA ports are", known->facts.ports.size()),
               joined(known->facts.ports)),
        "look for NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA, and for libibverbs on the host"));
  }
  if (const NcclWay* way = log.no_gdr(); way != nullptr && own_has("/GDRDMA")) {
    findings.push_back(log_finding(host).warn(
        format("{}: NCCL does not use GPUDirect RDMA where collctl does: \"{}\"{}", host.host,
               way->line, log.no_gdr_line.empty() ? "" : format(", \"{}\"", log.no_gdr_line)),
        "look for NCCL_NET_GDR_LEVEL and NCCL_DMABUF_ENABLE; collctl doctor says what GPUDirect "
        "needs"));
  }
  if (!log.warnings.empty()) {
    findings.push_back(
        host_finding("nccl/warnings", host.host)
            .warn(format("{}: NCCL warned {}: \"{}\"", host.host,
                         log.warnings.size() == 1 ? std::string("once")
                                                  : format("{} times, first", log.warnings.size()),
                         log.warnings.front())));
  }
  if (log.cut) {
    Finding finding = log_finding(host);
    findings.push_back(
        finding.warn(format("{}: NCCL's log was longer than {}, the rest was not read", host.host,
                            human_bytes(kMostNcclLog))));
  }
}

// A process by the host whose rank it is; pids of several hosts may be alike.
std::string process_text(const RasProcess& process) {
  return format("process {} on {} (GPU {}){}", process.pid, process.host, process.gpus,
                process.dead ? ", given up" : "");
}

void judge_ras(const NcclOnHost& host, std::vector<Finding>& findings) {
  const RasAnswer& ras = host.ras;
  Finding finding = host_finding("nccl/ras", host.host);
  if (!ras.status) {
    finding.measured = "none";
    const std::string message = format("{}: NCCL's RAS was not read: {}", host.host, ras.missing);
    if (ras.address.empty())
      finding.message = message;  // it is off, or this NCCL has none
    else
      finding.warn(message,
                   "NCCL_RAS_ADDR gives a job a port of its own; ncclras reads it by hand");
    findings.push_back(std::move(finding));
    return;
  }
  const RasStatus& status = *ras.status;
  finding.measured = std::to_string(status.ranks);
  finding.unit = "ranks";
  finding.basis = format("RAS of NCCL {} at {}", status.version, ras.address);
  if (!status.missing.empty()) {
    std::vector<std::string> words;
    constexpr size_t kMostWords = 4;
    for (const RasProcess& process : status.missing)
      if (words.size() < kMostWords) words.push_back(process_text(process));
    const size_t more = status.missing.size() - words.size();
    finding.fail(
        ErrorCode::failed,
        format("by NCCL's RAS on {} {} not answer, while all ranks of the job live: {}{}",
               host.host,
               status.missing.size() == 1 ? std::string("a process does")
                                          : format("{} processes do", status.missing.size()),
               joined(words), more > 0 ? format(" and {} more", more) : ""),
        "RAS goes by the interface of NCCL's bootstrap (NCCL_SOCKET_IFNAME): look at its "
        "firewall and addresses");
    // Nobody is named for what one host cannot see.
    finding.at = {};
  } else if (!status.problems.empty()) {
    finding.warn(format(
        "by NCCL's RAS on {}: {}{}", host.host, status.problems.front(),
        status.problems.size() > 1 ? format(" (and {} more)", status.problems.size() - 1) : ""));
  } else if (status.timeouts > 0) {
    finding.warn(
        format("NCCL's RAS on {} waited {} times in vain for others", host.host, status.timeouts));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> nccl_seen_findings(const NcclReport& report) {
  std::vector<Finding> findings;
  for (const NcclOnHost& host : report.seen) {
    judge_log(host, report, findings);
    judge_ras(host, findings);
  }
  return findings;
}

}  // namespace collctl::cmd
