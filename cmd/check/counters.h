// Devices' counters while the check ran: THE table of counters says whose growth is a fault and
// whose only worth knowing; a second table says which values are faults by themselves. All but
// asking is pure.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/host_counters.h"
#include "cmd/doctor/state.h"
#include "cmd/job/job.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

// Question to an agent; the argument: the number of the kernel's message from which Xids count.
inline constexpr const char* kAskCounters = "counters";
Result<std::string> counters_answer(const std::string& argument);

struct HostCounters {
  std::optional<Error> error;  // why there are none
  base::DeviceCounters counters;
  ReadState state = {};  // of its devices, where that was asked for as well
};
// Counters of all hosts of the launch, or of this host when it has none. `before`: as an earlier
// call returned; with it the state of devices is read, too.
Result<std::map<Host, HostCounters>> ask_counters(const LaunchOptions& launch,
                                                  const std::map<Host, HostCounters>& before);

struct CounterGrowth {
  base::DeviceCounter counter;
  uint64_t by = 0;
};
// A device's counters under one rule are one finding, unless the rule says fault; growth that no
// rule tells is left out.
std::vector<Finding> growth_findings(const Host& host, std::span<const CounterGrowth> grew);
// A finding for each value that grew, or is bad however long it has been so; and one that says
// how much was looked at.
std::vector<Finding> counter_findings(const Host& host, const base::DeviceCounters& before,
                                      const base::DeviceCounters& after);

// Troubles in the state of devices after the check that are not in `told`: findings of the
// doctor and of counters.
std::vector<Finding> later_states(const std::map<Host, HostCounters>& after,
                                  const std::vector<Finding>& told);

}  // namespace collctl::cmd
