#include "cmd/check/counters.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/whole_number.h"
#include "cmd/job/host_questions.h"
#include "cmd/judge/counter_state.h"
#include "cmd/judge/xids.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

using base::CounterOf;
using namespace remedies;

constexpr double kReadSeconds = 20;  // a driver that wakes sleeping GPUs
constexpr double kStateSeconds = 60;
constexpr double kRetransmitted = 0.01;  // of all TCP segments: more slows a collective down
constexpr uint64_t kLeastSegments = 1000;

struct CounterRule {
  CounterOf kind;
  const char* begins;  // its name
  bool fault;          // else: to know
  uint64_t least;      // growth that is told
  const char* meaning;
  const char* remedy;
};
constexpr const char* kCongestion =
    "packets were lost or repeated: look at the switch's buffers, PFC and ECN, and at cables";
constexpr const char* kCooling =
    "look at fans, air flow and the inlet temperature (nvidia-smi -q "
    "-d TEMPERATURE,PERFORMANCE)";
constexpr const char* kPower =
    "look at the power limit (nvidia-smi -q -d POWER) and the power supplies";
constexpr const char* kLinkErrors =
    "many on one GPU: look at nvidia-smi nvlink -e and at the NVSwitches' logs";
constexpr const char* kXid = "xid ";
// THE table of counters; the first row that fits holds, what has none is not told.
constexpr CounterRule kRules[] = {
    {CounterOf::gpu, kXid, true, 1, "", ""},  // each by its number (xids.h)
    {CounterOf::gpu, "ecc_corrected", false, 1, "memory errors were corrected", kMemory},
    {CounterOf::gpu, "ecc_uncorrected", true, 1, "memory errors could not be corrected", kMemory},
    {CounterOf::gpu, "rows_remapped_corrected", false, 1, "rows of memory were remapped", kMemory},
    {CounterOf::gpu, "rows_rem", true, 1, "rows of memory were remapped, or are to be", kMemory},
    // A healthy link under load repeats a packet now and then: seen on two H100, 10 to 47 in 10 s.
    {CounterOf::gpu, "nvlink_crc", false, 1, "NVLink packets arrived damaged and were repeated",
     "few are usual under load; many on one link: look at nvidia-smi nvlink -e"},
    // NVLink 5 corrects most by itself; no Blackwell has been seen under load yet.
    {CounterOf::gpu, "nvlink_rcv_", false, 1, "NVLinks received what was wrong", kLinkErrors},
    {CounterOf::gpu, "nvlink_discards", false, 1, "NVLinks discarded packets", kLinkErrors},
    {CounterOf::gpu, "nvlink_recovered", false, 1, "NVLinks had to recover", kLinkErrors},
    {CounterOf::gpu, "nvlink_effective", false, 1,
     "NVLinks had errors that were left after "
     "correction",
     kLinkErrors},
    {CounterOf::gpu, "nvlink_symbol", false, 1, "NVLinks had wrong symbols", kLinkErrors},
    {CounterOf::gpu, "c2c_", false, 1, "its link to the CPU had errors or repeated data",
     "many in a short time: drain the host and have the board looked at"},
    {CounterOf::gpu, "nvlink", true, 1, "NVLinks had errors or repeated data",
     "look at nvidia-smi nvlink -e, reseat the GPU board or exchange the NVLink bridge or cable"},
    {CounterOf::gpu, "pcie_replays", false, 1, "PCIe packets were repeated", kSlot},
    {CounterOf::gpu, "throttled_power", false, 1'000'000, "it was slowed down by its power limit",
     kPower},
    {CounterOf::gpu, "throttled_thermal", true, 1'000'000, "it was slowed down by its temperature",
     kCooling},
    {CounterOf::gpu, "throttled_", true, 1'000'000, "it was slowed down by its board", kPower},
    {CounterOf::nic, "link_downed", true, 1, "the link went down", kCable},
    {CounterOf::nic, "carrier_down_count", true, 1, "the link went down", kCable},
    {CounterOf::nic, "symbol_error", true, 1, "symbols were wrong", kCable},
    {CounterOf::nic, "phy_symbol_errors", true, 1, "symbols were wrong", kCable},
    {CounterOf::nic, "fec_uncorrected", true, 1, "blocks arrived damaged beyond correction",
     kCable},
    // Fast links live by it: any number is usual.
    {CounterOf::nic, "fec_corrected", false, ~uint64_t{0}, "", ""},
    {CounterOf::nic, "link_error_recovery", true, 1, "the link had to recover", kCable},
    {CounterOf::nic, "local_link_integrity", true, 1, "the link is bad", kCable},
    {CounterOf::nic, "port_rcv_switch_relay", false, 1, "packets were not for it", kCongestion},
    {CounterOf::nic, "port_rcv_", true, 1, "packets arrived damaged", kCable},
    {CounterOf::nic, "excessive_buffer", true, 1, "buffers overran", kCongestion},
    {CounterOf::nic, "rx_icrc", true, 1, "packets arrived damaged", kCable},
    {CounterOf::nic, "rx_crc_errors", true, 1, "frames arrived damaged", kCable},
    {CounterOf::nic, "rx_frame_errors", true, 1, "frames arrived damaged", kCable},
    {CounterOf::nic, "tx_carrier_errors", true, 1, "the carrier was lost", kCable},
    {CounterOf::nic, "rx_errors", true, 1, "frames arrived damaged", kCable},
    {CounterOf::nic, "tx_errors", true, 1, "frames could not be sent", kCable},
    {CounterOf::nic, "rx_dropped", false, 100, "packets were dropped",
     "raise the ring sizes (ethtool -G) and look at the load of the cores that receive"},
    {CounterOf::nic, "rx_", false, 1, "packets were dropped",
     "raise the ring sizes (ethtool -G) and look at the load of the cores that receive"},
    {CounterOf::nic, "tx_", false, 10, "packets were dropped", kCongestion},
    {CounterOf::nic, "", false, 1, "packets were discarded or repeated", kCongestion},
    {CounterOf::pci, "aer_correctable", false, 1, "errors of its PCIe link were corrected", kSlot},
    {CounterOf::pci, "aer_", true, 1, "its PCIe link had errors", kSlot},
    {CounterOf::host, "InErrs", false, 1, "TCP segments arrived damaged", kCable},
    {CounterOf::host, "ce_count", false, 1, "errors of its memory were corrected", remedies::kDimm},
    {CounterOf::host, "ue_count", true, 1, "errors of its memory could not be corrected",
     remedies::kDimm},
};

// A counter's finding in words: by its rule, or the Xid that it counts.
struct Told {
  bool fault;
  std::string meaning;
  const char* remedy;
};
// While the check ran no program but its own did: an Xid of programs is a fault as well.
Told growth_told(const CounterRule& rule, const base::DeviceCounter& counter) {
  if (std::string_view(rule.begins) != kXid) return {rule.fault, rule.meaning, rule.remedy};
  const Xid xid = xid_of(counter.name.substr(std::string_view(kXid).size()));
  return {xid.cure != XidCure::nothing, xid.meaning, xid.remedy()};
}

const CounterRule* rule_of(const base::DeviceCounter& counter) {
  for (const CounterRule& rule : kRules)
    if (rule.kind == counter.kind && counter.name.starts_with(rule.begins)) return &rule;
  return nullptr;
}

SubjectKind subject_of(CounterOf kind) {
  if (kind == CounterOf::gpu) return SubjectKind::gpu;
  return kind == CounterOf::nic ? SubjectKind::nic : SubjectKind::host;
}

uint64_t value_of(const base::DeviceCounters& all, const base::DeviceCounter& which) {
  for (const base::DeviceCounter& counter : all.counters)
    if (counter.kind == which.kind && counter.device == which.device && counter.name == which.name)
      return counter.value;
  return 0;  // left out, as what is 0
}

// A driver that was loaded again counts from 0.
uint64_t growth_of(const base::DeviceCounters& before, const base::DeviceCounter& after) {
  const uint64_t old = value_of(before, after);
  return after.value > old ? after.value - old : 0;
}

std::string grown(const base::DeviceCounter& counter, uint64_t by) {
  return counter.name.ends_with("_ns") ? format("{:.3g} ms", double(by) / 1e6)
                                       : format("{} more", by);
}

void add_retransmissions(const Host& host, const base::DeviceCounters& before,
                         const base::DeviceCounters& after, std::vector<Finding>& findings) {
  const auto more = [&](const char* name) {
    const base::DeviceCounter which{CounterOf::host, "tcp", name, 0};
    base::DeviceCounter now = which;
    now.value = value_of(after, which);
    return growth_of(before, now);
  };
  const uint64_t sent = more("OutSegs"), again = more("RetransSegs");
  if (sent < kLeastSegments || double(again) < kRetransmitted * double(sent)) return;
  Finding finding = host_finding("counters/RetransSegs", host);
  finding.at.device = "tcp";
  finding.measured = format("{:.3g}", 100 * double(again) / double(sent));
  finding.expected = format("{:g}", 100 * kRetransmitted);
  finding.unit = "%";
  finding.warn(
      format("{}: {} of {} TCP segments were sent again during the check", host, again, sent),
      kCongestion);
  findings.push_back(std::move(finding));
}

// Values that are bad by themselves, unless they grew and are told.
void add_states(const Host& host, const base::DeviceCounters& after,
                std::vector<Finding>& findings) {
  const size_t grown = findings.size();
  for (const base::DeviceCounter& counter : after.counters) {
    // For the others `doctor` knows which belong to a job's devices, and since when they count.
    const auto rule = counter.kind == CounterOf::gpu ? counter_state(counter, 0) : std::nullopt;
    if (!rule) continue;
    Finding finding{.name = format("counters/{}", counter.name),
                    .at = {.kind = SubjectKind::gpu, .host = host, .device = counter.device}};
    if (std::any_of(findings.begin(), findings.begin() + ptrdiff_t(grown), [&](const Finding& f) {
          return f.name == finding.name && f.at.device == finding.at.device;
        }))
      continue;
    finding.measured = std::to_string(counter.value);
    finding.expected = "0";
    finding.basis = "state, not growth";
    finding.warn(format("{}: {}: {} ({}: {})", host, plain(counter.device), rule->meaning,
                        plain(counter.name), counter.value),
                 rule->remedy);
    if (rule->fault) finding.fail(ErrorCode::failed, finding.message, rule->remedy);
    findings.push_back(std::move(finding));
  }
}

// None: that is not told.
const CounterRule* rule_of_growth(const base::DeviceCounter& counter, uint64_t growth) {
  const CounterRule* const rule = rule_of(counter);
  return rule != nullptr && growth >= rule->least ? rule : nullptr;
}

Finding growth_finding(const Host& host, const CounterRule& rule,
                       const base::DeviceCounter& counter, uint64_t growth) {
  Finding finding{.name = format("counters/{}", counter.name),
                  .at = {.kind = subject_of(counter.kind), .host = host, .device = counter.device}};
  finding.measured = std::to_string(growth);
  finding.expected = "0";
  finding.unit = counter.name.ends_with("_ns") ? "ns" : "";
  finding.basis = "growth during the check";
  const Told said = growth_told(rule, counter);
  finding.warn(format("{}: {}: {} during the check ({}: {})", host, plain(counter.device),
                      said.meaning, plain(counter.name), grown(counter, growth)),
               said.remedy);
  if (said.fault) finding.fail(ErrorCode::failed, finding.message, said.remedy);
  return finding;
}

}  // namespace

Result<std::string> counters_answer(const std::string& argument) {
  const auto from = base::whole_number<uint64_t>(argument);
  if (!argument.empty() && !from)
    return Error(ErrorCode::usage, format("'{}' is no number of a message", argument));
  return json_of(base::device_counters(from.value_or(~uint64_t{0})));
}

Result<std::map<Host, HostCounters>> ask_counters(const LaunchOptions& launch,
                                                  const std::map<Host, HostCounters>& before) {
  std::map<Host, HostCounters> hosts;
  const auto argument = [&](const Host& host) -> std::optional<std::string> {
    if (before.empty()) return "";
    const auto at = before.find(host);
    if (at == before.end() || at->second.error) return std::nullopt;
    return std::to_string(at->second.counters.log_end);
  };
  const auto take = [&](const Host& host, const Result<std::string>& answer) {
    HostCounters& entry = hosts[host];
    auto read = answer ? record_of<base::DeviceCounters>(*answer) : answer.error();
    if (read)
      entry.counters = std::move(*read);
    else
      entry.error = std::move(read.error());
  };
  if (launch.hosts.hosts.empty()) {
    const Host& here = base::this_host();
    if (const auto from = argument(here)) take(here, counters_answer(*from));
    if (!before.empty()) hosts[here].state.state = base::host_state();
    return hosts;
  }
  Interrupts interrupts(false);
  COLL_ASSIGN(const auto questions, HostQuestions::make(launch, interrupts));
  COLL_TRY(questions->bring_up());
  const auto name = [&](int host) { return questions->pool().host(host).spec().host(); };
  questions->talk("reading counters");
  COLL_ASSIGN(const auto answers, questions->ask(kAskCounters, kReadSeconds,
                                                 [&](int host) { return argument(name(host)); }));
  for (int i = 0; i < questions->pool().size(); ++i) {
    if (answers[size_t(i)].text)
      take(name(i), *answers[size_t(i)].text);
    else if (const auto& error = questions->pool().host(i).error())
      take(name(i), *error);
  }
  if (!before.empty()) {
    COLL_ASSIGN(const auto states, questions->ask(kAskState, kStateSeconds,
                                                  [&](int host) { return argument(name(host)); }));
    for (int i = 0; i < questions->pool().size(); ++i)
      if (states[size_t(i)].text) hosts[name(i)].state = state_said(*states[size_t(i)].text);
  }
  questions->talk("");
  questions->leave();
  return hosts;
}

std::vector<Finding> growth_findings(const Host& host, std::span<const CounterGrowth> grew) {
  std::vector<Finding> findings;
  struct Line {
    size_t finding = 0;
    size_t counters = 0;
    uint64_t sum = 0;
    const CounterGrowth* worst = nullptr;
  };
  std::map<std::pair<std::string, const CounterRule*>, Line> lines;  // by device
  for (const CounterGrowth& each : grew) {
    const CounterRule* const rule = rule_of_growth(each.counter, each.by);
    if (rule == nullptr) continue;
    Line& line = lines[{each.counter.device, rule}];
    line.sum += each.by;
    if (line.worst == nullptr || each.by > line.worst->by) line.worst = &each;
    if (++line.counters > 1 && !rule->fault) {
      Finding& first = findings[line.finding];
      first.measured = std::to_string(line.sum);
      first.message = format("{}: {}: {} during the check ({} counters: {}; most: {}, {})", host,
                             plain(each.counter.device), rule->meaning, line.counters,
                             grown(each.counter, line.sum), plain(line.worst->counter.name),
                             grown(line.worst->counter, line.worst->by));
      continue;
    }
    line.finding = findings.size();
    findings.push_back(growth_finding(host, *rule, each.counter, each.by));
  }
  return findings;
}

std::vector<Finding> counter_findings(const Host& host, const base::DeviceCounters& before,
                                      const base::DeviceCounters& after) {
  std::vector<CounterGrowth> grew;
  for (const base::DeviceCounter& counter : after.counters)
    if (const uint64_t by = growth_of(before, counter); rule_of_growth(counter, by) != nullptr)
      grew.push_back({counter, by});
  std::vector<Finding> findings = growth_findings(host, grew);
  add_states(host, after, findings);
  add_retransmissions(host, before, after, findings);
  Finding all = host_finding("counters/read", host);
  all.n = all.of = after.looked_at;
  if (!after.nvml_missing.empty())
    all.leave_out(
        format("{}: its GPUs' counters cannot be read: {}", host, plain(after.nvml_missing)),
        "collctl doctor says what is wrong with the driver");
  all.cell = grew.empty() ? "" : format("{} grew", grew.size());
  // Without GPUs nothing is missed.
  const bool gpus = std::ranges::any_of(
      after.counters, [](const auto& each) { return each.kind == CounterOf::gpu; });
  if (gpus && !after.log_missing.empty() && all.status == FindingStatus::pass)
    all.warn(format("{}: Xids are not known, the kernel's log cannot be read ({})", host,
                    plain(after.log_missing)),
             "root, or sysctl kernel.dmesg_restrict=0, lets it be read");
  findings.push_back(std::move(all));
  return findings;
}

std::vector<Finding> later_states(const std::map<Host, HostCounters>& after,
                                  const std::vector<Finding>& told) {
  std::vector<StateOfHost> states;
  std::vector<Finding> findings;
  for (const auto& [host, read] : after) {
    if (read.state.state) states.push_back({host, &*read.state.state});
    if (read.state.missing.empty()) continue;
    findings.push_back(host_finding("counters/state", host)
                           .leave_out(format("{}: the state of its devices was not read: {}", host,
                                             plain(read.state.missing))));
  }
  for (Finding& finding : state_findings(states)) {
    // "state/FACT" is "doctor/state/FACT" of the one and "counters/FACT" of the other; an Xid that
    // came during the check is no earlier one.
    const size_t slash = finding.name.find('/');
    if (slash == finding.name.npos) continue;
    const std::string fact = finding.name.substr(slash + 1);
    const std::string recent = base::without_head(fact, "earlier_");
    if (std::ranges::any_of(told, [&](const Finding& known) {
          return known.at == finding.at &&
                 (known.name == "doctor/" + finding.name || known.name == "counters/" + fact ||
                  known.name == "counters/" + recent);
        }))
      continue;
    finding.name = "counters/" + finding.name;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace collctl::cmd
