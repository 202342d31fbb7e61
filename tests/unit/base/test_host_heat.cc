#include "base/host_heat.h"

#include "base/host_limits.h"
#include "tests/catch.h"
#include "tests/unit/base/root_folder.h"

namespace host_heat_tests {

using namespace collctl::base;

TEST_CASE("the hottest sensor of a processor counts, and the mean clock", "[host]") {
  const testing::Root root;
  CHECK(host_heat(root.text()).temperature_C == 0);
  CHECK(host_heat(root.text()).clock_MHz == 0);
  root.file("sys/class/hwmon/hwmon0/name", "nvme\n");
  root.file("sys/class/hwmon/hwmon0/temp1_input", "99000\n");
  root.file("sys/class/hwmon/hwmon3/name", "coretemp\n");
  root.file("sys/class/hwmon/hwmon3/temp1_input", "61000\n");
  root.file("sys/class/hwmon/hwmon3/temp7_input", "64500\n");
  root.file("sys/class/hwmon/hwmon3/temp8_input", "99999999\n");
  root.file("sys/class/hwmon/hwmon3/temp9_input", "hot\n");
  root.file("sys/devices/system/cpu/online", "0-2\n");
  root.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
  root.file("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "3000000\n");
  const HostHeat heat = host_heat(root.text());
  CHECK(heat.temperature_C == 64.5);
  CHECK(heat.clock_MHz == 2500);
}

TEST_CASE("memory is available as the kernel says, and within the cgroup", "[host]") {
  const testing::Root root;
  CHECK(available_memory(root.text()) == 0);
  root.file("proc/meminfo", "MemTotal:  16000000 kB\nMemFree: 1 kB\nMemAvailable:   8000 kB\n");
  CHECK(available_memory(root.text()) == 8000 * 1024);
  root.file("proc/self/cgroup", "0::/a\n");
  root.file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  root.file("sys/fs/cgroup/a/memory.max", "4096000\n");
  root.file("sys/fs/cgroup/a/memory.current", "96000\n");
  CHECK(available_memory(root.text()) == 4000000);
}

}  // namespace host_heat_tests
