// Resources of this process: limits, cgroup, kernel and C library. Read when called. Threads: any.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace collctl::base {

inline constexpr uint64_t kUnlimited = ~uint64_t(0);

struct ResourceLimit {
  uint64_t soft = 0, hard = 0;  // kUnlimited
};
ResourceLimit locked_memory_limit();  // bytes
ResourceLimit open_file_limit();

// Processes and threads of this process's user, all together (ulimit -u).
struct ProcessLimit {
  uint64_t limit = kUnlimited;  // in force; kUnlimited as well where privileges lift it
  uint64_t used = 0;            // as far as /proc shows them; counted only where there is a limit
};
ProcessLimit process_limit();

// Limits of this process's cgroup or the tightest of those around it; absent: no limit.
struct CgroupLimits {
  std::optional<uint64_t> memory_bytes, memory_used_bytes;
  std::optional<double> cores;
  std::optional<uint64_t> pids, pids_used;
  uint64_t memory_group = 0;  // of those that share the memory: alike for all; 0: no limit
};
// `root`: of the file system, for tests.
CgroupLimits cgroup_limits(const std::string& root = "");
// How many processes of this one's cgroup the kernel has killed for lack of memory. `root`: as
// above.
uint64_t memory_kills(const std::string& root = "");

// Bytes that this process can take without anything being swapped out or killed: as the kernel
// says, and within its cgroup; 0: not known. `root`: as above.
uint64_t available_memory(const std::string& root = "");

// Processor time so far of the processors that our cgroup (cpuset) may use, for differences of two
// readings: a container with processors of its own is held up by nobody on the others.
struct HostLoad {
  int64_t at_ns = 0;  // of machine_ns()
  int processors = 0;
  // Sum over them, without interrupts, which serve the ranks' own sockets as well.
  double busy_s = 0, stolen_s = 0;  // stolen by the hypervisor
  double own_s = 0;                 // of that by this process
  uint64_t throttled_times = 0;     // our cgroup, or one around it, had used up its quota
  double throttled_s = 0;
};
// `root`: of the file system, for tests.
HostLoad host_load(const std::string& root = "");

struct SystemNames {
  std::string kernel;   // "6.1.0-18-amd64"
  std::string machine;  // "x86_64"
  std::string libc;     // "2.36"
};
SystemNames system_names();

int64_t wall_clock_ns();  // since 1970

}  // namespace collctl::base
