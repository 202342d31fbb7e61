// Other threads of this process at rest, instead of a pause that a loaded machine makes too short.
#pragma once
#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <string>

#include "base/wait.h"

namespace collctl::test {

// The threads of this process that sleep; `awake`, if any: how many others there are.
inline size_t threads_asleep(size_t* awake = nullptr) {
  size_t asleep = 0, all = 0;
  DIR* dir = ::opendir("/proc/self/task");
  while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir)) {
    if (entry->d_name[0] == '.') continue;  // the process itself
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name = stat.rfind(") ");
    if (name == std::string::npos) continue;
    ++all;
    asleep += stat[name + 2] == 'S' ? 1 : 0;
  }
  if (dir != nullptr) ::closedir(dir);
  if (awake != nullptr) *awake = all - asleep;
  return asleep;
}

// Until so many threads sleep, and still do after a moment; false after half a minute.
inline bool wait_until_asleep(size_t threads) {
  const Deadline deadline = Deadline::after_seconds(30);
  for (int seen = 0; seen < 3; seen = threads_asleep() >= threads ? seen + 1 : 0) {
    if (deadline.passed()) return false;
    base::sleep_until(Deadline::after_ms(5));
  }
  return true;
}

// Until no other thread has had anything to do at three moments: whatever is to happen by itself
// has happened. One that looks again and again may be awake at most of them. Several callers take
// turns. False after half a minute.
inline bool wait_until_others_sleep() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Deadline deadline = Deadline::after_seconds(30);
  for (int seen = 0; seen < 3;) {
    if (deadline.passed()) return false;
    base::sleep_until(Deadline::after_ms(5));
    size_t awake = 0;
    threads_asleep(&awake);
    seen += awake <= 1 ? 1 : 0;
  }
  return true;
}

}  // namespace collctl::test
