// Facts of the installed NCCL beside those of the other hosts.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/check/nccl.h"
#include "cmd/judge/odd_link.h"
#include "cmd/text/hosts.h"

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

}  // namespace collctl::cmd
