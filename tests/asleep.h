// Other threads of this process at rest, instead of a pause that a loaded machine makes too short.
#pragma once
#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/wait.h"

namespace collctl::test {

inline size_t threads_asleep() {
  size_t asleep = 0;
  DIR* dir = ::opendir("/proc/self/task");
  while (const dirent* entry = dir == nullptr ? nullptr : ::readdir(dir)) {
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/stat");
    std::string stat;
    std::getline(file, stat);
    const size_t name = stat.rfind(") ");
    asleep += name != std::string::npos && stat[name + 2] == 'S' ? 1 : 0;
  }
  if (dir != nullptr) ::closedir(dir);
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

}  // namespace collctl::test
