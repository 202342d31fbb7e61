// Driver facts as JSON, both ways. Reading trusts nothing: every number and list is bounded.
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "topology/detect/driver_facts.h"

namespace collctl::topology {
namespace {

using nlohmann::json;

constexpr int64_t kMaxMbps = 1'000'000'000;
constexpr size_t kMaxText = 256, kMaxTroubles = 1000, kMaxInterfaces = 65536, kMaxListedPorts = 256;

// What is wrong with a document, on its way to the Result of parse_drivers.
struct Wrong {
  std::string what;
};

int64_t whole(const json& j, const char* key, int64_t minimum, int64_t maximum) {
  const json& value = j.at(key);
  if (value.is_number_integer() && !(value.is_number_unsigned() && value > INT64_MAX))
    if (const auto number = value.get<int64_t>(); number >= minimum && number <= maximum)
      return number;
  throw Wrong{format("\"{}\": expected a whole number {}..{}", key, minimum, maximum)};
}

std::string text(const json& j, const char* key) {
  std::string value = j.value(key, "");
  if (value.find('\0') != std::string::npos) throw Wrong{format("\"{}\": expected text", key)};
  if (value.size() > kMaxText) throw Wrong{format("\"{}\": longer than {} bytes", key, kMaxText)};
  return value;
}

template <class T>
std::optional<T> maybe(const json& j, const char* key, int64_t minimum, int64_t maximum) {
  if (!j.contains(key)) return std::nullopt;
  return T(whole(j, key, minimum, maximum));
}

std::optional<bool> maybe_flag(const json& j, const char* key) {
  if (!j.contains(key)) return std::nullopt;
  return j.at(key).get<bool>();
}

const json& list(const json& j, const char* key, size_t most) {
  static const json none = json::array();
  if (!j.contains(key)) return none;
  const json& all = j.at(key);
  if (!all.is_array() || all.size() > most)
    throw Wrong{format("\"{}\": expected a list of at most {}", key, most)};
  return all;
}

BusId bus_id(const json& j, const char* key) {
  const auto id = parse_bus_id(j.at(key).get<std::string>());
  if (!id) throw Wrong{format("\"{}\": expected a PCI address such as 0000:0f:00.0", key)};
  return *id;
}

template <class T>
void put(json& j, const char* key, const std::optional<T>& value) {
  if (value) j[key] = *value;
}
void put_text(json& j, const char* key, const std::string& value) {
  if (!value.empty()) j[key] = value;
}

json gpu_json(const GpuFacts& gpu) {
  json j{{"index", gpu.index}, {"busid", bus_id_text(gpu.bus_id)}};
  put_text(j, "uuid", gpu.uuid);
  put_text(j, "name", gpu.name);
  put(j, "sm", gpu.sm);
  for (const NvlinkFacts& link : gpu.links) {
    json one{{"link", link.link}, {"active", link.active}};
    if (link.remote) one["remote"] = bus_id_text(*link.remote);
    j["nvlinks"].push_back(std::move(one));
  }
  if (!gpu.c2c_mbps.empty()) j["c2c_MBps"] = gpu.c2c_mbps;
  put(j, "mig", gpu.mig);
  put_text(j, "fabric_uuid", gpu.fabric_uuid);
  put(j, "fabric_clique", gpu.fabric_clique);
  put(j, "cuda_ordinal", gpu.cuda_ordinal);
  put(j, "cuda_gdr", gpu.cuda_gdr);
  put(j, "cuda_dmabuf", gpu.cuda_dmabuf);
  if (!gpu.p2p.empty()) j["p2p"] = gpu.p2p;
  return j;
}

GpuFacts gpu_from(const json& j) {
  GpuFacts gpu;
  gpu.index = int(whole(j, "index", 0, 65535));
  gpu.bus_id = bus_id(j, "busid");
  gpu.uuid = text(j, "uuid");
  gpu.name = text(j, "name");
  gpu.sm = maybe<int>(j, "sm", 0, 10000);
  for (const json& one : list(j, "nvlinks", kMaxNvlinks)) {
    NvlinkFacts& link = gpu.links.emplace_back();
    link.link = int(whole(one, "link", 0, kMaxNvlinks));
    link.active = one.at("active").get<bool>();
    if (one.contains("remote")) link.remote = bus_id(one, "remote");
  }
  for (const json& one : list(j, "c2c_MBps", kMaxNvlinks))
    gpu.c2c_mbps.push_back(whole({{"c2c_MBps", one}}, "c2c_MBps", 0, kMaxMbps));
  gpu.mig = maybe_flag(j, "mig");
  gpu.fabric_uuid = text(j, "fabric_uuid");
  gpu.fabric_clique = maybe<int64_t>(j, "fabric_clique", 0, UINT32_MAX);
  gpu.cuda_ordinal = maybe<int>(j, "cuda_ordinal", 0, 65535);
  gpu.cuda_gdr = maybe_flag(j, "cuda_gdr");
  gpu.cuda_dmabuf = maybe_flag(j, "cuda_dmabuf");
  for (const json& one : list(j, "p2p", kMaxGpus))
    gpu.p2p.push_back(whole({{"p2p", one}}, "p2p", 0, 1) != 0);
  return gpu;
}

json rdma_json(const RdmaFacts& rdma) {
  json j{{"name", rdma.name},
         {"system_guid", format("{:016x}", rdma.system_guid)},
         {"max_qp", rdma.max_qp},
         {"ports", json::array()}};
  for (const RdmaPortFacts& port : rdma.ports)
    j["ports"].push_back({{"port", port.port}, {"active", port.active}, {"Mbps", port.mbps}});
  return j;
}

RdmaFacts rdma_from(const json& j) {
  RdmaFacts rdma;
  rdma.name = text(j, "name");
  const std::string guid = text(j, "system_guid");
  if (guid.size() != 16 || guid.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Wrong{"\"system_guid\": expected 16 hexadecimal digits"};
  rdma.system_guid = std::stoull(guid, nullptr, 16);
  rdma.max_qp = whole(j, "max_qp", 0, int64_t{1} << 40);
  for (const json& one : list(j, "ports", kMaxListedPorts))
    rdma.ports.push_back({int(whole(one, "port", 0, 255)), one.at("active").get<bool>(),
                          whole(one, "Mbps", 0, kMaxMbps)});
  return rdma;
}

json interface_json(const InterfaceFacts& each) {
  return {{"name", each.name},
          {"up", each.up},
          {"loopback", each.loopback},
          {"addressed", each.addressed},
          {"Mbps", each.mbps}};
}

InterfaceFacts interface_from(const json& j) {
  return {text(j, "name"), j.at("up").get<bool>(), j.at("loopback").get<bool>(),
          j.at("addressed").get<bool>(), whole(j, "Mbps", 0, kMaxMbps)};
}

DriverFacts facts_from(const json& j) {
  DriverFacts facts;
  facts.nvml_missing = text(j, "nvml_missing");
  facts.cuda_missing = text(j, "cuda_missing");
  facts.verbs_missing = text(j, "verbs_missing");
  facts.nvidia_driver = text(j, "nvidia_driver");
  for (const json& one : list(j, "gpus", kMaxGpus)) facts.gpus.push_back(gpu_from(one));
  for (const GpuFacts& gpu : facts.gpus)
    if (!gpu.p2p.empty() && gpu.p2p.size() != facts.gpus.size())
      throw Wrong{"\"p2p\": expected a number for each GPU"};
  for (const json& one : list(j, "rdma", kMaxRdma)) facts.rdma.push_back(rdma_from(one));
  if (j.contains("interfaces")) {
    facts.interfaces.emplace();
    for (const json& one : list(j, "interfaces", kMaxInterfaces))
      facts.interfaces->push_back(interface_from(one));
  }
  for (const json& one : list(j, "troubles", kMaxTroubles))
    facts.troubles.push_back(one.get<std::string>().substr(0, kMaxText));
  return facts;
}

}  // namespace

std::string drivers_json(const DriverFacts& facts) {
  json j = json::object();
  put_text(j, "nvml_missing", facts.nvml_missing.substr(0, kMaxText));
  put_text(j, "cuda_missing", facts.cuda_missing.substr(0, kMaxText));
  put_text(j, "verbs_missing", facts.verbs_missing.substr(0, kMaxText));
  put_text(j, "nvidia_driver", facts.nvidia_driver);
  for (const GpuFacts& gpu : facts.gpus) j["gpus"].push_back(gpu_json(gpu));
  for (const RdmaFacts& rdma : facts.rdma) j["rdma"].push_back(rdma_json(rdma));
  if (facts.interfaces) {
    j["interfaces"] = json::array();
    for (const InterfaceFacts& each : *facts.interfaces)
      j["interfaces"].push_back(interface_json(each));
  }
  if (!facts.troubles.empty()) j["troubles"] = facts.troubles;
  // Names come from the kernel and drivers: what is no UTF-8 is replaced.
  return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<DriverFacts> parse_drivers(const std::string& document, const std::string& name) {
  const auto wrong = [&](const std::string& what) {
    return Error(ErrorCode::usage, format("{}: {}", name, what),
                 "expected the drivers.json of a snapshot made by collctl topo --save");
  };
  try {
    return facts_from(json::parse(document));
  } catch (const Wrong& found) {
    return wrong(found.what);
  } catch (const json::exception& error) {
    return wrong(error.what());
  }
}

}  // namespace collctl::topology
