#include "cmd/topo/diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/json_writer.h"
#include "cmd/text/provenance.h"
#include "cmd/topo/parts.h"
#include "topology/detect/inspect.h"
#include "topology/pci_use.h"

namespace collctl::cmd {
namespace {

using namespace topology;

// A device as a name and what is known of it.
struct Entry {
  std::string key, parent;  // parent: key of what it hangs below; empty for a CPU
  std::string device, place;
  std::vector<std::pair<std::string, std::string>> attributes;
};

class Flattener {
 public:
  Flattener(const System& system, const CompareOptions& options) : options_(options) {
    std::map<uint64_t, int> hosts;
    for (const Cpu& cpu : system.cpus) hosts.try_emplace(cpu.host_hash.value_or(0), hosts.size());
    several_hosts_ = hosts.size() > 1;
    std::map<int, int> cpus;  // of each host
    for (const Cpu& cpu : system.cpus) {
      host_ = hosts[cpu.host_hash.value_or(0)];
      find_gpus(cpu.children);
    }
    for (const Cpu& cpu : system.cpus) {
      host_ = hosts[cpu.host_hash.value_or(0)];
      add_cpu(cpu, cpus[host_]++);
    }
  }
  std::vector<Entry> take() { return std::move(entries_); }

 private:
  bool by_bus() const { return options_.match == MatchBy::bus_id; }

  // GPUs are counted in the file's order, so that a link has a name without bus ids.
  void find_gpus(const std::vector<Pci>& list) {
    for (const Pci& pci : list) {
      if (pci.gpu) gpus_.try_emplace({host_, pci.bus_id}, int(gpus_.size()));
      find_gpus(pci.children);
    }
  }

  template <class T>
  static void put(Entry& entry, const char* name, const std::optional<T>& value) {
    if (value) entry.attributes.emplace_back(name, format("{}", *value));
  }
  static void put_text(Entry& entry, const char* name, const std::optional<std::string>& value) {
    if (value && !value->empty()) entry.attributes.emplace_back(name, plain(*value));
  }
  static void put_flag(Entry& entry, const char* name, const std::optional<bool>& value) {
    if (value) entry.attributes.emplace_back(name, *value ? "yes" : "no");
  }
  static void put_lanes(Entry& entry, const char* name, const std::optional<int>& value) {
    if (value) entry.attributes.emplace_back(name, format("x{}", *value));
  }

  void add_cpu(const Cpu& cpu, int index) {
    Entry entry;
    const std::string host = several_hosts_ ? format("host {} ", host_) : "";
    // Several CPUs may have no number of their own.
    const bool numbered = by_bus() && cpu.numa.value_or(-1) >= 0;
    entry.key = format("{}/CPU {}", host_, numbered ? *cpu.numa : index);
    if (!numbered) entry.key += "?";
    entry.device = host + (cpu.numa.value_or(-1) >= 0 ? format("CPU {}", *cpu.numa) : "CPU");
    if (const std::string name = plain(processor_name(cpu)); !name.empty())
      entry.attributes.emplace_back("processor", name);
    if (const int threads = processor_threads(cpu); threads > 0)
      entry.attributes.emplace_back("threads", std::to_string(threads));
    if (options_.identity) put_text(entry, "affinity", cpu.affinity);
    put_text(entry, "architecture", cpu.arch);
    const std::string key = entry.key, name = entry.device;
    entries_.push_back(std::move(entry));
    add_children(cpu.children, key, name);
    for (const Nic& nic : cpu.nics) add_nets(nic, key, name);
  }

  static std::string kind_of(const Pci& pci) {
    if (pci.gpu || is_gpu_class(pci.device_class)) return "GPU";
    if (!pci.nics.empty() || is_nic_class(pci.device_class)) return "NIC";
    return pci.children.empty() ? "device" : "switch";
  }

  void add_children(const std::vector<Pci>& list, const std::string& parent,
                    const std::string& place) {
    std::map<std::string, int> counts;
    for (const Pci& pci : list) add_pci(pci, counts[kind_of(pci)]++, parent, place);
  }

  void add_pci(const Pci& pci, int index, const std::string& parent, const std::string& place) {
    Entry entry;
    const std::string kind = kind_of(pci), model = pci_device_name(pci);
    entry.key = by_bus() ? format("{}/{}", host_, bus_id_text(pci.bus_id))
                         : format("{}/{} {}", parent, kind, index);
    entry.parent = parent;
    entry.device = kind;
    if (pci.gpu && pci.gpu->dev) entry.device += format(" {}", *pci.gpu->dev);
    if (!model.empty()) entry.device += " " + model;
    entry.device += " " + bus_id_text(pci.bus_id);
    entry.place = "below " + place;
    if (by_bus()) entry.attributes.emplace_back("place", entry.place);
    describe_pci(pci, entry);
    if (pci.gpu) describe_gpu(*pci.gpu, entry);
    for (const Nic& nic : pci.nics) put_text(entry, "ports without a link", nic.ports_down);
    const std::string key = entry.key;
    const std::string name = kind + " " + bus_id_text(pci.bus_id);
    entries_.push_back(std::move(entry));
    for (const Nic& nic : pci.nics) add_nets(nic, key, name);
    add_children(pci.children, key, name);
  }

  static void describe_pci(const Pci& pci, Entry& entry) {
    if (pci.device_class)
      entry.attributes.emplace_back("class", format("0x{:06x}", *pci.device_class));
    if (pci.vendor && pci.device)
      entry.attributes.emplace_back("model", format("{:04x}:{:04x}", *pci.vendor, *pci.device));
    if (pci.subsystem_vendor && pci.subsystem_device)
      entry.attributes.emplace_back(
          "subsystem", format("{:04x}:{:04x}", *pci.subsystem_vendor, *pci.subsystem_device));
    put_text(entry, "link speed", pci.link_speed);
    put_lanes(entry, "link width", pci.link_width);
    put_lanes(entry, "link width now", pci.state.width_now);
    if (!pci.gpu) put_text(entry, "link speed now", pci.state.speed_now);
    put_text(entry, "speed of the card", pci.state.speed_able);
    put_lanes(entry, "width of the card", pci.state.width_able);
  }

  void describe_gpu(const Gpu& gpu, Entry& entry) const {
    if (options_.identity) {
      put(entry, "number", gpu.dev);
      put(entry, "rank", gpu.rank);
    }
    put(entry, "sm", gpu.sm);
    put_text(entry, "architecture", gpu.gcn);
    put_text(entry, "name", gpu.name);
    if (!gpu.no_p2p.empty())
      entry.attributes.emplace_back("GPUs it cannot reach", std::to_string(gpu.no_p2p.size()));
    put_flag(entry, "GPU direct", gpu.gdr);
    put_flag(entry, "assumed", gpu.assumed);
    put(entry, "NVLinks of the device", gpu.links_able);
    std::map<std::string, int> links;
    for (const FabricLink& link : gpu.links) {
      const char* what = link.kind == FabricKind::xgmi ? "xGMI links" : "NVLinks";
      const auto peer = gpus_.find({host_, link.target});
      const std::string to = peer == gpus_.end() ? "NVSwitch"
                             : by_bus()          ? "GPU " + bus_id_text(link.target)
                                                 : format("GPU {} of the machine", peer->second);
      links[format("{} to {}", what, to)] += link.count;
    }
    for (const auto& [name, count] : links)
      entry.attributes.emplace_back(name, std::to_string(count));
    for (const C2cLink& link : gpu.c2c)
      entry.attributes.emplace_back("C2C", format("{} x {} MB/s", link.count, link.mbytes_per_s));
  }

  void add_nets(const Nic& nic, const std::string& parent, const std::string& place) {
    for (size_t i = 0; i < nic.nets.size(); ++i) {
      const Net& net = nic.nets[i];
      Entry entry;
      entry.key = parent + "/net " + (by_bus() ? plain(net.name) : std::to_string(i));
      entry.parent = parent;
      entry.device = "network device " + plain(net.name);
      entry.place = "below " + place;
      if (options_.identity) {
        put(entry, "number", net.dev);
        if (net.guid) entry.attributes.emplace_back("GUID", format("{:#x}", *net.guid));
      }
      if (net.speed_mbps)
        entry.attributes.emplace_back("speed",
                                      format("{:.4g} Gb/s", double(*net.speed_mbps) / 1000));
      put(entry, "port", net.port);
      put(entry, "most connections", net.max_connections);
      put(entry, "latency", net.latency_us);
      put_flag(entry, "GPU direct", net.gdr);
      put_flag(entry, "in-network reduction", net.coll);
      entries_.push_back(std::move(entry));
    }
  }

  const CompareOptions& options_;
  bool several_hosts_ = false;
  int host_ = 0;
  std::map<std::pair<int, BusId>, int> gpus_;
  std::vector<Entry> entries_;
};

// Each entry of a key in turn: a file may name a device twice.
std::vector<std::pair<const Entry*, const Entry*>> paired(const std::vector<Entry>& was,
                                                          const std::vector<Entry>& is) {
  std::map<std::string, std::vector<const Entry*>> known;
  for (const Entry& entry : is) known[entry.key].push_back(&entry);
  std::map<std::string, size_t> used;
  std::vector<std::pair<const Entry*, const Entry*>> pairs;
  for (const Entry& entry : was) {
    const auto& list = known[entry.key];
    const size_t at = used[entry.key]++;
    pairs.emplace_back(&entry, at < list.size() ? list[at] : nullptr);
  }
  std::map<std::string, size_t> seen;
  for (const Entry& entry : is)
    if (seen[entry.key]++ >= used[entry.key]) pairs.emplace_back(nullptr, &entry);
  return pairs;
}

// Attributes that NCCL's files never have: compared only where both sides know them.
bool only_detected(const std::string& name) {
  static constexpr const char* kNames[] = {
      "link width now",    "link speed now",    "name",
      "speed of the card", "width of the card", "NVLinks of the device"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

void compare_attributes(const Entry& was, const Entry& is, std::vector<Difference>& to) {
  const auto value = [](const Entry& entry, const std::string& name) -> std::string {
    for (const auto& [known, text] : entry.attributes)
      if (known == name) return text;
    return "none";
  };
  std::vector<std::string> names;
  for (const Entry* entry : {&was, &is})
    for (const auto& [name, text] : entry->attributes)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  for (const std::string& name : names) {
    const std::string before = value(was, name), after = value(is, name);
    const bool unknown = (before == "none" || after == "none") && only_detected(name);
    if (before != after && !unknown)
      to.push_back({ChangeKind::changed, is.device, is.place, name, before, after, ""});
  }
}

// All that hangs below an entry, in words.
std::string below_text(const std::vector<Entry>& entries, const std::string& key) {
  std::set<std::string> above{key};
  std::vector<std::string> names;
  for (const Entry& entry : entries)  // parents stand before what hangs below them
    if (above.count(entry.parent) != 0) {
      above.insert(entry.key);
      names.push_back(entry.device);
    }
  std::string text;
  for (size_t i = 0; i < names.size() && i < 4; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > 4 ? text + format(" and {} more", names.size() - 4) : text;
}

void collect_bus_ids(const std::vector<Pci>& list, std::set<BusId>& to) {
  for (const Pci& pci : list) {
    to.insert(pci.bus_id);
    collect_bus_ids(pci.children, to);
  }
}
std::set<BusId> bus_ids(const System& system) {
  std::set<BusId> ids;
  for (const Cpu& cpu : system.cpus) collect_bus_ids(cpu.children, ids);
  return ids;
}

}  // namespace

const char* change_name(ChangeKind kind) {
  static constexpr const char* kNames[] = {"missing", "added", "changed"};
  return kNames[size_t(kind)];
}

std::vector<Difference> compare_machines(const System& was, const System& is,
                                         const CompareOptions& options) {
  const std::vector<Entry> before = Flattener(was, options).take();
  const std::vector<Entry> after = Flattener(is, options).take();
  std::vector<Difference> differences;
  if (was.version != is.version)
    differences.push_back({ChangeKind::changed, "the file", "", "version",
                           std::to_string(was.version), std::to_string(is.version), ""});
  std::set<std::string> gone, fresh;
  for (const auto& [old_one, new_one] : paired(before, after)) {
    if (old_one != nullptr && new_one != nullptr) {
      compare_attributes(*old_one, *new_one, differences);
      continue;
    }
    const bool missing = old_one != nullptr;
    const Entry& entry = missing ? *old_one : *new_one;
    std::set<std::string>& list = missing ? gone : fresh;
    list.insert(entry.key);
    if (list.count(entry.parent) != 0) continue;  // goes with what it hangs below
    differences.push_back({missing ? ChangeKind::missing : ChangeKind::added, entry.device,
                           entry.place, "", "", "",
                           below_text(missing ? before : after, entry.key)});
  }
  return differences;
}

double shared_bus_ids(const System& was, const System& is) {
  const std::set<BusId> a = bus_ids(was), b = bus_ids(is);
  if (a.empty()) return b.empty() ? 1 : 0;
  const auto shared = std::ranges::count_if(a, [&](BusId id) { return b.count(id) != 0; });
  return double(shared) / double(a.size());
}

std::string difference_text(const Difference& difference) {
  std::string text = difference.device;
  if (difference.kind == ChangeKind::changed)
    return format("{}: {} {} -> {}", text, difference.attribute, difference.was, difference.is);
  if (!difference.place.empty()) text += ", " + difference.place;
  text += format(": {}", change_name(difference.kind));
  return difference.below.empty() ? text : text + ", with " + difference.below;
}

std::string diff_text(const std::vector<Difference>& differences, const DiffNames& names) {
  std::string text;
  for (const Difference& difference : differences)
    text += format("{} {}\n",
                   difference.kind == ChangeKind::missing ? "-"
                   : difference.kind == ChangeKind::added ? "+"
                                                          : "~",
                   difference_text(difference));
  return format("{}{} from {} to {}\n", text,
                differences.empty() ? "no differences" : counted(differences.size(), "difference"),
                plain(names.was), plain(names.is));
}

std::string diff_json(const std::vector<Difference>& differences, const DiffNames& names) {
  JsonWriter json;
  begin_document(json, "collctl.topo-diff/1");
  json.field("was", names.was).field("is", names.is).field("equal", differences.empty());
  json.objects("differences", differences, [&](const Difference& each) {
    json.field("kind", change_name(each.kind)).field("device", each.device);
    json.field("place", each.place);
    if (each.kind == ChangeKind::changed)
      json.field("attribute", each.attribute).field("was", each.was).field("is", each.is);
    else
      json.field("below", each.below);
  });
  return json.end_object().take();
}

}  // namespace collctl::cmd
