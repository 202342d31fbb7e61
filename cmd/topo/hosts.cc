#include "cmd/topo/hosts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/record.h"
#include "base/whole_file.h"
#include "cmd/job/host_questions.h"
#include "cmd/judge/topology.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/topo/diff.h"
#include "cmd/topo/parts.h"
#include "launcher/remote/probe.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {
namespace {

// A detection takes a second; a busy host with many GPUs several.
constexpr double kDetectSeconds = 60;
constexpr size_t kMostDifferences = 12;  // of one host's differences
// A host whose devices are mostly at the same addresses is compared by them.
constexpr double kSameBuild = 0.5;

// Answer of a host's agent to kAskTopology.
struct Answer {
  std::string schema = "collctl.topo-answer/1", xml;
  std::vector<topology::Finding> findings;
  std::optional<launcher::RdmaFacts> rdma;
  uint64_t memlock_bytes = base::kUnlimited;
};

void fields(Record& io, Answer& answer) {
  io.unless_empty("schema", answer.schema);
  io.field("xml", answer.xml, Record::kMostDocument);
  io.field("findings", answer.findings);
  io.unless_empty("rdma", answer.rdma);
  if (answer.rdma) io.field("memlock_bytes", answer.memlock_bytes);
}

std::string names_of(const std::vector<HostTopology>& hosts, const std::vector<int>& group) {
  std::vector<std::string> names;
  for (const int host : group) names.push_back(hosts[size_t(host)].host.name);
  return folded_hosts(names);
}

std::vector<Difference> differences_of(const HostTopology& usual, const HostTopology& odd) {
  CompareOptions options{MatchBy::bus_id, false};
  if (shared_bus_ids(usual.view->system, odd.view->system) < kSameBuild)
    options.match = MatchBy::place;
  auto list = compare_machines(usual.view->system, odd.view->system, options);
  // The same devices at other addresses, and something else besides: by place it shows.
  if (list.empty() || options.match == MatchBy::place) return list;
  auto by_place = compare_machines(usual.view->system, odd.view->system, {MatchBy::place, false});
  return by_place.size() < list.size() ? by_place : list;
}

Result<TopoView> view_of_file(const std::string& path) {
  ViewOptions options;
  options.from = path;
  return read_view(options);
}

std::string painted(const std::string& text, const char* sgr, const TreeStyle& style) {
  return style.colours ? format("\x1b[{}m{}\x1b[0m", sgr, text) : text;
}

std::string odd_text(const std::vector<HostTopology>& hosts, const std::vector<int>& usual,
                     const std::vector<int>& odd, const TreeStyle& style) {
  const auto list = differences_of(hosts[size_t(usual.front())], hosts[size_t(odd.front())]);
  std::string text = painted(names_of(hosts, odd), "1", style) +
                     format(": {} from {}\n", counted(list.size(), "difference"),
                            hosts[size_t(usual.front())].host.name);
  const size_t shown = style.unfold ? list.size() : std::min(list.size(), kMostDifferences);
  for (size_t i = 0; i < shown; ++i)
    text += "  " + painted("! " + difference_text(list[i]), "1;31", style) + "\n";
  if (shown < list.size()) text += format("  and {} more; -v shows them\n", list.size() - shown);
  return text;
}

}  // namespace

Result<std::string> topology_answer() {
  COLL_ASSIGN(const TopoView view, read_view(ViewOptions{}));
  Answer answer;
  answer.xml = topology::write_xml(view.system);
  answer.findings = view.findings;
  if (view.gpu_direct) answer.rdma = {view.rdma, *view.gpu_direct};
  answer.memlock_bytes = view.memlock_bytes;
  return json_of(answer);
}

Result<TopoView> view_of_answer(const std::string& text, const std::string& host) {
  auto answer = record_of<Answer>(text);
  if (!answer)
    return Error(ErrorCode::launch,
                 format("{}: what its agent says of the topology cannot be read: {}", host,
                        plain(answer.error().message)),
                 "is the same version of collctl there? --stage always sends this one");
  if (answer->findings.size() > topology::kMaxFindings)
    answer->findings.resize(topology::kMaxFindings);
  for (topology::Finding& finding : answer->findings)
    for (std::string* said : {&finding.what, &finding.where, &finding.remedy}) *said = plain(*said);
  COLL_ASSIGN(topology::Document document, topology::read_xml(answer->xml, host));
  COLL_ASSIGN(TopoView view, view_of(std::move(document.system), host, {}));
  view.live = true;
  view.findings = std::move(answer->findings);  // the host has said all that follows from it
  view.memlock_bytes = answer->memlock_bytes;
  if (!answer->rdma) return view;
  view.rdma = std::move(answer->rdma->rdma_devices);
  view.gpu_direct = std::move(answer->rdma->gpu_direct);
  return view;
}

Result<std::vector<HostTopology>> ask_topologies(const LaunchOptions& launch) {
  if (launch.hosts.hosts.empty()) {
    std::vector<HostTopology> here(1);
    here[0].host = base::this_host();
    auto view = read_view(ViewOptions{});
    if (view.ok())
      here[0].view = std::move(*view);
    else
      here[0].error = std::move(view.error());
    return here;
  }
  Interrupts interrupts(false);
  COLL_ASSIGN(const auto questions, HostQuestions::make(launch, interrupts));
  COLL_TRY(questions->bring_up());
  questions->talk("detecting");
  COLL_ASSIGN(const auto answers, questions->ask(kAskTopology, kDetectSeconds, [](int) {
    return std::optional<std::string>("");
  }));
  std::vector<HostTopology> hosts;
  for (int i = 0; i < questions->pool().size(); ++i) {
    const launcher::HostLink& link = questions->pool().host(i);
    HostTopology host{link.spec().host(), link.error(), {}};
    const auto& text = answers[size_t(i)].text;
    if (!host.error && !text) host.error = Error(ErrorCode::lost, "it was not asked");
    if (!host.error && !text->ok()) host.error = text->error();
    if (!host.error) {
      auto view = view_of_answer(text->value(), host.host.name);
      if (view.ok())
        host.view = std::move(*view);
      else
        host.error = std::move(view.error());
    }
    hosts.push_back(std::move(host));
  }
  questions->talk("");
  questions->leave();
  return hosts;
}

std::vector<std::vector<int>> group_hosts(const std::vector<HostTopology>& hosts) {
  std::vector<std::vector<int>> groups;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!hosts[i].view) continue;
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return compare_machines(hosts[size_t(group.front())].view->system, hosts[i].view->system,
                              {MatchBy::place, false})
          .empty();
    });
    if (same != groups.end())
      same->push_back(int(i));
    else
      groups.push_back({int(i)});
  }
  std::ranges::stable_sort(groups,
                           [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return groups;
}

std::vector<Finding> hosts_findings(const std::vector<HostTopology>& hosts,
                                    const std::vector<std::vector<int>>& groups, bool strict) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < hosts.size(); ++i) {
    Finding machine = host_finding("machine", hosts[i].host);
    const bool odd = hosts[i].view && std::ranges::find(groups[0], int(i)) == groups[0].end();
    machine.odd = odd;
    if (hosts[i].error) machine.fail(ErrorCode::launch, hosts[i].error->chain());
    if (odd) machine.fail(ErrorCode::failed, "it is built in another way than most hosts");
    findings.push_back(std::move(machine));
    if (!hosts[i].view) continue;
    for (Finding& finding : topology_findings(hosts[i].view->findings, strict)) {
      finding.at.host = hosts[i].host;
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

std::string hosts_text(const std::vector<HostTopology>& hosts,
                       const std::vector<std::vector<int>>& groups, const TreeStyle& style) {
  const auto lost =
      size_t(std::ranges::count_if(hosts, [](const auto& host) { return bool(host.error); }));
  std::string text = format("# {}", counted(hosts.size(), "host"));
  if (groups.size() == 1 && groups[0].size() > 1)
    text += format(": {} equal", lost > 0 ? std::to_string(groups[0].size()) : "all");
  else if (groups.size() > 1)
    text += format(": {} different machines", groups.size());
  if (lost > 0) text += format(", {} could not be asked", lost);
  text += "\n";
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i > 0) {
      text += odd_text(hosts, groups[0], groups[i], style);
      continue;
    }
    if (groups[0].size() > 1) text += names_of(hosts, groups[0]) + ":\n";
    text += topo_tree(*hosts[size_t(groups[0].front())].view, style);
  }
  std::string ports;
  for (const HostTopology& host : hosts)
    if (host.view) ports += topo_ports(*host.view, host.host.name, style.unfold);
  if (!ports.empty()) text += "RDMA ports:\n" + ports;
  for (const HostTopology& host : hosts) {
    if (!host.error) continue;
    text += painted("FAIL " + host.host.name, "1;31", style) + ": " +
            plain(base::without_head(host.error->message, host.host.name + ": ")) + "\n";
    if (!host.error->hint.empty()) text += "  remedy: " + plain(host.error->hint) + "\n";
  }
  return text;
}

std::string hosts_json(const std::vector<HostTopology>& hosts,
                       const std::vector<std::vector<int>>& groups) {
  JsonWriter out;
  begin_document(out, "collctl.topo-hosts/1");
  out.objects("hosts", hosts, [&](const HostTopology& host) {
    out.field("host", host.host);
    if (host.view) out.key("topo").raw(topo_json(*host.view, host.graphs));
    if (host.error)
      out.key("error")
          .begin_object()
          .field("code", base::code_name(host.error->code))
          .field("message", host.error->message)
          .field("hint", host.error->hint)
          .end_object();
  });
  out.key("groups").begin_array();
  for (const auto& group : groups) {
    out.begin_object();
    out.list("hosts", group, [&](int host) -> const Host& { return hosts[size_t(host)].host; });
    out.key("differences").begin_array();
    if (&group != &groups.front())
      for (const Difference& each :
           differences_of(hosts[size_t(groups.front().front())], hosts[size_t(group.front())]))
        out.value(difference_text(each));
    out.end_array().end_object();
  }
  return out.end_array().end_object().take();
}

std::string file_of_host(std::string pattern, const std::string& host) {
  std::string name = host;  // never a way out of the folder
  std::replace(name.begin(), name.end(), '/', '_');
  for (size_t at = 0; (at = pattern.find("%h", at)) != std::string::npos; at += name.size())
    pattern.replace(at, 2, name);
  return pattern;
}

Status save_hosts(const std::vector<HostTopology>& hosts, const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return base::errno_error(ErrorCode::unavailable, folder, errno);
  for (const HostTopology& host : hosts)
    if (host.view)
      COLL_TRY(base::write_file_atomically(file_of_host(folder + "/%h.xml", host.host.name),
                                           topology::write_xml(host.view->system)));
  return {};
}

Result<HostsDiff> diff_hosts(const std::vector<HostTopology>& hosts, const std::string& golden) {
  struct stat status {};
  const bool folder = ::stat(golden.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                      ::access((golden + "/sys").c_str(), F_OK) != 0;  // else a snapshot
  std::optional<HostTopology> usual;
  if (!folder) {
    COLL_ASSIGN(TopoView view, view_of_file(golden));
    usual = {.host = {HostId::none, golden}, .view = std::move(view)};
  }
  HostsDiff made;
  std::vector<std::string> equal;
  JsonWriter json;
  begin_document(json, "collctl.topo-hosts-diff/1").field("golden", golden);
  json.key("hosts").begin_array();
  for (const HostTopology& host : hosts) {
    Finding& finding = made.findings.emplace_back(host_finding("machine", host.host));
    const std::string own = file_of_host(golden + "/%h.xml", host.host.name);
    std::vector<Difference> list;
    if (host.error) {
      finding.fail(ErrorCode::launch, host.error->chain(), host.error->hint);
    } else if (!folder) {
      list = differences_of(*usual, host);
    } else if (auto was = view_of_file(own); was) {
      list = compare_machines(was->system, host.view->system);
    } else {
      finding.leave_out(format("{}: {}", host.host, was.error().chain()),
                        "collctl topo -H ... --save DIR makes such files");
    }
    if (!list.empty())
      finding.fail(ErrorCode::failed,
                   format("{}: {} from {}", host.host, counted(list.size(), "difference"),
                          folder ? own : golden));
    if (finding.message.empty()) {
      finding.message = format("{}: no difference", host.host);
      equal.push_back(host.host.name);
    } else {
      made.text += plain(finding.message) + "\n";
    }
    json.begin_object().field("host", host.host).field("status", status_word(finding.status));
    json.field("message", finding.message).key("differences").begin_array();
    for (const Difference& each : list) {
      made.text += "  " + difference_text(each) + "\n";
      json.value(difference_text(each));
    }
    json.end_array().end_object();
  }
  if (!equal.empty()) made.text += plain(format("{}: no difference\n", folded_hosts(equal)));
  made.json = json.end_array().end_object().take();
  return made;
}

}  // namespace collctl::cmd
