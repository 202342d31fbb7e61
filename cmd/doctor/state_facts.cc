// THE table of facts that are wrong by themselves or worth knowing.
#include <algorithm>
#include <cstdlib>

#include "base/format.h"
#include "base/host_devices.h"
#include "cmd/doctor/state_rules.h"
#include "cmd/judge/counter_state.h"

namespace collctl::cmd {
namespace {

using base::CounterOf;
using base::DeviceState;

// NVLinks of boards that have all of them connected, whatever the number of GPUs; of others, as of
// pairs on bridges, the number is the owner's choice.
struct BoardLinks {
  const char* ends;  // of its name
  double links;
};
constexpr BoardLinks kBoards[] = {
    {"A100-SXM4-40GB", 12}, {"A100-SXM4-80GB", 12}, {"H100 80GB HBM3", 18},
    {" H200", 18},          {" B200", 18},          {" GB200", 18},
    {" H20", 18},           {" GB300", 18},         {"B300 SXM6 AC", 18}};

struct FactRule {
  CounterOf kind;
  const char* fact;
  Grade grade;
  // As it should be; empty: it is.
  std::string (*wanted)(const SeenDevice& seen, const std::string& value);
  const char* meaning;
  const char* remedy;
};

std::string not_below(const SeenDevice& seen, const char* fact, const char* bound) {
  const double least = seen.number(bound);
  return least > 0 && seen.number(fact) < least ? *seen.device.find(bound) : "";
}

std::string full_width(const SeenDevice& seen, const std::string&) {
  return not_below(seen, "pcie_width", "pcie_width_most");
}

// A NIC whose port is no faster than what is left of its link loses nothing by it: many boards
// wire a slot to a part of its lanes.
std::string enough_for_port(const SeenDevice& seen, const char* fact, const char* most) {
  const double left = base::pci_Mbps(seen.number("pcie_width"), seen.number("pcie_GTps"));
  return left > 0 && left < seen.number("rate_Mbps") ? not_below(seen, fact, most) : "";
}

std::string port_for_link(const SeenDevice& seen, const std::string&) {
  const double best = base::pci_Mbps(seen.number("pcie_width_most"), seen.number("pcie_GTps_most"));
  return best > 0 && best < seen.number("rate_Mbps") ? format("at most {:.0f}", best) : "";
}

std::string all_links(const SeenDevice& seen, const std::string&) {
  const double active = seen.number("nvlinks_active");
  // None at all: a virtual machine's only GPU, or one that is divided.
  if (active == 0 || seen.is("mig", "on")) return "";
  for (const BoardLinks& board : kBoards)
    if (seen.device.model.ends_with(board.ends) && seen.number("nvlinks") >= board.links &&
        active < board.links)
      return format("{:g}", board.links);
  return "";
}

std::string joined_fabric(const SeenDevice& seen, const std::string& value) {
  return value != "completed" && seen.gpus > 1 && seen.number("nvlinks") > 0 ? "completed" : "";
}

// Two bits each, of which 1 is yes: bandwidth below what it should be, routes that recover, routes
// that are broken, recovery of accesses that timed out; then four bits of a wrong configuration, of
// which 1 is none.
uint64_t health_of(const std::string& value) {
  return std::strtoull(value.c_str(), nullptr, 10);
}
std::string whole_fabric(const SeenDevice&, const std::string& value) {
  const uint64_t health = health_of(value);
  const auto yes = [&](int shift) { return (health >> shift & 3) == 1; };
  return yes(0) || yes(4) || (health >> 8 & 15) > 1 ? "no degraded bandwidth, broken route or "
                                                      "wrong configuration"
                                                    : "";
}
std::string calm_fabric(const SeenDevice&, const std::string& value) {
  const uint64_t health = health_of(value);
  return (health >> 2 & 3) == 1 || (health >> 6 & 3) == 1 ? "no recovery that goes on" : "";
}

std::string no_process(const SeenDevice&, const std::string& value) {
  return base::serves_others(value) ? "" : "none";
}

// A lane without any light is one that the port does not use, or that is not measured.
std::string enough_light(const SeenDevice& seen, const std::string& value, const char* least) {
  constexpr double kDark = 1;
  const double light = std::strtod(value.c_str(), nullptr);
  return light > kDark && light < seen.number(least) ? "at least " + *seen.device.find(least) : "";
}

std::string cool_module(const SeenDevice& seen, const std::string&) {
  const double most = seen.number("module_most_C");
  return most > 0 && seen.number("module_C") >= most ? "below " + *seen.device.find("module_most_C")
                                                     : "";
}

template <const char* const& name>
std::string same_as(const SeenDevice& seen, const std::string& value) {
  const std::string* other = seen.device.find(name);
  return other == nullptr || *other == value ? "" : *other;
}
constexpr const char *kEcc = "ecc", *kMig = "mig";

std::string fast_governor(const SeenDevice& seen, const std::string& value) {
  return value != "performance" && seen.serves ? "performance" : "";
}

constexpr const char* kFabric =
    "systemctl status nvidia-fabricmanager (in a rack nvidia-imex as well), its log, and whether "
    "it "
    "is of the driver's version; then reset the GPUs";
constexpr const char* kLinks =
    "look at nvidia-smi nvlink -s and -e and at dmesg for Xid 74; reset the GPUs, else reseat the "
    "board or have it exchanged";
constexpr FactRule kFactRules[] = {
    {CounterOf::gpu, "answer", Grade::fault,
     [](const SeenDevice&, const std::string&) { return std::string("an answer"); },
     "the driver cannot reach it",
     "dmesg | grep -i -e xid -e nvrm; drain the host and reboot it; if it comes again, look at "
     "slot, riser and power"},
    {CounterOf::gpu, "recovery_action", Grade::fault,
     [](const SeenDevice&, const std::string& value) {
       return std::string(value == "0" ? "" : "0");
     },
     "the driver asks for a recovery (1: reset the GPU, 2: reboot, 3: end traffic between GPUs, 4: "
     "drain and reset)",
     "drain the host and do that"},
    {CounterOf::gpu, "ecc_pending", Grade::fault, same_as<kEcc>,
     "its ECC mode changes with the next reset",
     "reset the GPU (nvidia-smi --gpu-reset) or reboot"},
    {CounterOf::gpu, "mig_pending", Grade::fault, same_as<kMig>,
     "its MIG mode changes with the next reset",
     "reset the GPU (nvidia-smi --gpu-reset) or reboot"},
    {CounterOf::gpu, "pages_pending", Grade::fault,
     [](const SeenDevice&, const std::string& value) {
       return std::string(value == "on" ? "off" : "");
     },
     "pages of memory wait to be retired, which a reset does", remedies::kReset},
    {CounterOf::gpu, "nvlinks_active", Grade::fault, all_links, "NVLinks are down", kLinks},
    {CounterOf::gpu, "fabric", Grade::fault, joined_fabric,
     "it has not joined the NVLink fabric, and CUDA does not start without", kFabric},
    {CounterOf::gpu, "fabric_status", Grade::fault,
     [](const SeenDevice&, const std::string& value) {
       return std::string(value == "ok" ? "" : "ok");
     },
     "the NVLink fabric has refused it", kFabric},
    {CounterOf::gpu, "fabric_health", Grade::fault, whole_fabric,
     "the NVLink fabric is not whole for it", kFabric},
    {CounterOf::gpu, "fabric_health", Grade::told, calm_fabric,
     "the NVLink fabric recovers from an error", kFabric},
    {CounterOf::gpu, "pcie_width", Grade::fault, full_width,
     "its PCIe link has fewer lanes than card and slot can have", remedies::kSlot},
    // No fault: who uses it may have every right to, and its host is not to be drained for that.
    {CounterOf::gpu, "process", Grade::told, no_process,
     "a process uses it, and nothing of this command's does",
     "end it if it is left over (kill PID; fuser -v /dev/nvidia*), else wait for its job"},
    {CounterOf::gpu, "persistence", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return std::string(value == "off" && !for_screens(seen.device) ? "on" : "");
     },
     "its driver is unloaded whenever nothing uses it: starts are slow, counters begin anew",
     "systemctl enable --now nvidia-persistenced"},
    {CounterOf::gpu, "display", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return std::string(value == "on" && !for_screens(seen.device) ? "off" : "");
     },
     "a screen's server holds it",
     "keep the server off it: systemctl set-default multi-user.target"},
    {CounterOf::gpu, "power_limit_mW", Grade::told,
     [](const SeenDevice& seen, const std::string&) {
       return not_below(seen, "power_limit_mW", "power_default_mW");
     },
     "its power limit is below its board's", "nvidia-smi -pl WATTS, unless that is meant so"},
    {CounterOf::gpu, "clock_MHz", Grade::told,
     [](const SeenDevice& seen, const std::string&) {
       return not_below(seen, "clock_MHz", "clock_default_MHz");
     },
     "its clock for applications is below its board's", "nvidia-smi -rac, unless that is meant so"},
    {CounterOf::nic, "pcie_width", Grade::fault,
     [](const SeenDevice& seen, const std::string&) {
       return enough_for_port(seen, "pcie_width", "pcie_width_most");
     },
     "its PCIe link has fewer lanes than card and slot can have, and less than its port sends",
     remedies::kSlot},
    {CounterOf::nic, "pcie_GTps", Grade::fault,
     [](const SeenDevice& seen, const std::string&) {
       return enough_for_port(seen, "pcie_GTps", "pcie_GTps_most");
     },
     "its PCIe link is slower than card and slot can be, and than its port", remedies::kSlot},
    {CounterOf::nic, "rate_Mbps", Grade::told, port_for_link,
     "its port is faster than its PCIe link can ever be",
     "put it into a slot with more or faster lanes, unless that is meant so"},
    {CounterOf::nic, "pkeys_full", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return std::string(
           value == "0" && seen.is("link", "InfiniBand") && seen.is("state", "ACTIVE") ? "1 or more"
                                                                                       : "");
     },
     "it is a limited member of all its partitions: two such ports do not reach each other",
     "make it a full member in the subnet manager's partitions.conf"},
    {CounterOf::nic, "module_uW", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return enough_light(seen, value, "module_least_uW");
     },
     "a lane of its module gets less light than the module's own alarm", remedies::kCable},
    {CounterOf::nic, "module_tx_uW", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return enough_light(seen, value, "module_tx_least_uW");
     },
     "a lane of its module sends less light than the module's own alarm", remedies::kCable},
    {CounterOf::nic, "module_C", Grade::told, cool_module,
     "its module is hotter than the module's own alarm",
     "look at the air flow around the NIC's cages, and at blanks that are missing"},
    {CounterOf::host, "governor", Grade::told, fast_governor, "its cores are slow to speed up",
     "cpupower frequency-set -g performance"},
    {CounterOf::host, "hugepages_MiB", Grade::told,
     [](const SeenDevice& seen, const std::string&) {
       const double half = seen.number("memory_MiB") / 2;
       return half > 0 && seen.number("hugepages_MiB") > half ? format("at most {:.0f}", half)
                                                              : std::string();
     },
     "huge pages take most of its memory from all programs that do not ask for them",
     "sysctl vm.nr_hugepages, unless that is meant so"},
    {CounterOf::host, "imex_channels", Grade::told,
     [](const SeenDevice& seen, const std::string& value) {
       return std::string(value == "0" && seen.in_rack ? "1 or more" : "");
     },
     "its GPUs are in the NVLink fabric of several hosts, and it has no IMEX channel: no program "
     "shares GPU memory with another host",
     "systemctl status nvidia-imex; nvidia-modprobe -c 0, or the driver's option "
     "NVreg_CreateImexChannel0=1"},
    {CounterOf::host, "tmp_free_MiB", Grade::told,
     [](const SeenDevice& seen, const std::string&) {
       constexpr double kLeast = 256;
       return std::string(seen.number("tmp_free_MiB") < kLeast ? "256" : "");
     },
     "/tmp is nearly full", "look at what fills it: du -x /tmp | sort -n"},
};

}  // namespace

bool for_screens(const DeviceState& gpu) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"GeForce", "RTX", "Quadro"},
      [&](const char* word) { return gpu.model.find(word) != std::string::npos; });
}

std::vector<std::string> judged_facts() {
  std::vector<std::string> names = peer_facts();
  for (const FactRule& rule : kFactRules)
    names.push_back(format("{} {}", counter_kind_word(rule.kind), rule.fact));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

double SeenDevice::number(const char* fact) const {
  const std::string* value = device.find(fact);
  return value == nullptr ? 0 : std::strtod(value->c_str(), nullptr);
}

bool SeenDevice::is(const char* fact, const char* value) const {
  const std::string* known = device.find(fact);
  return known != nullptr && *known == value;
}

void judge_facts(const SeenDevice& seen, const Host& host, std::vector<Finding>& findings) {
  for (const base::StateFact& fact : seen.device.facts)
    for (const FactRule& rule : kFactRules) {
      if (rule.kind != seen.device.kind || fact.name != rule.fact) continue;
      const std::string wanted = rule.wanted(seen, fact.value);
      if (!wanted.empty())
        findings.push_back(state_finding(host, seen.device, rule.fact, fact.value, wanted,
                                         {rule.grade, rule.meaning, rule.remedy}));
    }
}

}  // namespace collctl::cmd
