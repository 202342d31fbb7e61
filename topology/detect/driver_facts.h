// Facts of a machine that only drivers know, as plain values: GPUs and their NVLinks (NVML, CUDA),
// RDMA ports (verbs), network interfaces with an address. Part of a snapshot as JSON. Made by
// live_drivers or read from a snapshot, used by discover. Threads: values.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/types.h"

namespace collctl::topology {

struct NvlinkFacts {
  int link = 0;  // its number on the GPU
  bool active = false;
  std::optional<BusId> remote;  // kInvisibleTarget: there, but not shown
  bool operator==(const NvlinkFacts&) const = default;
};

struct GpuFacts {
  int index = 0;  // NVML's; CUDA's without NVML
  BusId bus_id;
  std::string uuid, name;
  std::optional<int> sm;           // compute capability x 10
  std::vector<NvlinkFacts> links;  // those that the device has
  std::vector<int64_t> c2c_mbps;   // 10^6 bytes/s of each active C2C link
  std::optional<bool> mig;
  std::string fabric_uuid;  // hexadecimal, of a multi-host NVLink cluster; or empty
  std::optional<int64_t> fabric_clique;
  // CUDA's ordinal and attributes, where CUDA sees the device.
  std::optional<int> cuda_ordinal;
  std::optional<bool> cuda_gdr, cuda_dmabuf;
  // By index into DriverFacts::gpus: 1 read and write allowed, 0 not; empty when not asked.
  std::vector<int> p2p;
  bool operator==(const GpuFacts&) const = default;
};

struct RdmaPortFacts {
  int port = 0;
  bool active = false;
  int64_t mbps = 0;  // 10^6 bits/s, 0: unknown
  bool operator==(const RdmaPortFacts&) const = default;
};
struct RdmaFacts {
  std::string name;  // "mlx5_0"
  uint64_t system_guid = 0;
  int64_t max_qp = 0;
  std::vector<RdmaPortFacts> ports;
  bool operator==(const RdmaFacts&) const = default;
};

struct InterfaceFacts {
  std::string name;
  bool up = false, loopback = false, addressed = false;
  int64_t mbps = 0;  // 0: unknown
  // Why no other host is reached by it (base/interface_choice.h); empty as well where that was not
  // recorded.
  std::string aside = {};
  bool operator==(const InterfaceFacts&) const = default;
};

struct DriverFacts {
  // Why a library gave no facts; empty when it did.
  std::string nvml_missing, cuda_missing, verbs_missing;
  std::string nvidia_driver;  // version
  std::vector<GpuFacts> gpus;
  std::vector<RdmaFacts> rdma;
  std::optional<std::vector<InterfaceFacts>> interfaces;  // none: only the files are known
  std::vector<std::string> troubles;  // what a library could not report, one sentence each
  bool operator==(const DriverFacts&) const = default;
};

// Asks the drivers of this machine. Takes as long as they do: a second on a machine whose GPUs
// sleep.
DriverFacts live_drivers();

std::string drivers_json(const DriverFacts& facts);
// `name` stands in messages. Errors: usage, for what is no such document or out of bounds.
Result<DriverFacts> parse_drivers(const std::string& text, const std::string& name);

inline constexpr size_t kMaxGpus = 256;
inline constexpr int kMaxNvlinks = 64;  // of one GPU
inline constexpr size_t kMaxRdma = 1024;

}  // namespace collctl::topology
