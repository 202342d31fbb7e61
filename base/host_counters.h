// Counters of this host's devices since they came up: errors, lost packets, repeats, time in which
// a GPU was slowed down. From the kernel's files, the kernel's log and NVML; nothing is opened for
// writing or changed, and every file is read in part only. Most single values say little (devices
// are years old), and what grew between two readings is what a check looks at; of some (rows to be
// remapped, Xids of this boot) the value itself is a fault. Threads: any.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/record.h"

namespace collctl::base {

enum class CounterOf : uint8_t { gpu, nic, pci, host };
inline constexpr int kCounterKinds = 4;
const char* counter_kind_word(CounterOf kind);

struct DeviceCounter {
  CounterOf kind = CounterOf::host;
  std::string device;  // "0000:3b:00.0", "mlx5_0 port 1", "eth0"; of the host "tcp", "mc0"
  std::string name;    // as the kernel calls it ("symbol_error"), else as below
  uint64_t value = 0;
  bool operator==(const DeviceCounter&) const = default;
};
struct DeviceCounters {
  std::vector<DeviceCounter> counters;  // without those that are 0
  uint64_t looked_at = 0;               // with them
  uint64_t log_end = 0;                 // the number of the kernel's next message
  std::string log_missing;              // why its log cannot be read; empty: it was
  std::string nvml_missing;             // the same of NVML, where there are GPUs
};
void fields(Record& io, DeviceCounters& counters);

// `log_from`: Xids of GPUs that are older in the kernel's log, which is this boot's, are told apart
// ("earlier_xid 79"); ~0: all are.
// `root`: of the file system, for tests.
DeviceCounters device_counters(uint64_t log_from, const std::string& root = "");

// Its parts. Xids of a log as /dev/kmsg gives it, a message each: "6,1234,5678,-;NVRM: Xid
// (PCI:...".
void count_xids(const std::string& message, uint64_t from, DeviceCounters& to);
// GPUs by NVML: ECC errors, remapped rows, errors of NVLinks, repeats on PCIe, time throttled in
// ns.
void read_gpu_counters(DeviceCounters& to);

}  // namespace collctl::base
