// RDMA devices as the kernel shows them, and the path into the GPUs' memory.
#include <algorithm>

#include "base/format.h"
#include "base/json_writer.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {
namespace {

using namespace topology;
using base::RdmaDevice;
using base::RdmaGid;
using base::RdmaPortDetail;

constexpr size_t kShownGids = 2;  // of a port, unless all are asked for

// As detection names a port's network device.
std::string net_name(const RdmaDevice& device, const RdmaPortDetail& port) {
  return port.port == 1 ? device.name : format("{}:{}", device.name, port.port);
}

// The GPUs nearest to a device, by the type of their path.
struct NearGpu {
  int dev = 0;
  PathType type{};
};
std::vector<NearGpu> gpus_near(const TopoView& view, const RdmaDevice& device) {
  std::vector<NearGpu> all;
  for (const RdmaPortDetail& port : device.ports)
    for (const int net : view.graph.nets) {
      if (view.graph.nodes[size_t(net)].name != net_name(device, port)) continue;
      for (const int gpu : view.graph.gpus)
        all.push_back({view.graph.nodes[size_t(gpu)].dev, view.base.at(gpu, net).type});
    }
  PathType best = PathType::dis;
  for (const NearGpu& each : all) best = std::min(best, each.type);
  std::erase_if(all, [&](const NearGpu& each) { return each.type != best; });
  std::ranges::sort(all, [](const auto& a, const auto& b) { return a.dev < b.dev; });
  all.erase(std::unique(all.begin(), all.end(),
                        [](const auto& a, const auto& b) { return a.dev == b.dev; }),
            all.end());
  return all;
}

std::string near_text(const TopoView& view, const RdmaDevice& device) {
  const std::vector<NearGpu> near = gpus_near(view, device);
  if (near.empty() || near[0].type == PathType::dis) return "";
  std::vector<int> devs;
  for (const NearGpu& each : near) devs.push_back(each.dev);
  return format("  next to GPU {} ({})", rank_ranges(devs), path_type_name(near[0].type));
}

// Those that connections take first: RoCE v2 of IPv4, RoCE v2, the others.
std::vector<const RdmaGid*> ordered(const RdmaPortDetail& port) {
  std::vector<const RdmaGid*> gids;
  for (const RdmaGid& gid : port.gids) gids.push_back(&gid);
  const auto rank = [](const RdmaGid* gid) {
    if (gid->type != "RoCE v2") return 2;
    return gid->address.rfind("::ffff:", 0) == 0 ? 0 : 1;
  };
  std::ranges::stable_sort(gids, [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  return gids;
}

std::string port_text(const RdmaPortDetail& port, bool verbose) {
  std::string text = format("  port {}  {}  {}  {}\n", port.port, plain(port.state),
                            plain(port.link), plain(port.rate));
  size_t shown = 0;
  for (const RdmaGid* gid : ordered(port)) {
    if (!verbose && shown == kShownGids) break;
    ++shown;
    text += format("    GID {}  {}  {}{}\n", gid->index, plain(gid->type), gid->address,
                   gid->interface.empty() ? "" : "  " + plain(gid->interface));
  }
  if (shown < port.gids.size())
    text += format("    and {} more GIDs (-v)\n", port.gids.size() - shown);
  return text;
}

std::string gdr_text(const base::GpuDirectFacts& facts) {
  const base::GpuDirectAdvice advice = judge_gpu_direct(facts);
  if (!advice.applies) return "";
  std::string text = advice.possible ? format("GPUDirect RDMA: possible, by {}\n", plain(advice.by))
                                     : "GPUDirect RDMA: not possible\n";
  for (const base::GpuDirectReason& reason : advice.reasons)
    text += format("  {} {}; {}\n", reason.prevents ? "!" : "-", plain(reason.what), reason.remedy);
  return text;
}

std::string memlock_text(uint64_t bytes) {
  if (bytes == base::kUnlimited) return "";
  return format(
      "Memory that may be locked: {}; RDMA registers buffers: ulimit -l unlimited, memlock in "
      "/etc/security/limits.d\n",
      human_bytes(bytes));
}

void write_port(const RdmaPortDetail& port, JsonWriter& json) {
  json.field("port", port.port).field("state", port.state);
  json.field("physical_state", port.physical).field("rate", port.rate);
  json.field("link_layer", port.link);
  json.objects("gids", port.gids, [&](const RdmaGid& gid) {
    json.field("index", gid.index)
        .field("type", gid.type)
        .field("address", gid.address)
        .field("interface", gid.interface);
  });
}

void write_device(const TopoView& view, const RdmaDevice& device, JsonWriter& json) {
  json.field("name", device.name);
  json.field_or_null("busid", !device.bus_id.empty(), device.bus_id);
  json.field("numa", device.numa).field("firmware", device.firmware).field("board", device.board);
  json.list("interfaces", device.interfaces);
  json.objects("near_gpus", gpus_near(view, device), [&](const NearGpu& each) {
    json.field("dev", each.dev).field("type", path_type_name(each.type));
  });
  json.objects("ports", device.ports, [&](const auto& port) { write_port(port, json); });
}

void write_gdr(const base::GpuDirectFacts& facts, uint64_t memlock_bytes, JsonWriter& json) {
  const base::GpuDirectAdvice advice = judge_gpu_direct(facts);
  json.key("gdr").begin_object().field("applies", advice.applies);
  json.field("possible", advice.possible).field("by", advice.by);
  json.field("module", facts.module).field("kernel", facts.kernel).field("driver", facts.driver);
  json.field("open_driver", facts.open_driver).field("iommu", facts.iommu).key("acs_redirects");
  if (facts.acs_known || !facts.redirecting.empty()) {
    json.begin_array();
    for (const std::string& bridge : facts.redirecting) json.value(bridge);
    json.end_array();
  } else {
    json.null();
  }
  json.field_or_null("memlock_bytes", memlock_bytes != base::kUnlimited, memlock_bytes);
  json.objects("reasons", advice.reasons, [&](const base::GpuDirectReason& reason) {
    json.field("what", reason.what)
        .field("remedy", reason.remedy)
        .field("prevents", reason.prevents);
  });
  json.end_object();
}

}  // namespace

std::string topo_rdma(const TopoView& view, bool verbose) {
  if (view.rdma.empty()) return "";
  std::string text;
  for (const RdmaDevice& device : view.rdma) {
    text += format("RDMA {}  {}", plain(device.name),
                   device.bus_id.empty() ? "not on the PCI bus" : device.bus_id);
    if (device.numa >= 0) text += format("  NUMA {}", device.numa);
    if (!device.firmware.empty()) text += "  firmware " + plain(device.firmware);
    if (verbose && !device.board.empty()) text += format(" ({})", plain(device.board));
    text += near_text(view, device) + "\n";
    for (const RdmaPortDetail& port : device.ports) text += port_text(port, verbose);
  }
  if (view.gpu_direct) text += gdr_text(*view.gpu_direct);
  return text + memlock_text(view.memlock_bytes);
}

std::string topo_ports(const TopoView& view, const std::string& host, bool verbose) {
  std::string text;
  for (const RdmaDevice& device : view.rdma)
    for (const RdmaPortDetail& port : device.ports) {
      text += format("  {}  {}:{}  {}  {}  {}", host, plain(device.name), port.port,
                     plain(port.state), plain(port.link), plain(port.rate));
      const auto gids = ordered(port);
      for (size_t i = 0; i < gids.size() && (verbose || i < 1); ++i)
        text += format("  GID {} {} ({})", gids[i]->index, plain(gids[i]->address),
                       plain(gids[i]->type));
      text += "\n";
    }
  return text;
}

void write_rdma(const TopoView& view, JsonWriter& json) {
  if (!view.gpu_direct) return;
  json.objects("rdma", view.rdma, [&](const auto& device) { write_device(view, device, json); });
  write_gdr(*view.gpu_direct, view.memlock_bytes, json);
}

}  // namespace collctl::cmd
