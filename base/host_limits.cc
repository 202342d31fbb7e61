#include "base/host_limits.h"

#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace collctl::base {
namespace {

ResourceLimit limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(__rlimit_resource(resource), &limit) != 0) return {};
  const auto value = [](rlim_t v) { return v == RLIM_INFINITY ? kUnlimited : uint64_t(v); };
  return {value(limit.rlim_cur), value(limit.rlim_max)};
}

// The first line of a file; empty when there is none.
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
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
std::string own_cgroup(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
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

template <class T>
void tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

}  // namespace

ResourceLimit locked_memory_limit() {
  return limit_of(RLIMIT_MEMLOCK);
}

ResourceLimit open_file_limit() {
  return limit_of(RLIMIT_NOFILE);
}

CgroupLimits cgroup_limits() {
  CgroupLimits limits;
  // The use that goes with the tightest limit.
  const auto both = [](std::optional<uint64_t>& limit, std::optional<uint64_t>& used,
                       const std::string& limit_file, const std::string& used_file) {
    const auto other = cgroup_number(limit_file);
    if (!other || (limit && *limit <= *other)) return;
    limit = other;
    used = cgroup_number(used_file);
  };
  const std::string mount = "/sys/fs/cgroup";
  if (!first_line(mount + "/cgroup.controllers").empty()) {
    walk_up(mount, own_cgroup(""), [&](const std::string& folder) {
      both(limits.memory_bytes, limits.memory_used_bytes, folder + "/memory.max",
           folder + "/memory.current");
      both(limits.pids, limits.pids_used, folder + "/pids.max", folder + "/pids.current");
      tighten(limits.cores, cgroup_cores(folder, true));
    });
    return limits;
  }
  walk_up(mount + "/memory", own_cgroup("memory"), [&](const std::string& folder) {
    both(limits.memory_bytes, limits.memory_used_bytes, folder + "/memory.limit_in_bytes",
         folder + "/memory.usage_in_bytes");
  });
  walk_up(mount + "/pids", own_cgroup("pids"), [&](const std::string& folder) {
    both(limits.pids, limits.pids_used, folder + "/pids.max", folder + "/pids.current");
  });
  walk_up(mount + "/cpu", own_cgroup("cpu"),
          [&](const std::string& folder) { tighten(limits.cores, cgroup_cores(folder, false)); });
  return limits;
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
