// The log, made to be grepped: `host:pid:tid [device] COLLCTL INFO text`, one write(2) per line, so
// lines of many ranks never mix. Level, subsystems and file are taken from the knobs DEBUG,
// DEBUG_SUBSYS, DEBUG_FILE or from configure(). Threads: any. A disabled line costs one load and a
// branch.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/result.h"

namespace collctl::base {

enum class LogLevel : uint8_t { none, version, warn, info, trace };
enum class Subsystem : uint8_t {
  init,
  net,
  p2p,
  shm,
  coll,
  graph,
  tuning,
  env,
  alloc,
  proxy,
  bootstrap,
  count
};

struct LogOptions {
  LogLevel level = LogLevel::warn;
  uint32_t subsystems = ~0u;  // bit per Subsystem
  std::string file;           // empty: standard error; %h %p %r are replaced
};
// Reads the knobs; a bad value is an error naming the variable. `verbosity` 1 = INFO, 2 = TRACE
// at least.
Result<LogOptions> log_options_from_knobs(int verbosity);
// Opens the log file, if any. `rank` (or -1) fills %r.
Status log_configure(const LogOptions& options, int rank);
bool log_enabled(LogLevel level, Subsystem subsystem);
// The device or rank shown in brackets for lines of this thread.
void log_set_thread_device(int device);
// The same for threads that have none of their own (a plugin's), in a process that is one rank.
void log_set_process_rank(int rank);
void log_write(LogLevel level, std::string_view text);
// Text in every warning about a caller who does not belong to the job: they can be many.
inline constexpr std::string_view kOfStrangers = " COLLCTL WARN rejected ";

}  // namespace collctl::base

#define COLL_LOG(level, subsystem, ...)                                      \
  do {                                                                       \
    if (::collctl::base::log_enabled(::collctl::base::LogLevel::level,       \
                                     ::collctl::base::Subsystem::subsystem)) \
      ::collctl::base::log_write(::collctl::base::LogLevel::level,           \
                                 ::collctl::base::format(__VA_ARGS__));      \
  } while (false)
#define COLL_WARN(...) COLL_LOG(warn, init, __VA_ARGS__)
#define COLL_INFO(subsystem, ...) COLL_LOG(info, subsystem, __VA_ARGS__)
#define COLL_TRACE(subsystem, ...) COLL_LOG(trace, subsystem, __VA_ARGS__)
