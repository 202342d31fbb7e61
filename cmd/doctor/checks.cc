// Judgement of the hosts' facts: some fail by themselves, some differ from the other hosts'.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "cmd/doctor/common_cause.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/odd_link.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

using launcher::HostFacts;

constexpr double kClockSeconds = 0.5;

// A fact that should be the same on all hosts.
struct ComparedFact {
  const char* name;
  bool must_agree;  // a difference is a failure, not only odd
  std::string (*value)(const HostFacts& facts);
  const char* remedy;
};

std::string memory_text(const HostFacts& facts) {
  // Firmware takes a little more here and there: a sixteenth is no difference.
  const double gib = double(facts.memory_bytes) / double(1 << 30);
  const double step = std::exp2(std::floor(std::log2(std::max(gib, 0.001)))) / 16;
  return format("{:.3g} GiB", std::round(gib / step) * step);
}

// "4x NVIDIA H100, 1x NVIDIA L4"
std::string kinds_text(const std::vector<std::string>& list) {
  std::map<std::string, int> kinds;
  for (const auto& each : list) ++kinds[each];
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += format("{}{}x {}", text.empty() ? "" : ", ", count, kind);
  return text.empty() ? "none" : text;
}

std::string gpu_text(const HostFacts& facts) {
  return kinds_text(facts.nvidia.gpus);
}

std::string rdma_text(const HostFacts& facts) {
  std::vector<std::string> rates;
  for (const auto& port : facts.rdma)
    if (port.state == "ACTIVE") rates.push_back(port.link + " " + port.rate);
  return kinds_text(rates);
}

std::string firmware_text(const HostFacts& facts) {
  std::vector<std::string> versions;
  for (const auto& device : facts.rdma_devices)
    if (!device.firmware.empty()) versions.push_back(device.firmware);
  return kinds_text(versions);
}

const ComparedFact kCompared[] = {
    {"machine", true, [](const HostFacts& f) { return f.system.machine; },
     "hosts of one architecture are measured alike; a mixed job wants --binary-for"},
    {"kernel", false, [](const HostFacts& f) { return f.system.kernel; }, ""},
    {"glibc", false, [](const HostFacts& f) { return f.system.libc; }, ""},
    {"cores", false, [](const HostFacts& f) { return std::to_string(f.cores); }, ""},
    {"memory", false, memory_text, ""},
    {"driver", true,
     [](const HostFacts& f) { return f.nvidia.driver.empty() ? "none" : f.nvidia.driver; },
     "install the same NVIDIA driver on all hosts; where it is missing, load it: modprobe nvidia"},
    {"gpus", true, gpu_text,
     "a GPU may have fallen off the bus: nvidia-smi, then dmesg | grep Xid"},
    {"firmware", false, firmware_text, ""},
    {"rdma", true, rdma_text, "look at the ports: ibstat; check cables and the subnet manager"},
};

// Told, and no fault by itself: pods and jobs get a part of a machine. A quota that is unlike its
// peers' is one (cgroup).
void less_than_machine(const HostFacts& facts, Finding& check) {
  if (facts.processors <= facts.cores) return;
  const bool quota = facts.cgroup.cores && *facts.cgroup.cores <= facts.cores;
  check.warn(format("{} of the machine's {} may be used (by {})", facts.cores,
                    counted(size_t(facts.processors), "processor"),
                    quota ? "its cgroup's quota" : "affinity or a cpuset"));
}

// Software and ports that the host's own PCI devices need and it lacks, whatever the other hosts
// have; empty: nothing.
std::string missing_of(const std::string& name, const HostFacts& facts) {
  const base::NvidiaFacts& nvidia = facts.nvidia;
  const bool active =
      std::ranges::any_of(facts.rdma, [](const auto& port) { return port.state == "ACTIVE"; });
  if (name == "rdma" && !facts.rdma.empty() && !active)
    return format("there {} {} RDMA port{}, and none is active",
                  facts.rdma.size() == 1 ? "is" : "are", facts.rdma.size(),
                  facts.rdma.size() == 1 ? "" : "s");
  const std::string there =
      format("PCI shows {} NVIDIA GPU{}", nvidia.on_pci, nvidia.on_pci == 1 ? "" : "s");
  if (name == "driver" && nvidia.driver.empty() && nvidia.on_pci > 0)
    return there + ", and no NVIDIA driver is loaded";
  if (name == "gpus" && int(nvidia.gpus.size()) < nvidia.on_pci)
    return there + format(", the driver has {} of them", nvidia.gpus.size());
  return "";
}

// Whether anybody has one: columns of hardware that nobody has are left out.
bool anywhere(const Survey& survey, const std::string& name) {
  return std::ranges::any_of(survey.hosts, [&](const SurveyedHost& host) {
    if (!host.facts) return false;
    if (name == "driver" || name == "gpus")
      return !host.facts->nvidia.driver.empty() || !host.facts->nvidia.gpus.empty() ||
             host.facts->nvidia.on_pci > 0;
    return (name != "rdma" && name != "firmware") || !host.facts->rdma.empty();
  });
}

class Examiner {
 public:
  Examiner(const Survey& survey, const Expectation& expect) : survey_(survey), expect_(expect) {}
  Diagnosis run();
  Diagnosis states();

 private:
  Finding& add(const char* name, const SurveyedHost& host, std::string measured) {
    return add_check(diagnosis_, name, host, std::move(measured));
  }
  void connections();
  void versions();
  void compare(const ComparedFact& what);
  void clocks();
  void sum_up();

  const Survey& survey_;
  const Expectation& expect_;
  Diagnosis diagnosis_;
};

void Examiner::connections() {
  for (const SurveyedHost& host : survey_.hosts) {
    Finding& check = add("connect", host, host.error ? "failed" : host.here ? "here" : "ok");
    if (host.error) {
      fail(check, "an agent that answers", host.error->chain(), host.error->hint,
           ErrorCode::launch);
      continue;
    }
    if (host.up_s <= 0) continue;
    check.measured = format("{:.3f}", host.up_s);
    check.unit = "s";
    check.cell = host.here ? "here" : format("{:.2f} s", host.up_s);
    check.message = plain(host.client);
  }
}

void Examiner::versions() {
  for (const SurveyedHost& host : survey_.hosts) {
    if (!host.facts) continue;
    Finding& check = add("version", host, host.facts->version);
    if (host.facts->version != survey_.self.version)
      fail(check, survey_.self.version,
           format("{} is there, {} is here", host.facts->version, survey_.self.version),
           "send this binary: --stage always, without --remote-path");
    else if (host.facts->binary != survey_.self.binary &&
             host.facts->system.machine == survey_.self.system.machine)
      fail(check, survey_.self.binary,
           format("another build of {} is there (SHA-256 {:.12}...)", host.facts->version,
                  host.facts->binary),
           "send this binary: --stage always, without --remote-path");
  }
}

void Examiner::compare(const ComparedFact& what) {
  std::vector<std::string> values;
  for (const SurveyedHost& host : survey_.hosts)
    if (host.facts) values.push_back(what.value(*host.facts));
  const std::string most = usual_value(values);
  const std::string others = most.empty() ? listed_values(values) : "";
  for (const SurveyedHost& host : survey_.hosts) {
    if (!host.facts) continue;
    const std::string value = what.value(*host.facts);
    Finding& check = add(what.name, host, value);
    if (const std::string missing = missing_of(what.name, *host.facts); !missing.empty()) {
      check.odd = value != most;
      const char* wanted = std::string_view(what.name) == "rdma" ? "an active port"
                           : host.facts->nvidia.driver.empty()   ? "a driver for them"
                                                                 : "all of them";
      fail(check, wanted, missing, what.remedy);
      continue;
    }
    if (std::string_view(what.name) == "gpus" && !host.gpus.message.empty()) {
      check.odd = value != most;
      fail(check, "a driver that starts", host.gpus.message, host.gpus.hint);
      continue;
    }
    if (std::string_view(what.name) == "cores") less_than_machine(*host.facts, check);
    if (value == most) continue;
    check.odd = true;
    if (!most.empty()) check.basis = "most hosts have it";
    const std::string message = most.empty() ? format("the hosts differ: {}", others)
                                             : format("{} here, {} on most hosts", value, most);
    if (what.must_agree) {
      fail(check, most, message, what.remedy);
    } else {
      check.expected = plain(most);
      check.message += (check.message.empty() ? "" : "; ") + plain(message);
    }
  }
}

// Against the median of the hosts, so that a wrong clock here blames nobody else.
void Examiner::clocks() {
  std::vector<double> offsets;
  for (const SurveyedHost& host : survey_.hosts)
    if (host.facts && !host.error) offsets.push_back(host.clock_offset_s);
  if (offsets.empty()) return;
  std::nth_element(offsets.begin(), offsets.begin() + long(offsets.size() / 2), offsets.end());
  const double median = offsets[offsets.size() / 2];
  for (const SurveyedHost& host : survey_.hosts) {
    if (!host.facts || host.error) continue;
    const double off = host.clock_offset_s - median;
    Finding& check = add("clock", host, format("{:.3f}", off * 1e3));
    check.unit = "ms";
    check.cell = std::fabs(off) < 10 ? format("{:+.1f} ms", off * 1e3) : format("{:+.0f} s", off);
    if (std::fabs(off) <= kClockSeconds + host.clock_error_s) continue;
    check.odd = true;
    fail(check, format("within {:.0f} of the other hosts", kClockSeconds * 1e3),
         format("its clock is {:.3f} s {} that of the other hosts", std::fabs(off),
                off > 0 ? "ahead of" : "behind"),
         "start a time service: systemctl enable --now chrony");
  }
}

// The reasons by check, and who could not be asked.
void Examiner::sum_up() {
  std::map<std::string, std::vector<Host>> failed;
  bool untested = false;
  for (const Finding& check : diagnosis_.checks) {
    untested = untested || check.status == FindingStatus::not_tested;
    if (check.status != FindingStatus::fail) continue;
    auto& hosts = failed[check.name];
    if (hosts.empty() || hosts.back() != check.at.host) hosts.push_back(check.at.host);
  }
  for (const auto& [name, hosts] : failed)
    diagnosis_.summary.push_back(
        format("{} failed on {} {}", name, hosts.size(), hosts.size() == 1 ? "host" : "hosts"));
  if (untested) diagnosis_.summary.push_back("not everything was tested");
  std::vector<Unreached> unreached;
  for (const SurveyedHost& host : survey_.hosts)
    if (host.error) unreached.push_back({host.spec.host(), *host.error});
  std::vector<Culprit> culprits;
  std::vector<bool> explained(unreached.size());
  for (const CommonCause& cause : common_causes(unreached, survey_.hosts.size())) {
    culprits.push_back(
        {SubjectKind::launcher, survey_.self.host, 1.0, plain(cause.evidence), false, {}});
    for (const size_t i : cause.of) {
      explained[i] = true;
      for (Finding& check : diagnosis_.checks)
        if (check.at.host == unreached[i].host && check.name == "connect")
          check.reason = kOfLauncher;
    }
  }
  for (size_t i = 0; i < unreached.size(); ++i)
    if (!explained[i])
      culprits.push_back({SubjectKind::host, unreached[i].host.name, 1.0,
                          plain(unreached[i].error.chain()), true, unreached[i].host});
  diagnosis_.culprits.insert(diagnosis_.culprits.begin(), culprits.begin(), culprits.end());
}

Diagnosis Examiner::run() {
  connections();
  versions();
  for (const ComparedFact& what : kCompared)
    if (anywhere(survey_, what.name)) compare(what);
  for (const SurveyedHost& host : survey_.hosts) {
    if (!host.facts) continue;
    add_limit_checks(host, survey_, diagnosis_);
    add_choice_check(host, survey_.choice, diagnosis_);
    add_rdma_checks(host, diagnosis_);
    add_expectations(host.spec.host(), *host.facts, expect_, diagnosis_.checks);
  }
  add_state_checks(survey_, diagnosis_);
  if (survey_.hosts.size() > 1) {
    clocks();
    add_network_checks(survey_, diagnosis_);
    add_reach_checks(survey_, diagnosis_);
  }
  sum_up();
  return std::move(diagnosis_);
}

Diagnosis Examiner::states() {
  add_state_checks(survey_, diagnosis_);
  sum_up();
  return std::move(diagnosis_);
}

}  // namespace

Finding& add_check(Diagnosis& diagnosis, const char* name, const SurveyedHost& host,
                   std::string measured) {
  Finding& check = diagnosis.checks.emplace_back(host_finding(name, host.spec.host()));
  check.measured = plain(std::move(measured));
  return check;
}

void fail(Finding& check, std::string expected, std::string message, std::string remedy,
          ErrorCode code) {
  check.expected = plain(std::move(expected));
  check.fail(code, plain(std::move(message)), std::move(remedy));
}

std::string listed_values(const std::vector<std::string>& values) {
  std::map<std::string, int> counts;
  for (const auto& value : values) ++counts[value];
  std::string text;
  for (const auto& [value, count] : counts)
    text += format("{}{} on {}", text.empty() ? "" : ", ", value, count);
  return text;
}

Diagnosis diagnose_hosts(const Survey& survey, const Expectation& expect) {
  return Examiner(survey, expect).run();
}

Diagnosis diagnose_states(const Survey& survey) {
  const Expectation nothing;
  return Examiner(survey, nothing).states();
}

}  // namespace collctl::cmd
