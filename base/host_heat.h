// How hot this host's processors are and how fast they run, as the kernel shows it in /sys. Nothing
// is opened for writing. Threads: any; read when called.
#pragma once
#include <string>

namespace collctl::base {

struct HostHeat {
  double temperature_C = 0;  // the hottest processor sensor; 0: the kernel shows none
  double clock_MHz = 0;      // the mean of the processors; 0: likewise
};
// `root`: of the file system, for tests.
HostHeat host_heat(const std::string& root = "");

}  // namespace collctl::base
