#include "base/log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/env.h"
#include "base/host_facts.h"
#include "base/own_file.h"
#include "base/printable.h"
#include "base/split.h"

namespace collctl::base {
namespace {

std::atomic<uint8_t> g_level{uint8_t(LogLevel::warn)};
std::atomic<uint32_t> g_subsystems{~0u};
std::atomic<int> g_fd{STDERR_FILENO};
std::atomic<int> g_rank{-1};
thread_local int t_device = -1;

constexpr const char* kLevelNames[] = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};
constexpr const char* kSubsystemNames[] = {"INIT",   "NET", "P2P",   "SHM",   "COLL",     "GRAPH",
                                           "TUNING", "ENV", "ALLOC", "PROXY", "BOOTSTRAP"};

std::string upper(std::string text) {
  for (auto& c : text) c = char(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

Result<uint32_t> parse_subsystems(const KnobValue& value) {
  std::string text = upper(value.text);
  const bool exclude = !text.empty() && text[0] == '^';
  if (exclude) text.erase(0, 1);
  uint32_t mask = 0;
  for (const std::string_view name : split(text, ',')) {
    if (name.empty()) continue;
    bool known = name == "ALL";
    if (known) mask = ~0u;
    for (uint32_t i = 0; i < uint32_t(Subsystem::count); ++i)
      if (name == kSubsystemNames[i]) mask |= 1u << i, known = true;
    if (!known)
      return Error(ErrorCode::usage,
                   format("{} = '{}': unknown subsystem {}", value.origin, value.text, name),
                   "known: INIT NET P2P SHM COLL GRAPH TUNING ENV ALLOC PROXY BOOTSTRAP ALL");
  }
  return exclude ? ~mask : mask;
}

}  // namespace

Result<LogOptions> log_options_from_knobs(int verbosity) {
  LogOptions options;
  const KnobValue level = knob_value(KnobId::debug);
  bool known = false;
  for (uint8_t i = 0; i < 5; ++i)
    if (upper(level.text) == kLevelNames[i]) options.level = LogLevel(i), known = true;
  if (!known)
    return Error(ErrorCode::usage, format("{} = '{}': expected NONE, VERSION, WARN, INFO or TRACE",
                                          level.origin, level.text));
  if (verbosity >= 1 && options.level < LogLevel::info) options.level = LogLevel::info;
  if (verbosity >= 2) options.level = LogLevel::trace;
  COLL_ASSIGN(options.subsystems, parse_subsystems(knob_value(KnobId::debug_subsys)));
  options.file = knob_text(KnobId::debug_file);
  return options;
}

Status log_configure(const LogOptions& options, int rank) {
  g_level = uint8_t(options.level);
  g_subsystems = options.subsystems;
  if (options.file.empty()) return {};
  std::string path;
  for (size_t i = 0; i < options.file.size(); ++i) {
    const char next = i + 1 < options.file.size() ? options.file[i + 1] : 0;
    if (options.file[i] != '%' || (next != 'h' && next != 'p' && next != 'r')) {
      path += options.file[i];
      continue;
    }
    path += next == 'h' ? host_name() : std::to_string(next == 'p' ? int(getpid()) : rank);
    ++i;
  }
  auto fd = open_own_file(path, true, 0644);
  if (!fd) return std::move(fd.error().within("log file"));
  const int old = g_fd.exchange(fd->release());
  if (old > STDERR_FILENO) ::close(old);
  return {};
}

bool log_enabled(LogLevel level, Subsystem subsystem) {
  const auto current = LogLevel(g_level.load(std::memory_order_relaxed));
  if (level > current) return false;
  // A user who asked for warnings alone wants silence when all is well.
  if (level == LogLevel::version && current == LogLevel::warn) return false;
  return level <= LogLevel::warn ||
         (g_subsystems.load(std::memory_order_relaxed) >> uint32_t(subsystem) & 1) != 0;
}

void log_set_thread_device(int device) {
  t_device = device;
}

void log_set_process_rank(int rank) {
  g_rank = rank;
}

void log_write(LogLevel level, std::string_view text) {
  const std::string line =
      format("{}:{}:{} [{}] COLLCTL {} {}\n", host_name(), getpid(), syscall(SYS_gettid),
             t_device >= 0 ? t_device : g_rank.load(), kLevelNames[int(level)], printable(text));
  size_t at = 0;
  while (at < line.size()) {
    const ssize_t n = ::write(g_fd, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a log that cannot be written must not take the job down
    at += size_t(n);
  }
}

}  // namespace collctl::base
