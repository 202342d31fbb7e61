#include "cmd/rails/gpus.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_rdma.h"
#include "cmd/rails/nics.h"
#include "cmd/topo/view.h"
#include "runtime/plan/gpu_shape.h"
#include "transport/device/device.h"

namespace collctl::runtime {
namespace {

constexpr size_t kMostGpuWord = 1024, kMostGpuText = 4096, kMostGpuFacts = 64;

// The topology leaves out the number of a first port.
bool is_nic(const topology::Node& net, const RailNic& nic) {
  return net.name == nic.name || net.name + ":1" == nic.name;
}

// Where the topology knows a GPU; NICs that it does not know may be near to any.
void place_gpus(const cmd::TopoView& view, const RailHost& host, std::vector<RailGpu>& gpus) {
  std::vector<int> ranks;
  for (const int gpu : view.graph.gpus) ranks.push_back(view.graph.nodes[size_t(gpu)].rank);
  const auto rules = gdr_rules(view.graph, view.rules, ranks, view.system);
  for (RailGpu& gpu : gpus) {
    const auto id = topology::parse_bus_id(gpu.bus_id);
    const auto at = std::ranges::find_if(view.graph.gpus, [&](int node) {
      return id && view.graph.nodes[size_t(node)].id == id->value;
    });
    if (at == view.graph.gpus.end()) continue;
    std::vector<int> known;
    for (size_t n = 0; n < host.nics.size(); ++n)
      for (size_t net = 0; net < view.graph.nets.size(); ++net) {
        const int node = view.graph.nets[net];
        if (!is_nic(view.graph.nodes[size_t(node)], host.nics[n])) continue;
        const transport::NicGdr& rule = rules[size_t(at - view.graph.gpus.begin())][net];
        gpu.nics[n] = {.path = topology::path_type_name(view.base.at(*at, node).type),
                       .no_read = rule.no_read.substr(0, kMostGpuText),
                       .no_write = rule.no_write.substr(0, kMostGpuText),
                       .flush = rule.flush};
        known.push_back(node);
      }
    const std::vector<int> near = nearest_ends(view.base, *at, known);
    for (size_t n = 0; n < host.nics.size(); ++n)
      gpu.nics[n].near = gpu.nics[n].path.empty() || std::ranges::any_of(near, [&](int node) {
                           return is_nic(view.graph.nodes[size_t(node)], host.nics[n]);
                         });
  }
}

void add_fact(std::vector<RailFact>& facts, std::string device, const std::string& what,
              const std::string& remedy) {
  if (facts.size() < kMostGpuFacts)
    facts.push_back(
        {std::move(device), what.substr(0, kMostGpuText), remedy.substr(0, kMostGpuText)});
}

// Links and slots of the GPUs and NICs that are tried, and of switches above some of them.
void add_links(const cmd::TopoView& view, const RailHost& host, RailGpus& all) {
  const auto devices = base::rdma_devices();
  for (const topology::Oddity& odd : view.oddities) {
    if (!odd.net.empty() || odd.mark.find("NVLink") != std::string::npos) continue;
    const auto is_card = [&](const std::string& bus_id) {
      const auto id = topology::parse_bus_id(bus_id);
      return id && id->card() == odd.device.card();
    };
    for (const RailGpu& gpu : all.list)
      if (is_card(gpu.bus_id))
        add_fact(all.facts, gpu.bus_id, odd.finding.what, odd.finding.remedy);
    for (const RailNic& nic : host.nics)
      for (const base::RdmaDevice& device : devices)
        if (nic.name.starts_with(device.name + ":") && is_card(device.bus_id))
          add_fact(all.facts, nic.name, odd.finding.what, odd.finding.remedy);
    if (odd.mark.starts_with("slower than"))
      add_fact(all.facts, "", odd.finding.what, odd.finding.remedy);
  }
}

}  // namespace

static void fields(base::Record& io, GpuToNic& nic) {
  io.field("path", nic.path, kMostGpuWord);
  io.field("near", nic.near);
  io.field("no_read", nic.no_read, kMostGpuText);
  io.field("no_write", nic.no_write, kMostGpuText);
  io.field("flush", nic.flush);
}

static void fields(base::Record& io, RailGpu& gpu) {
  io.field("ordinal", gpu.ordinal, 0, 1 << 16);
  io.field("device", gpu.bus_id, kMostGpuWord);
  io.field("model", gpu.model, kMostGpuWord);
  io.field("nics", gpu.nics, kMostRailNics);
}

static void fields(base::Record& io, RailFact& fact) {
  io.field("device", fact.device, kMostGpuWord);
  io.field("what", fact.what, kMostGpuText);
  io.field("remedy", fact.remedy, kMostGpuText);
}

void fields(base::Record& io, RailGpus& all) {
  io.field("gpus", all.list, kMostRailGpus);
  io.field("facts", all.facts, kMostGpuFacts);
  io.field("why_none", all.why_none, kMostGpuText);
}

void find_rail_gpus(RailHost& host, std::vector<transport::DevicePointer>& devices) {
  RailGpus& all = host.gpus;
  const auto count = transport::Device::count();
  if (!count) {
    if (!base::nvidia_gpus_here().empty())
      all.why_none = count.error().chain().substr(0, kMostGpuText);
    return;
  }
  if (*count > int(kMostRailGpus) && host.unused.size() < kMostUnusedNics)
    host.unused.push_back(format("GPUs from number {} on: at most {} of a host are tried",
                                 kMostRailGpus, kMostRailGpus));
  for (int ordinal = 0; ordinal < std::min(*count, int(kMostRailGpus)); ++ordinal) {
    auto device = transport::Device::open(ordinal);
    if (!device) {
      all.list.clear();
      devices.clear();
      all.why_none = device.error().chain().substr(0, kMostGpuText);
      return;
    }
    const transport::DeviceFacts& facts = (*device)->facts();
    all.list.push_back({.ordinal = ordinal,
                        .bus_id = facts.bus_id,
                        .model = facts.name.substr(0, kMostGpuWord),
                        .nics = std::vector<GpuToNic>(host.nics.size())});
    devices.push_back(std::move(*device));
  }
  if (all.list.empty()) return;
  // Without it all NICs count as near.
  if (const auto view = cmd::read_view(cmd::ViewOptions{})) {
    place_gpus(*view, host, all.list);
    add_links(*view, host, all);
  }
  if (std::ranges::none_of(host.nics, [](const RailNic& nic) { return nic.rdma(); })) return;
  base::GpuDirectFacts facts = base::gpu_direct_facts();
  facts.acs_known = true;  // what cannot be told is no fact
  for (const auto& reason : judge_gpu_direct(facts).reasons)
    add_fact(all.facts, "", reason.what, reason.remedy);
}

}  // namespace collctl::runtime
