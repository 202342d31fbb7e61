// Which counters of errors of a host's devices grow while it burns, and when. Threads: one.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/host_counters.h"
#include "cmd/burn/burn.h"

namespace collctl::cmd {

class ErrorWatch {
 public:
  // As base::device_counters.
  using Read = std::function<base::DeviceCounters(uint64_t log_from)>;
  static base::DeviceCounters read_host(uint64_t log_from);

  // Counted before: not told.
  explicit ErrorWatch(Read read = read_host);
  // Reads the counters where the last look was long enough ago, or `now`.
  void look(double at_s, bool now = false);
  // Each device has what grew on it: GPUs theirs and their PCI device's, "host" its memory's. NICs
  // have no part in a burn-in.
  void give(std::vector<BurnDevice>& devices) const;

 private:
  const Read read_;
  base::DeviceCounters last_;
  uint64_t log_from_;
  double next_s_ = 0;
  std::map<std::string, std::vector<BurnEvent>> events_;  // by device
};

}  // namespace collctl::cmd
