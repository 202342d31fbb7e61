// The GPUs of a host as `rails` tries them over its NICs: where each is beside the NICs, whether
// these may reach its memory, and what on the host bears on that. Travels with the host's NICs.
// Threads: values; find_rail_gpus opens the GPUs, any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/result.h"

namespace collctl::transport {
class Device;
}

namespace collctl::runtime {

inline constexpr size_t kMostRailNics = 16;  // of a host; more are ignored, with a note
inline constexpr size_t kMostRailGpus = 16;  // likewise

// A GPU and one of its host's NICs, as the topology has them.
struct GpuToNic {
  std::string path;               // "PIX", "PXB", "PHB", "SYS", ...; empty: not known
  bool near = true;               // no NIC of the host is nearer, as far as is known
  std::string no_read, no_write;  // why the NIC must not read or write its memory; empty: it may
  bool flush = false;             // as NicGdr has it
  bool operator==(const GpuToNic&) const = default;
};
struct RailGpu {
  int ordinal = 0;  // as CUDA counts
  std::string bus_id, model;
  std::vector<GpuToNic> nics;  // by NIC of the host
  bool operator==(const RailGpu&) const = default;
};
// Something about a host, or a device of it, that slows GPUDirect or prevents it.
struct RailFact {
  std::string device;  // a GPU's bus id, a NIC's name; empty: the host
  std::string what, remedy;
  bool operator==(const RailFact&) const = default;
};
// All of a host.
struct RailGpus {
  std::vector<RailGpu> list;
  std::vector<RailFact> facts;
  std::string why_none;  // GPUs are here, and cannot be used
  bool operator==(const RailGpus&) const = default;
};
// Reading is bounded.
void fields(base::Record& io, RailGpus& all);

struct RailHost;
// Those of this host, whose NICs are known already; `devices` in the order of the GPUs.
void find_rail_gpus(RailHost& host, std::vector<std::shared_ptr<transport::Device>>& devices);

}  // namespace collctl::runtime
