// The doctor's facts about one host, gathered on it. Runs in the agent (or here, without hosts);
// the facts travel as JSON. Threads: any.
#pragma once
#include <string>
#include <vector>

#include "base/host_devices.h"
#include "base/host_limits.h"
#include "base/host_rdma.h"
#include "base/record.h"
#include "base/result.h"

namespace collctl::launcher {

// RDMA devices, and whether they reach the memory of GPUs.
struct RdmaFacts {
  std::vector<base::RdmaDevice> rdma_devices;
  base::GpuDirectFacts gpu_direct;
};

struct HostFacts : RdmaFacts {
  std::string host;     // as its kernel calls it
  std::string place;    // of the machine's boot and this network in it; equal: one host
  std::string version;  // of the binary that looked
  std::string binary;   // its SHA-256
  base::SystemNames system;
  int cores = 0;       // usable
  int processors = 0;  // of the machine; 0: not known
  uint64_t memory_bytes = 0;
  base::ResourceLimit locked_memory, open_files;
  base::ProcessLimit processes;
  bool has_shm = false;
  uint64_t shm_bytes = 0, shm_free_bytes = 0;
  base::CgroupLimits cgroup;
  base::NvidiaFacts nvidia;
  std::vector<base::RdmaPort> rdma;
  std::vector<base::NetInterface> interfaces;
  int64_t clock_ns = 0;  // wall clock when the facts were complete
};

Result<HostFacts> gather_facts(const std::string& version);

std::string facts_to_json(const HostFacts& facts);
// Code launch when the text is malformed: the other side is another version of collctl.
Result<HostFacts> facts_from_json(const std::string& text);
// A part of it as part of another document.
void fields(Record& io, RdmaFacts& facts);

}  // namespace collctl::launcher
