#include "launcher/probe.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/host_facts.h"
#include "launcher/binary.h"

namespace collctl::launcher {
namespace {

using nlohmann::json;

template <class T>
json optional_json(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

template <class T>
std::optional<T> optional_from(const json& j, const char* key) {
  const json& value = j.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

// null: unlimited.
json limit_json(const base::ResourceLimit& limit) {
  const auto number = [](uint64_t v) { return v == base::kUnlimited ? json(nullptr) : json(v); };
  return {{"soft", number(limit.soft)}, {"hard", number(limit.hard)}};
}

base::ResourceLimit limit_from(const json& j) {
  return {optional_from<uint64_t>(j, "soft").value_or(base::kUnlimited),
          optional_from<uint64_t>(j, "hard").value_or(base::kUnlimited)};
}

json interface_json(const base::NetInterface& interface) {
  json addresses = json::array();
  for (const auto& address : interface.addresses)
    addresses.push_back({{"address", address.text}, {"prefix", address.prefix}});
  return {{"name", interface.name},
          {"up", interface.up},
          {"loopback", interface.loopback},
          {"mtu", interface.mtu},
          {"speed_Mbps", interface.speed_mbps},
          {"addresses", std::move(addresses)}};
}

base::NetInterface interface_from(const json& j) {
  base::NetInterface interface;
  interface.name = j.at("name");
  interface.up = j.at("up");
  interface.loopback = j.at("loopback");
  interface.mtu = j.at("mtu");
  interface.speed_mbps = j.at("speed_Mbps");
  for (const json& address : j.at("addresses"))
    interface.addresses.push_back({address.at("address"), address.at("prefix")});
  return interface;
}

json cgroup_json(const base::CgroupLimits& limits) {
  return {{"memory_bytes", optional_json(limits.memory_bytes)},
          {"memory_used_bytes", optional_json(limits.memory_used_bytes)},
          {"cores", optional_json(limits.cores)},
          {"pids", optional_json(limits.pids)},
          {"pids_used", optional_json(limits.pids_used)}};
}

base::CgroupLimits cgroup_from(const json& j) {
  base::CgroupLimits limits;
  limits.memory_bytes = optional_from<uint64_t>(j, "memory_bytes");
  limits.memory_used_bytes = optional_from<uint64_t>(j, "memory_used_bytes");
  limits.cores = optional_from<double>(j, "cores");
  limits.pids = optional_from<uint64_t>(j, "pids");
  limits.pids_used = optional_from<uint64_t>(j, "pids_used");
  return limits;
}

json rdma_json(const std::vector<base::RdmaPort>& ports) {
  json list = json::array();
  for (const auto& port : ports)
    list.push_back({{"device", port.device},
                    {"port", port.port},
                    {"state", port.state},
                    {"rate", port.rate},
                    {"link", port.link}});
  return list;
}

HostFacts parsed(const json& j) {
  HostFacts facts;
  facts.host = j.at("host");
  facts.version = j.at("version");
  facts.binary = j.at("binary_sha256");
  facts.system = {j.at("kernel"), j.at("machine"), j.at("glibc")};
  facts.cores = j.at("cores");
  facts.memory_bytes = j.at("memory_bytes");
  facts.locked_memory = limit_from(j.at("locked_memory_bytes"));
  facts.open_files = limit_from(j.at("open_files"));
  facts.has_shm = !j.at("shm").is_null();
  if (facts.has_shm) {
    facts.shm_bytes = j.at("shm").at("bytes");
    facts.shm_free_bytes = j.at("shm").at("free_bytes");
  }
  facts.cgroup = cgroup_from(j.at("cgroup"));
  facts.nvidia.driver = j.at("nvidia").at("driver");
  facts.nvidia.gpus = j.at("nvidia").at("gpus").get<std::vector<std::string>>();
  for (const json& port : j.at("rdma"))
    facts.rdma.push_back(
        {port.at("device"), port.at("port"), port.at("state"), port.at("rate"), port.at("link")});
  for (const json& interface : j.at("interfaces"))
    facts.interfaces.push_back(interface_from(interface));
  facts.clock_ns = j.at("clock_ns");
  return facts;
}

}  // namespace

Result<HostFacts> gather_facts(const std::string& version) {
  HostFacts facts;
  facts.host = base::host_name();
  facts.version = version;
  COLL_ASSIGN(facts.binary, file_hash(base::kSelfPath));
  facts.system = base::system_names();
  facts.cores = base::usable_cores();
  facts.memory_bytes = base::physical_memory();
  facts.locked_memory = base::locked_memory_limit();
  facts.open_files = base::open_file_limit();
  const base::ShmSpace shm = base::shm_space();
  facts.has_shm = shm.present;
  facts.shm_bytes = shm.total_bytes;
  facts.shm_free_bytes = shm.free_bytes;
  facts.cgroup = base::cgroup_limits();
  facts.nvidia = base::nvidia_facts();
  facts.rdma = base::rdma_ports();
  facts.interfaces = base::net_interfaces();
  facts.clock_ns = base::wall_clock_ns();
  return facts;
}

std::string facts_to_json(const HostFacts& facts) {
  json interfaces = json::array();
  for (const auto& interface : facts.interfaces) interfaces.push_back(interface_json(interface));
  json j = {{"host", facts.host},
            {"version", facts.version},
            {"binary_sha256", facts.binary},
            {"kernel", facts.system.kernel},
            {"machine", facts.system.machine},
            {"glibc", facts.system.libc},
            {"cores", facts.cores},
            {"memory_bytes", facts.memory_bytes},
            {"locked_memory_bytes", limit_json(facts.locked_memory)},
            {"open_files", limit_json(facts.open_files)},
            {"shm", nullptr},
            {"cgroup", cgroup_json(facts.cgroup)},
            {"nvidia", {{"driver", facts.nvidia.driver}, {"gpus", facts.nvidia.gpus}}},
            {"rdma", rdma_json(facts.rdma)},
            {"interfaces", std::move(interfaces)},
            {"clock_ns", facts.clock_ns}};
  if (facts.has_shm) j["shm"] = {{"bytes", facts.shm_bytes}, {"free_bytes", facts.shm_free_bytes}};
  // A host may have bytes in its names that are no UTF-8.
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<HostFacts> facts_from_json(const std::string& text) {
  try {
    return parsed(json::parse(text));
  } catch (const json::exception& e) {
    return Error(ErrorCode::launch, format("the facts of the host cannot be read: {}", e.what()),
                 "is the same version of collctl there? --stage always sends this one");
  }
}

}  // namespace collctl::launcher
