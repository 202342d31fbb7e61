#include "base/host_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/env.h"

namespace collctl::base {
namespace {

std::string read_small_file(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char buffer[4096];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  std::string text(buffer, n > 0 ? size_t(n) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

uint64_t fnv(const std::string& text, uint64_t hash) {
  hash ^= 0xcbf29ce484222325ull;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  // A final mix (splitmix64) so that near names differ in every bit.
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ull;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebull;
  return hash ^ (hash >> 31);
}

uint64_t inode_of(const char* path) {
  struct stat s;
  return ::stat(path, &s) == 0 ? uint64_t(s.st_ino) : 0;
}

// CPU quota of the cgroup in cores, or 0 for none.
int cgroup_cores() {
  const std::string v2 = read_small_file("/sys/fs/cgroup/cpu.max");
  long quota = 0, period = 0;
  if (std::sscanf(v2.c_str(), "%ld %ld", &quota, &period) == 2 && period > 0)
    return int(std::max(1L, (quota + period - 1) / period));
  quota = std::atol(read_small_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str());
  period = std::atol(read_small_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  if (quota > 0 && period > 0) return int(std::max(1L, (quota + period - 1) / period));
  return 0;
}

}  // namespace

const std::string& own_host_name() {
  static const std::string name = [] {
    char buffer[256] = {};
    return gethostname(buffer, sizeof buffer - 1) == 0 ? std::string(buffer)
                                                       : std::string("localhost");
  }();
  return name;
}

namespace {
Host& job_host() {
  static Host host{HostId{0}, own_host_name()};
  return host;
}
}  // namespace

const Host& this_host() {
  return job_host();
}

const std::string& host_name() {
  return job_host().name;
}

void call_this_host(const Host& host) {
  if (host.named()) job_host() = host;
}

const std::string& boot_id() {
  static const std::string id = read_small_file("/proc/sys/kernel/random/boot_id");
  return id;
}

uint64_t host_hash(uint64_t salt) {
  const std::string given = knob_text(KnobId::hostid);
  return fnv(given.empty() ? own_host_name() + "/" + boot_id() : given, salt);
}

uint64_t machine_hash(uint64_t salt) {
  return boot_id().empty() ? 0 : fnv(boot_id(), salt);
}

uint64_t process_hash(uint64_t salt) {
  return fnv(std::to_string(pid_namespace()) + "/" + std::to_string(getpid()), host_hash(salt));
}

uint64_t network_namespace() {
  return inode_of("/proc/self/ns/net");
}

uint64_t pid_namespace() {
  return inode_of("/proc/self/ns/pid");
}

uint64_t shm_device() {
  struct stat s;
  return ::stat("/dev/shm", &s) == 0 && S_ISDIR(s.st_mode) ? uint64_t(s.st_dev) : 0;
}

ShmSpace shm_space() {
  struct statvfs s;
  if (shm_device() == 0 || ::statvfs("/dev/shm", &s) != 0) return {};
  return {uint64_t(s.f_blocks) * s.f_frsize, uint64_t(s.f_bavail) * s.f_frsize, true};
}

int pci_numa_node(const std::string& bus_id) {
  const std::string text =
      read_small_file(("/sys/bus/pci/devices/" + bus_id + "/numa_node").c_str());
  return text.empty() ? -1 : std::atoi(text.c_str());
}

int nvidia_gpus() {
  int count = 0;
  if (DIR* dir = ::opendir("/proc/driver/nvidia/gpus")) {
    while (const dirent* entry = ::readdir(dir)) count += entry->d_name[0] == '.' ? 0 : 1;
    ::closedir(dir);
  }
  return count;
}

std::string machine_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "unknown";
}

int usable_cores() {
  static const int cores = [] {
    // 4096 CPUs: larger machines fail the call and fall back to what is online.
    cpu_set_t* set = CPU_ALLOC(4096);
    const size_t bytes = CPU_ALLOC_SIZE(4096);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set)
                                                      : int(sysconf(_SC_NPROCESSORS_ONLN));
    CPU_FREE(set);
    if (const int quota = cgroup_cores(); quota > 0) count = std::min(count, quota);
    return std::max(count, 1);
  }();
  return cores;
}

uint64_t physical_memory() {
  return uint64_t(sysconf(_SC_PHYS_PAGES)) * page_bytes();
}

uint64_t page_bytes() {
  return uint64_t(sysconf(_SC_PAGE_SIZE));
}

char process_state(int pid) {
  const std::string text = read_small_file(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const size_t close = text.rfind(')');  // the command in parentheses may itself hold parentheses
  return close == std::string::npos || close + 2 >= text.size() ? char(0) : text[close + 2];
}

namespace {

// Directory entries that are plain numbers after `prefix` ("node3" -> 3).
std::vector<int> numbered_entries(const std::string& path, const std::string& prefix) {
  std::vector<int> numbers;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return numbers;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() <= prefix.size() || name.size() > prefix.size() + 9 ||
        name.compare(0, prefix.size(), prefix) != 0 ||
        name.find_first_not_of("0123456789", prefix.size()) != std::string::npos)
      continue;
    numbers.push_back(std::atoi(name.c_str() + prefix.size()));
  }
  ::closedir(dir);
  std::ranges::sort(numbers);
  return numbers;
}

int parent_of(int pid) {
  const std::string text = read_small_file(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const size_t close = text.rfind(')');
  int parent = 0;
  if (close == std::string::npos || std::sscanf(text.c_str() + close + 1, " %*c %d", &parent) != 1)
    return 0;
  return parent;
}

// All of a file: the kernel's list of children may be longer than a small file.
bool read_whole_file(const std::string& path, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, size_t(n));
  ::close(fd);
  return n == 0;
}

}  // namespace

std::vector<int> child_processes(int pid) {
  std::vector<int> children;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  bool listed = true;
  for (const int task : numbered_entries(tasks, "")) {
    std::string text;
    // Missing where the kernel was built without this file, or when the thread just ended.
    listed = read_whole_file(tasks + "/" + std::to_string(task) + "/children", text) && listed;
    const char* at = text.c_str();
    char* end = nullptr;
    for (long child = std::strtol(at, &end, 10); end != at; child = std::strtol(at, &end, 10)) {
      children.push_back(int(child));
      at = end;
    }
  }
  if (listed) return children;
  children.clear();
  for (const int other : numbered_entries("/proc", ""))
    if (parent_of(other) == pid) children.push_back(other);
  return children;
}

std::vector<int> affinity_cores() {
  std::vector<int> cores;
  constexpr size_t kMost = 8192;
  cpu_set_t* set = CPU_ALLOC(kMost);
  const size_t bytes = CPU_ALLOC_SIZE(kMost);
  CPU_ZERO_S(bytes, set);
  if (sched_getaffinity(0, bytes, set) == 0)
    for (size_t core = 0; core < kMost; ++core)
      if (CPU_ISSET_S(core, bytes, set)) cores.push_back(int(core));
  CPU_FREE(set);
  return cores;
}

uint64_t raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

std::string descriptor_path(int fd) {
  // /proc may be that of another PID namespace: it knows this process by its own number.
  char self[32];
  const ssize_t n = ::readlink("/proc/self", self, sizeof self);
  const std::string pid = n > 0 ? std::string(self, size_t(n)) : std::to_string(::getpid());
  return "/proc/" + pid + "/fd/" + std::to_string(fd);
}

}  // namespace collctl::base
