// Driver facts as JSON, both ways. Reading trusts nothing: every number and list is bounded.
#include "base/format.h"
#include "base/record.h"
#include "topology/detect/driver_facts.h"

namespace collctl::topology {
namespace {

constexpr int64_t kMaxMbps = 1'000'000'000;
constexpr size_t kMaxText = 256, kMaxTroubles = 1000, kMaxInterfaces = 65536, kMaxListedPorts = 256;

void text_field(Record& io, const char* name, std::string& text) {
  io.unless_empty(name, text, kMaxText);
  if (text.find('\0') != std::string::npos) io.fail(name, "text");
}

void bus_id_field(Record& io, const char* name, BusId& id) {
  std::string text = bus_id_text(id);
  io.field(name, text);
  const auto read = parse_bus_id(text);
  if (!read) return io.fail(name, "a PCI address such as 0000:0f:00.0");
  if (io.reading()) id = *read;
}

}  // namespace

static void fields(Record& io, NvlinkFacts& link) {
  io.field("link", link.link, 0, kMaxNvlinks);
  io.field("active", link.active);
  if (!io.has("remote", link.remote.has_value())) return;
  if (!link.remote) link.remote.emplace();
  bus_id_field(io, "remote", *link.remote);
}

static void fields(Record& io, GpuFacts& gpu) {
  io.field("index", gpu.index, 0, 65535);
  bus_id_field(io, "busid", gpu.bus_id);
  text_field(io, "uuid", gpu.uuid);
  text_field(io, "name", gpu.name);
  io.unless_empty("sm", gpu.sm, 0, 10000);
  io.unless_empty("nvlinks", gpu.links, kMaxNvlinks);
  io.unless_empty("c2c_MBps", gpu.c2c_mbps, kMaxNvlinks, 0, kMaxMbps);
  io.unless_empty("mig", gpu.mig);
  text_field(io, "fabric_uuid", gpu.fabric_uuid);
  io.unless_empty("fabric_clique", gpu.fabric_clique, 0, UINT32_MAX);
  io.unless_empty("cuda_ordinal", gpu.cuda_ordinal, 0, 65535);
  io.unless_empty("cuda_gdr", gpu.cuda_gdr);
  io.unless_empty("cuda_dmabuf", gpu.cuda_dmabuf);
  io.unless_empty("p2p", gpu.p2p, kMaxGpus, 0, 1);
}

static void fields(Record& io, RdmaPortFacts& port) {
  io.field("port", port.port, 0, 255);
  io.field("active", port.active);
  io.field("Mbps", port.mbps, 0, kMaxMbps);
}

static void fields(Record& io, RdmaFacts& rdma) {
  text_field(io, "name", rdma.name);
  std::string guid = format("{:016x}", rdma.system_guid);
  io.field("system_guid", guid);
  if (guid.size() != 16 || guid.find_first_not_of("0123456789abcdef") != std::string::npos)
    return io.fail("system_guid", "16 hexadecimal digits");
  if (io.reading()) rdma.system_guid = std::stoull(guid, nullptr, 16);
  io.field("max_qp", rdma.max_qp, 0, int64_t{1} << 40);
  io.unless_empty("ports", rdma.ports, kMaxListedPorts);
}

static void fields(Record& io, InterfaceFacts& each) {
  text_field(io, "name", each.name);
  io.field("up", each.up);
  io.field("loopback", each.loopback);
  io.field("addressed", each.addressed);
  io.field("Mbps", each.mbps, 0, kMaxMbps);
  text_field(io, "aside", each.aside);
}

static void fields(Record& io, DriverFacts& facts) {
  text_field(io, "nvml_missing", facts.nvml_missing);
  text_field(io, "cuda_missing", facts.cuda_missing);
  text_field(io, "verbs_missing", facts.verbs_missing);
  text_field(io, "nvidia_driver", facts.nvidia_driver);
  io.unless_empty("gpus", facts.gpus, kMaxGpus);
  for (const GpuFacts& gpu : facts.gpus)
    if (!gpu.p2p.empty() && gpu.p2p.size() != facts.gpus.size())
      io.fail("p2p", "a number for each GPU");
  io.unless_empty("rdma", facts.rdma, kMaxRdma);
  io.unless_empty("interfaces", facts.interfaces, kMaxInterfaces);
  io.unless_empty("troubles", facts.troubles, kMaxTroubles);
}

std::string drivers_json(const DriverFacts& facts) {
  DriverFacts bounded = facts;
  for (std::string* why : {&bounded.nvml_missing, &bounded.cuda_missing, &bounded.verbs_missing})
    why->resize(std::min(why->size(), kMaxText));
  return base::indented_json(json_of(bounded));
}

Result<DriverFacts> parse_drivers(const std::string& document, const std::string& name) {
  auto facts = record_of<DriverFacts>(document);
  if (facts) return facts;
  return Error(ErrorCode::usage, format("{}: {}", name, facts.error().message),
               "expected the drivers.json of a snapshot made by collctl topo --save");
}

}  // namespace collctl::topology
