// THE table of a host's facts as they travel: every record names its fields once, for writing and
// for reading. Reading trusts nothing: kinds are checked, lists are bounded. Used by probe.cc.
// Threads: values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/format.h"
#include "launcher/remote/probe.h"

namespace collctl::launcher::probe_fields {

using Json = nlohmann::json;

// What has no bound of its own.
inline constexpr size_t kMostEntries = 4096;

class FactsWriter;
class FactsReader;
template <class Io, class T>
using As = std::conditional_t<std::is_same_v<Io, FactsWriter>, const T, T>;

// --- the table ---

template <class Io>
void fields(Io& io, As<Io, base::ResourceLimit>& limit) {
  io.limit("soft", limit.soft);
  io.limit("hard", limit.hard);
}

template <class Io>
void fields(Io& io, As<Io, base::ProcessLimit>& processes) {
  io.limit("limit", processes.limit);
  io.field("used", processes.used);
}

template <class Io>
void fields(Io& io, As<Io, base::CgroupLimits>& limits) {
  io.field("memory_bytes", limits.memory_bytes);
  io.field("memory_used_bytes", limits.memory_used_bytes);
  io.field("cores", limits.cores);
  io.field("pids", limits.pids);
  io.field("pids_used", limits.pids_used);
}

template <class Io>
void fields(Io& io, As<Io, base::InterfaceAddress>& address) {
  io.field("address", address.text);
  io.field("prefix", address.prefix);
}

template <class Io>
void fields(Io& io, As<Io, base::NetInterface>& interface) {
  io.field("name", interface.name);
  io.field("up", interface.up);
  io.field("loopback", interface.loopback);
  io.field("mtu", interface.mtu);
  io.field("speed_Mbps", interface.speed_mbps);
  io.list("addresses", interface.addresses, kMostEntries);
}

template <class Io>
void fields(Io& io, As<Io, base::RdmaPort>& port) {
  io.field("device", port.device);
  io.field("port", port.port);
  io.field("state", port.state);
  io.field("rate", port.rate);
  io.field("link", port.link);
}

template <class Io>
void fields(Io& io, As<Io, base::RdmaGid>& gid) {
  io.field("index", gid.index);
  io.field("type", gid.type);
  io.field("address", gid.address);
  io.field("interface", gid.interface);
}

template <class Io>
void fields(Io& io, As<Io, base::RdmaPortDetail>& port) {
  io.field("port", port.port);
  io.field("state", port.state);
  io.field("physical", port.physical);
  io.field("rate", port.rate);
  io.field("link", port.link);
  io.list("gids", port.gids, base::kMostRdmaGids);
}

template <class Io>
void fields(Io& io, As<Io, base::RdmaDevice>& device) {
  io.field("name", device.name);
  io.field("busid", device.bus_id);
  io.field("numa", device.numa);
  io.field("firmware", device.firmware);
  io.field("board", device.board);
  io.list("interfaces", device.interfaces, 64);
  io.list("ports", device.ports, base::kMostRdmaPorts);
}

template <class Io>
void fields(Io& io, As<Io, base::GpuDirectFacts>& facts) {
  io.field("gpus", facts.gpus);
  io.field("rdma_devices", facts.rdma_devices);
  io.field("kernel", facts.kernel);
  io.field("driver", facts.driver);
  io.field("open_driver", facts.open_driver);
  io.field("module", facts.module);
  io.field("iommu", facts.iommu);
  io.list("acs_redirecting", facts.redirecting, kMostEntries);
  io.field("acs_known", facts.acs_known);
}

template <class Io>
void fields(Io& io, As<Io, base::NvidiaFacts>& facts) {
  io.field("driver", facts.driver);
  io.list("gpus", facts.gpus, kMostEntries);
  io.field("on_pci", facts.on_pci);
}

template <class Io>
void fields(Io& io, As<Io, RdmaFacts>& facts) {
  io.list("rdma_devices", facts.rdma_devices, base::kMostRdmaDevices);
  io.record("gpu_direct", facts.gpu_direct);
}

template <class Io>
void fields(Io& io, As<Io, HostFacts>& facts) {
  io.field("host", facts.host);
  io.field("version", facts.version);
  io.field("binary_sha256", facts.binary);
  io.field("kernel", facts.system.kernel);
  io.field("machine", facts.system.machine);
  io.field("glibc", facts.system.libc);
  io.field("cores", facts.cores);
  io.field("memory_bytes", facts.memory_bytes);
  io.record("locked_memory_bytes", facts.locked_memory);
  io.record("open_files", facts.open_files);
  io.record("processes", facts.processes);
  io.record_if("shm", facts.has_shm, [&](auto& inner) {
    inner.field("bytes", facts.shm_bytes);
    inner.field("free_bytes", facts.shm_free_bytes);
  });
  io.record("cgroup", facts.cgroup);
  io.record("nvidia", facts.nvidia);
  io.list("rdma", facts.rdma, base::kMostRdmaDevices * base::kMostRdmaPorts);
  fields(io, static_cast<As<Io, RdmaFacts>&>(facts));
  io.list("interfaces", facts.interfaces, kMostEntries);
  io.field("clock_ns", facts.clock_ns);
}

// --- the two directions ---

class FactsWriter {
 public:
  template <class T>
  void field(const char* name, const T& value) {
    json_[name] = value;
  }
  template <class T>
  void field(const char* name, const std::optional<T>& value) {
    json_[name] = value ? Json(*value) : Json(nullptr);
  }
  // null: unlimited.
  void limit(const char* name, uint64_t value) {
    json_[name] = value == base::kUnlimited ? Json(nullptr) : Json(value);
  }
  template <class T>
  void record(const char* name, const T& value) {
    json_[name] = written(value);
  }
  template <class Inner>
  void record_if(const char* name, bool there, Inner inner) {
    json_[name] = nullptr;
    if (!there) return;
    FactsWriter writer;
    inner(writer);
    json_[name] = std::move(writer.json_);
  }
  template <class T>
  void list(const char* name, const std::vector<T>& values, size_t) {
    Json list = Json::array();
    for (const T& value : values) {
      if constexpr (std::is_same_v<T, std::string>)
        list.push_back(value);
      else
        list.push_back(written(value));
    }
    json_[name] = std::move(list);
  }
  template <class T>
  static Json written(const T& value) {
    FactsWriter writer;
    fields(writer, value);
    return std::move(writer.json_);
  }

 private:
  Json json_ = Json::object();
};

// Throws the parser's exceptions: what cannot be read.
class FactsReader {
 public:
  explicit FactsReader(const Json& json) : json_(json) {}
  template <class T>
  void field(const char* name, T& value) {
    value = json_.at(name).get<T>();
  }
  template <class T>
  void field(const char* name, std::optional<T>& value) {
    const Json& field = json_.at(name);
    value = field.is_null() ? std::nullopt : std::optional(field.get<T>());
  }
  void limit(const char* name, uint64_t& value) {
    const Json& field = json_.at(name);
    value = field.is_null() ? base::kUnlimited : field.get<uint64_t>();
  }
  template <class T>
  void record(const char* name, T& value) {
    read(json_.at(name), value);
  }
  template <class Inner>
  void record_if(const char* name, bool& there, Inner inner) {
    const Json& field = json_.at(name);
    there = !field.is_null();
    if (!there) return;
    FactsReader reader(field);
    inner(reader);
  }
  // A list, no longer than what a host would send.
  template <class T>
  void list(const char* name, std::vector<T>& values, size_t most) {
    const Json& list = json_.at(name);
    if (!list.is_array() || list.size() > most)
      throw Json::other_error::create(500, format("'{}': at most {} are expected", name, most),
                                      &list);
    values.clear();
    for (const Json& element : list) {
      if constexpr (std::is_same_v<T, std::string>)
        values.push_back(element.get<std::string>());
      else
        read(element, values.emplace_back());
    }
  }
  template <class T>
  static void read(const Json& json, T& value) {
    FactsReader reader(json);
    fields(reader, value);
  }

 private:
  const Json& json_;
};

}  // namespace collctl::launcher::probe_fields
