// Limits that a host sets to its processes: locked memory, files, shared memory, its cgroup.
#include <algorithm>

#include "base/format.h"
#include "cmd/doctor/doctor.h"

namespace collctl::cmd {
namespace {

using launcher::HostFacts;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFewestFiles = 4096;
constexpr uint64_t kShmPerCore = 8 * kMiB;       // buffers of one rank
constexpr uint64_t kMemoryPerCore = 64 * kMiB;   // a rank with its connections
constexpr uint64_t kPidsPerCore = 16;            // a rank with its threads
constexpr uint64_t kFewestLocked = 1024 * kMiB;  // registered buffers of RDMA

std::string room_text(uint64_t bytes) {
  if (bytes == base::kUnlimited) return "unlimited";
  for (const auto& [unit, name] : {std::pair(uint64_t(1) << 40, "TiB"),
                                   {uint64_t(1) << 30, "GiB"},
                                   {uint64_t(1) << 20, "MiB"},
                                   {uint64_t(1) << 10, "KiB"}})
    if (bytes >= unit) return format("{:.3g} {}", double(bytes) / double(unit), name);
  return format("{} B", bytes);
}

void judge_processes(const SurveyedHost& host, Diagnosis& diagnosis) {
  const HostFacts& facts = *host.facts;
  const bool rdma = !facts.rdma.empty();
  Finding& locked = add_check(diagnosis, "memlock", host, room_text(facts.locked_memory.soft));
  if (rdma && facts.locked_memory.soft < kFewestLocked)
    fail(locked, "unlimited", "RDMA registers buffers: they must be locked in memory",
         "memlock unlimited in /etc/security/limits.d, LimitMEMLOCK=infinity for sshd");
  Finding& files =
      add_check(diagnosis, "files", host,
                facts.open_files.hard == base::kUnlimited ? "unlimited"
                                                          : std::to_string(facts.open_files.hard));
  if (facts.open_files.hard < kFewestFiles)
    fail(files, std::to_string(kFewestFiles), "too few files may be open for many connections",
         "nofile 65536 in /etc/security/limits.d, LimitNOFILE=65536 for sshd");
  const auto& [limit, used] = facts.processes;
  Finding& processes = add_check(diagnosis, "nproc", host,
                                 limit == base::kUnlimited ? "unlimited" : std::to_string(limit));
  const uint64_t wanted = kPidsPerCore * uint64_t(std::max(facts.cores, 1));
  if (limit - std::min(limit, used) < wanted)
    fail(processes, std::to_string(used + wanted),
         format("{} of the {} processes and threads that this user may have are in use; a rank a "
                "core takes {} more",
                used, limit, wanted),
         "raise it (ulimit -u): nproc 65536 in /etc/security/limits.d, LimitNPROC=65536 for sshd; "
         "or end what else this user runs there");
}

void judge_shared_memory(const SurveyedHost& host, Diagnosis& diagnosis) {
  const HostFacts& facts = *host.facts;
  const uint64_t wanted = kShmPerCore * uint64_t(std::max(facts.cores, 1));
  Finding& check =
      add_check(diagnosis, "shm", host, facts.has_shm ? room_text(facts.shm_free_bytes) : "none");
  if (!facts.has_shm)
    return fail(check, room_text(wanted), "/dev/shm is not there",
                "mount it: mount -t tmpfs shm /dev/shm");
  if (facts.shm_free_bytes < wanted)
    fail(check, room_text(wanted),
         format("/dev/shm has {} free of {}", room_text(facts.shm_free_bytes),
                room_text(facts.shm_bytes)),
         "enlarge it: mount -o remount,size=50% /dev/shm (docker: --shm-size); look for old files "
         "in it");
}

void judge_cgroup(const SurveyedHost& host, const Survey& survey, Diagnosis& diagnosis) {
  const base::CgroupLimits& limits = host.facts->cgroup;
  const auto cores = uint64_t(std::max(host.facts->cores, 1));
  std::string text;
  const auto part = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (limits.memory_bytes) part(room_text(*limits.memory_bytes));
  if (limits.cores) part(format("{:.3g} cores", *limits.cores));
  if (limits.pids) part(format("{} pids", *limits.pids));
  Finding& check = add_check(diagnosis, "cgroup", host, text.empty() ? "no limit" : text);
  const auto room = [](std::optional<uint64_t> limit, std::optional<uint64_t> used) {
    return limit ? *limit - std::min(*limit, used.value_or(0)) : base::kUnlimited;
  };
  if (room(limits.pids, limits.pids_used) < kPidsPerCore * cores)
    return fail(check, format("{} pids", kPidsPerCore * cores),
                format("{} of {} pids are in use", limits.pids_used.value_or(0), *limits.pids),
                "raise it: TasksMax= of the user's slice, --pids-limit of the container");
  if (limits.cores) {
    const auto less = [&](const SurveyedHost& other) {
      return other.facts && &other != &host &&
             other.facts->cgroup.cores.value_or(1e9) <= *limits.cores;
    };
    const auto others = std::ranges::count_if(
        survey.hosts, [&](const SurveyedHost& other) { return other.facts && &other != &host; });
    const bool alone = others > 1 && 2 * std::ranges::count_if(survey.hosts, less) < others;
    check.odd = alone;
    if (alone || *limits.cores < 1)
      return fail(check, alone ? "as the other hosts" : "1 core or more",
                  format("its cgroup may use {:.3g} cores{}", *limits.cores,
                         alone ? ", most other hosts have more" : ""),
                  "raise it: CPUQuota= of the slice, --cpus of the container, limits.cpu of the "
                  "pod");
  }
  // Memory in use is mostly cache; the limit itself is what counts.
  if (limits.memory_bytes && *limits.memory_bytes < kMemoryPerCore * cores)
    fail(check, room_text(kMemoryPerCore * cores),
         "the memory limit is too small for a rank a core",
         "raise it: MemoryMax= of the slice, --memory of the container");
}

}  // namespace

void add_limit_checks(const SurveyedHost& host, const Survey& survey, Diagnosis& diagnosis) {
  judge_processes(host, diagnosis);
  judge_shared_memory(host, diagnosis);
  judge_cgroup(host, survey, diagnosis);
}

}  // namespace collctl::cmd
