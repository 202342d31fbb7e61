// Values that are right or wrong beside those of peers: devices of one model.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/format.h"
#include "base/printable.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/state_rules.h"
#include "cmd/judge/odd_link.h"

namespace collctl::cmd {
namespace {

using base::CounterOf;
using base::DeviceState;

// Peers of a device: all of its model, those in the same place of the other hosts (slots differ
// by design), or those of its host (a rack has several cliques).
enum class Among : uint8_t { all, same_place, same_host };
enum class Odd : uint8_t { any, lower, on, off };
struct PeerRule {
  CounterOf kind;
  const char* fact;
  Grade grade;
  Among among;
  Odd odd;  // what is held against it; on, off: told of all as well
  const char* meaning;
  const char* remedy;
};
constexpr const char* kSlotSettings = "compare the BIOS settings of the slot and the card's seat";
constexpr const char* kLossless = "set all of them alike (mlnx_qos, dcb; as the switches are)";
constexpr const char* kOtherModule =
    "exchange it if the NIC's or switch's maker does not list it, or if its link has errors";
constexpr PeerRule kPeers[] = {
    {CounterOf::gpu, "ecc", Grade::fault, Among::all, Odd::off, "its ECC is off",
     "nvidia-smi -e 1, then reset the GPU"},
    {CounterOf::gpu, "mig", Grade::fault, Among::all, Odd::on, "it is divided (MIG)",
     "nvidia-smi -mig 0, then reset the GPU"},
    {CounterOf::gpu, "nvlinks_active", Grade::fault, Among::all, Odd::lower,
     "it has fewer NVLinks than its peers",
     "look at nvidia-smi nvlink -s and at dmesg for Xid 74; reset the GPUs, else reseat board or "
     "bridge"},
    {CounterOf::gpu, "nvlink_MBps", Grade::fault, Among::all, Odd::lower,
     "one of its NVLinks is slower than those of its peers",
     "look at nvidia-smi nvlink -s; reset the GPUs, else reseat board or bridge"},
    {CounterOf::gpu, "vbios", Grade::told, Among::all, Odd::any, "its VBIOS is another",
     "flash the boards alike: the vendor's update of the whole board"},
    {CounterOf::gpu, "power_limit_mW", Grade::told, Among::all, Odd::any,
     "its power limit is another", "nvidia-smi -pl WATTS on all of them"},
    {CounterOf::gpu, "clock_MHz", Grade::told, Among::all, Odd::any,
     "its clock for applications is another", "nvidia-smi -rac on all of them"},
    {CounterOf::gpu, "fabric_clique", Grade::told, Among::same_host, Odd::any,
     "it is in another clique of the NVLink fabric than the host's other GPUs",
     "look at the fabric manager's partitions"},
    {CounterOf::gpu, "pcie_width_most", Grade::told, Among::same_place, Odd::lower,
     "its slot or card has fewer PCIe lanes than in the other hosts", kSlotSettings},
    {CounterOf::gpu, "pcie_GTps_most", Grade::told, Among::same_place, Odd::lower,
     "its slot or card has a slower PCIe than in the other hosts", kSlotSettings},
    {CounterOf::nic, "firmware", Grade::told, Among::all, Odd::any, "its firmware is another",
     "flash the RDMA devices alike: mlxfwmanager"},
    {CounterOf::nic, "pcie_width_most", Grade::told, Among::same_place, Odd::lower,
     "its slot or card has fewer PCIe lanes than in the other hosts", kSlotSettings},
    {CounterOf::nic, "pcie_GTps_most", Grade::told, Among::same_place, Odd::lower,
     "its slot or card has a slower PCIe than in the other hosts", kSlotSettings},
    {CounterOf::nic, "pkeys", Grade::told, Among::same_place, Odd::any,
     "it is in other partitions than in the other hosts",
     "compare its host's entries in the subnet manager's partitions.conf"},
    {CounterOf::nic, "gid_types", Grade::told, Among::same_place, Odd::any,
     "it has other types of addresses (GIDs) than in the other hosts",
     "compare RoCE modes and IP addresses (rdma link, ip address)"},
    {CounterOf::nic, "module_vendor", Grade::told, Among::same_place, Odd::any,
     "its module or cable is of another maker than in the other hosts", kOtherModule},
    {CounterOf::nic, "module_part", Grade::told, Among::same_place, Odd::any,
     "its module or cable is another than in the other hosts", kOtherModule},
    {CounterOf::nic, "pfc", Grade::told, Among::same_place, Odd::any,
     "it has flow control on other priorities than in the other hosts", kLossless},
    {CounterOf::nic, "dscp", Grade::told, Among::same_place, Odd::any,
     "it maps DSCP to other priorities than in the other hosts", kLossless},
    {CounterOf::nic, "ecn_np", Grade::told, Among::same_place, Odd::any,
     "it answers congestion on other priorities than in the other hosts", kLossless},
    {CounterOf::nic, "ecn_rp", Grade::told, Among::same_place, Odd::any,
     "it slows down for congestion on other priorities than in the other hosts", kLossless},
    {CounterOf::host, "governor", Grade::told, Among::all, Odd::any, "its governor is another",
     "cpupower frequency-set -g performance on all of them"},
    {CounterOf::host, "iommu", Grade::told, Among::all, Odd::any,
     "its kernel is started with other words about the IOMMU", "give all hosts one command line"},
    {CounterOf::host, "hugepages_MiB", Grade::told, Among::all, Odd::any,
     "it reserves another amount of memory for huge pages",
     "sysctl vm.nr_hugepages on all of them"},
};

struct PeerDevice {
  const StateOfHost* at;
  const DeviceState* device;
  std::string value;
};

bool is_odd(const PeerRule& rule, const std::string& value, const std::string& most) {
  switch (rule.odd) {
    case Odd::lower:
      return std::strtod(value.c_str(), nullptr) < std::strtod(most.c_str(), nullptr);
    case Odd::on:
      return value == "on";
    case Odd::off:
      return value == "off";
    default:
      return value != most;
  }
}

size_t gpus_like(const base::HostState& state, const DeviceState& gpu) {
  return size_t(std::ranges::count_if(state.devices, [&](const DeviceState& other) {
    return other.kind == gpu.kind && other.model == gpu.model;
  }));
}

// Members with one key are peers; a device that is divided has no NVLinks to compare.
std::map<std::string, std::vector<PeerDevice>> peer_groups(const PeerRule& rule,
                                                           std::span<const StateOfHost> hosts) {
  std::map<std::string, std::vector<PeerDevice>> groups;
  for (size_t i = 0; i < hosts.size(); ++i)
    for (const DeviceState& device : hosts[i].state->devices) {
      const std::string* value = device.kind == rule.kind ? device.find(rule.fact) : nullptr;
      const std::string* mig = device.find("mig");
      const bool divided = mig != nullptr && *mig == "on" && rule.odd == Odd::lower;
      const bool makers_own =
          rule.kind == CounterOf::gpu && rule.odd == Odd::any && for_screens(device);
      if (value == nullptr || divided || makers_own ||
          (device.model.empty() && rule.kind != CounterOf::host))
        continue;
      std::string key = device.model;
      // A virtual machine with one GPU of eight is no peer of one with all.
      if (rule.kind == CounterOf::gpu) key += format("/{}", gpus_like(*hosts[i].state, device));
      if (rule.among == Among::same_place) key += "/" + device.device;
      if (rule.among == Among::same_host) key += format("/{}", i);
      groups[key].push_back({&hosts[i], &device, *value});
    }
  return groups;
}

bool told_before(const std::vector<Finding>& findings, const Finding& finding) {
  return std::ranges::any_of(findings, [&](const Finding& known) {
    return known.name == finding.name && known.at == finding.at;
  });
}

void judge_group(const PeerRule& rule, const std::vector<PeerDevice>& peers,
                 std::vector<Finding>& findings) {
  std::vector<std::string> values;
  for (const PeerDevice& peer : peers) values.push_back(peer.value);
  const std::string most = usual_value(values);
  const auto same = size_t(std::ranges::count(values, most));
  const bool off = rule.odd == Odd::off;
  for (const PeerDevice& peer : peers) {
    // Without a value that most have nobody is the odd one; it is told once.
    if (!most.empty() && !is_odd(rule, peer.value, most)) continue;
    // A switch that is so on most of them can be meant so: told. Boards for screens often come
    // without ECC.
    const bool usual = peer.value == most;
    if (usual && off && for_screens(*peer.device)) continue;
    StateWords words{most.empty() || usual ? Grade::told : rule.grade, rule.meaning, rule.remedy};
    std::string wanted = usual ? (off ? "on" : "off") : most;
    if (!usual) {
      words.held_against = format("{} of {} alike have", same, values.size());
      words.basis = "most alike have it";
    }
    if (most.empty()) {
      words.held_against = format("{} alike differ", values.size());
      words.meaning = "its peers are not set alike";
      wanted = listed_values(values);
    }
    const Finding finding =
        state_finding(peer.at->host, *peer.device, rule.fact, peer.value, wanted, words);
    if (!told_before(findings, finding)) findings.push_back(finding);
    if (most.empty()) return;
  }
}

}  // namespace

std::vector<std::string> peer_facts() {
  std::vector<std::string> names;
  for (const PeerRule& rule : kPeers)
    names.push_back(format("{} {}", counter_kind_word(rule.kind), rule.fact));
  return names;
}

void add_peer_findings(std::span<const StateOfHost> hosts, std::vector<Finding>& findings) {
  for (const PeerRule& rule : kPeers)
    for (const auto& [key, peers] : peer_groups(rule, hosts)) judge_group(rule, peers, findings);
}

}  // namespace collctl::cmd
