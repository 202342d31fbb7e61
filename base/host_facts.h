// Facts of this host and process, read once from the kernel: names, identities, counts. The only
// place besides the topology readers that reads /proc and /sys. Threads: any; results are cached.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/host.h"

namespace collctl::base {

// As the job has this host: the user's list says its name and place. Without a list, and before the
// job has said so, the first, by the kernel's name.
const Host& this_host();
const std::string& host_name();      // of that
const std::string& own_host_name();  // short or long, as the kernel says
// The job's word; no place: ranks that others started count their hosts themselves. Threads: before
// any other reads it.
void call_this_host(const Host& host);
const std::string& boot_id();  // one per boot, shared by all containers of a machine; may be empty
// Identity of the host for one communicator: host name and boot id (or COLLCTL_HOSTID), salted with
// the job's id.
uint64_t host_hash(uint64_t salt);
// Identity of the machine as it booted, whatever HOSTID says; 0: unknown.
uint64_t machine_hash(uint64_t salt);
// Identity of the process: host, pid namespace and pid, salted.
uint64_t process_hash(uint64_t salt);
uint64_t network_namespace();  // inode of /proc/self/ns/net, 0 when unknown
uint64_t pid_namespace();
uint64_t shm_device();  // st_dev of /dev/shm, 0 when there is none
struct ShmSpace {
  uint64_t total_bytes = 0, free_bytes = 0;
  bool present = false;
};
ShmSpace shm_space();  // of /dev/shm, now
// The NUMA node of a PCI device ("0000:4b:00.0"); -1 when the kernel does not say.
int pci_numa_node(const std::string& bus_id);
int nvidia_gpus();           // that the driver shows; 0 without one
std::string machine_name();  // "x86_64", "aarch64"
int usable_cores();          // by the affinity mask and the cgroup's quota, at least 1
uint64_t physical_memory();  // bytes
uint64_t page_bytes();       // 4 KiB; 64 KiB under many kernels for Arm
// One letter of /proc/PID/stat (R, S, D, T, Z...), or 0 when the process is gone.
char process_state(int pid);
// The direct children of a process (all its threads), zombies included; empty when it is gone.
std::vector<int> child_processes(int pid);
// The logical processors this process may run on, ascending.
std::vector<int> affinity_cores();
// The path by which this very binary can be started again, even when its file was replaced.
inline constexpr const char* kSelfPath = "/proc/self/exe";
// By number below it: by which this process, and a library in it, opens what a descriptor has open.
inline constexpr const char* kOwnDescriptors = "/proc/self/fd";
// A path by which another process of this user can open a descriptor of this one.
std::string descriptor_path(int fd);
// Raises the soft limit of open files as far as allowed; returns the limit in force.
uint64_t raise_open_file_limit();

}  // namespace collctl::base
