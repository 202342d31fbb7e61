#include "base/host_limits.h"

#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/first_line.h"
#include "base/format.h"
#include "base/processors.h"

namespace collctl::base {
namespace {

ResourceLimit limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(__rlimit_resource(resource), &limit) != 0) return {};
  const auto value = [](rlim_t v) { return v == RLIM_INFINITY ? kUnlimited : uint64_t(v); };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

// A number of a cgroup file; absent for "max", for what v1 writes as no limit, and for no file.
std::optional<uint64_t> cgroup_number(const std::string& path) {
  const std::string text = first_line(path);
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
  return value >= uint64_t(1) << 60 ? std::nullopt : std::optional(value);
}

std::optional<double> cgroup_cores(const std::string& folder, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    std::istringstream in(first_line(folder + "/cpu.max"));
    if (!(in >> quota >> period)) return std::nullopt;  // "max 100000"
  } else {
    quota = std::atof(first_line(folder + "/cpu.cfs_quota_us").c_str());
    period = std::atof(first_line(folder + "/cpu.cfs_period_us").c_str());
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// Our cgroup below the mount of a controller ("" for the unified hierarchy): "/a/b".
std::string own_cgroup(const std::string& controller, const std::string& root = "") {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool ours = controller.empty() ? names == ",,"
                                         : names.find(',' + controller + ',') != std::string::npos;
    if (ours) return line.substr(second + 1);
  }
  return {};
}

// Calls `look` with the folder of our cgroup and of each one around it. In a container only the
// mount's own folder may be visible: it is always looked at.
template <class Look>
void walk_up(const std::string& mount, std::string cgroup, Look look) {
  while (cgroup.size() > 1) {
    look(mount + cgroup);
    cgroup.resize(cgroup.rfind('/'));
  }
  look(mount);
}

// The first number of a line of /proc/PID/status.
template <class T>
T status_value(const std::string& text, const std::string& name, bool hex = false) {
  T value = 0;
  const size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return value;
  std::istringstream in(text.substr(at + name.size() + 2, 64));
  if (hex) in >> std::hex;
  in >> value;
  return value;
}

std::string status_of(const std::string& process) {
  std::ifstream in("/proc/" + process + "/status");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The kernel holds neither root to it nor who may raise or administer everything, as far as that is
// in its first user namespace.
bool beyond_process_limit() {
  std::istringstream map(first_line("/proc/self/uid_map"));
  uint64_t inside = 1, outside = 1, count = 0;
  if (!(map >> inside >> outside >> count) || inside != 0 || outside != 0 || count < UINT32_MAX)
    return false;
  constexpr uint64_t kSysAdmin = 1 << 21, kSysResource = 1 << 24;
  const auto may = status_value<uint64_t>(status_of("self"), "CapEff", true);
  return ::getuid() == 0 || (may & (kSysAdmin | kSysResource)) != 0;
}

uint64_t tasks_of_user() {
  uint64_t tasks = 0;
  std::error_code none;  // a process that ends meanwhile has none
  for (std::filesystem::directory_iterator it("/proc", none), end; !none && it != end;
       it.increment(none)) {
    const std::string name = it->path().filename().string();
    if (name[0] < '0' || name[0] > '9') continue;
    const std::string status = status_of(name);
    if (status.empty() || status_value<uint64_t>(status, "Uid") != ::getuid()) continue;
    tasks += status_value<uint64_t>(status, "Threads");
  }
  return tasks;
}

template <class T>
void tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// The number of one name in a file of a cgroup with "NAME NUMBER" in each line.
uint64_t number_after(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  std::string word;
  uint64_t value = 0;
  while (in >> word >> value)
    if (word == name) return value;
  return 0;
}

}  // namespace

ResourceLimit locked_memory_limit() {
  return limit_of(RLIMIT_MEMLOCK);
}

ResourceLimit open_file_limit() {
  return limit_of(RLIMIT_NOFILE);
}

ProcessLimit process_limit() {
  const uint64_t limit = limit_of(RLIMIT_NPROC).soft;
  if (limit == kUnlimited || beyond_process_limit()) return {};
  return {limit, tasks_of_user()};
}

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  // The use that goes with the tightest limit.
  const auto both = [](std::optional<uint64_t>& limit, std::optional<uint64_t>& used,
                       const std::string& limit_file, const std::string& used_file) {
    const auto other = cgroup_number(limit_file);
    if (!other || (limit && *limit <= *other)) return false;
    limit = other;
    used = cgroup_number(used_file);
    return true;
  };
  const auto memory = [&](const std::string& folder, const char* limit, const char* used) {
    struct stat at {};
    if (both(limits.memory_bytes, limits.memory_used_bytes, folder + limit, folder + used))
      limits.memory_group = ::stat(folder.c_str(), &at) == 0 ? uint64_t(at.st_ino) : 0;
  };
  const std::string mount = root + "/sys/fs/cgroup";
  if (!first_line(mount + "/cgroup.controllers").empty()) {
    walk_up(mount, own_cgroup("", root), [&](const std::string& folder) {
      memory(folder, "/memory.max", "/memory.current");
      both(limits.pids, limits.pids_used, folder + "/pids.max", folder + "/pids.current");
      tighten(limits.cores, cgroup_cores(folder, true));
    });
    return limits;
  }
  walk_up(mount + "/memory", own_cgroup("memory", root), [&](const std::string& folder) {
    memory(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes");
  });
  walk_up(mount + "/pids", own_cgroup("pids", root), [&](const std::string& folder) {
    both(limits.pids, limits.pids_used, folder + "/pids.max", folder + "/pids.current");
  });
  walk_up(mount + "/cpu", own_cgroup("cpu", root),
          [&](const std::string& folder) { tighten(limits.cores, cgroup_cores(folder, false)); });
  return limits;
}

// The nearest file of our own cgroup or of one around it that says anything; those further up count
// others' as well. Empty: there is none.
static std::string nearest_file(const std::string& root, const char* controller,
                                const char* name_v2, const char* name_v1) {
  const std::string mount = root + "/sys/fs/cgroup";
  const bool v2 = !first_line(mount + "/cgroup.controllers").empty();
  std::string file;
  walk_up(v2 ? mount : format("{}/{}", mount, controller), own_cgroup(v2 ? "" : controller, root),
          [&](const std::string& folder) {
            const std::string at = format("{}/{}", folder, v2 ? name_v2 : name_v1);
            if (file.empty() && !first_line(at).empty()) file = at;
          });
  return file;
}

static std::vector<int> cgroup_processors(const std::string& root) {
  return parse_number_list(
      first_line(nearest_file(root, "cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus")));
}

uint64_t memory_kills(const std::string& root) {
  const std::string file = nearest_file(root, "memory", "memory.events", "memory.oom_control");
  return file.empty() ? 0 : number_after(file, "oom_kill");
}

uint64_t available_memory(const std::string& root) {
  constexpr std::string_view kName = "MemAvailable:";
  std::ifstream in(root + "/proc/meminfo");
  uint64_t bytes = 0;
  for (std::string line; bytes == 0 && std::getline(in, line);)
    if (line.starts_with(kName)) bytes = std::strtoull(&line[kName.size()], nullptr, 10) * 1024;
  const CgroupLimits limits = cgroup_limits(root);
  if (!limits.memory_bytes) return bytes;
  const uint64_t used = limits.memory_used_bytes.value_or(0);
  return std::min(bytes, *limits.memory_bytes > used ? *limits.memory_bytes - used : 0);
}

HostLoad host_load(const std::string& root) {
  HostLoad load;
  load.at_ns = machine_ns();
  const std::string mount = root + "/sys/fs/cgroup";
  const bool v2 = !first_line(mount + "/cgroup.controllers").empty();
  const std::vector<int> own = cgroup_processors(root);
  std::ifstream in(root + "/proc/stat");
  const double tick = 1.0 / double(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  for (std::string line; std::getline(in, line) && line.rfind("cpu", 0) == 0;) {
    std::istringstream words(line);
    std::string name;
    uint64_t user = 0, nice = 0, system = 0, idle = 0, waits = 0, irq = 0, softirq = 0, steal = 0;
    words >> name >> user >> nice >> system >> idle >> waits >> irq >> softirq >> steal;
    const int id = name == "cpu" ? -1 : std::atoi(name.c_str() + 3);
    if (id < 0 || (!own.empty() && !std::ranges::binary_search(own, id))) continue;
    ++load.processors;
    load.busy_s += double(user + nice + system) * tick;
    load.stolen_s += double(steal) * tick;
  }
  rusage mine{};
  ::getrusage(RUSAGE_SELF, &mine);
  for (const timeval& part : {mine.ru_utime, mine.ru_stime})
    load.own_s += double(part.tv_sec) + double(part.tv_usec) * 1e-6;
  walk_up(v2 ? mount : mount + "/cpu", own_cgroup(v2 ? "" : "cpu", root),
          [&](const std::string& folder) {
            load.throttled_times =
                std::max(load.throttled_times, number_after(folder + "/cpu.stat", "nr_throttled"));
            const double s =
                v2 ? double(number_after(folder + "/cpu.stat", "throttled_usec")) * 1e-6
                   : double(number_after(folder + "/cpu.stat", "throttled_time")) * 1e-9;
            load.throttled_s = std::max(load.throttled_s, s);
          });
  return load;
}

SystemNames system_names() {
  utsname names{};
  if (uname(&names) != 0) return {"", "", gnu_get_libc_version()};
  return {names.release, names.machine, gnu_get_libc_version()};
}

int64_t wall_clock_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace collctl::base
