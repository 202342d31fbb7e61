// How the devices of this host are set and linked now, beside what they counted: GPUs by NVML, NICs
// and PCI links by the kernel's files. Facts as they were read, by name, so that a machine can be
// recorded and judged elsewhere; nothing is opened for writing or changed. A value that a device
// does not have is left out; one that it should report and does not is in `unread`. Threads: any.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/host_counters.h"
#include "base/record.h"

namespace collctl::base {

struct StateFact {
  std::string name;   // "pcie_width"; docs/check.md has them all
  std::string value;  // a plain decimal number, "on", "off", or a word of the kernel's or driver's
  bool operator==(const StateFact&) const = default;
};
struct DeviceState {
  CounterOf kind = CounterOf::host;
  std::string device;  // as in DeviceCounter; of the host itself "host"
  std::string model;   // devices of one model are peers
  std::vector<StateFact> facts;
  // The first of that name; null: it is not known.
  const std::string* find(const char* name) const;
  void add(const char* name, std::string value);
  bool operator==(const DeviceState&) const = default;
};
struct HostState {
  uint64_t uptime_s = 0;
  std::vector<DeviceState> devices;
  DeviceCounters counters;          // since the devices came up
  std::vector<std::string> unread;  // one sentence each
};
void fields(Record& io, HostState& state);

// A second, or as long as the driver takes to wake GPUs. `root`: of the file system, for tests.
HostState host_state(const std::string& root = "");

// Its part: facts of GPUs by NVML, into the devices that are there or new ones. Processes of this
// very process are left out.
void read_gpu_states(HostState& to);

// Whether "4242 nvidia-cuda-mps 30 MiB" is a program that serves others on a GPU and stays there.
bool serves_others(const std::string& process);
// Programs on the GPUs now, by bus number: "GPU 0000:4b:00.0: process 4242 python3 71000
// MiB is on it". Empty: nothing, or the driver does not answer.
std::map<std::string, std::string> gpu_users();

// Its part: facts of the module in an interface; of each lane one "module_uW" that it
// receives and one "module_tx_uW" that it sends.
struct NicModule;
void add_module(DeviceState& nic, const NicModule& module);

inline constexpr size_t kMostStateDevices = 4096, kMostStateFacts = 512, kMostStateText = 512;

}  // namespace collctl::base
