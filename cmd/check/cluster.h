// The suites of all hosts together in their parts: collectives (cluster.cc), where one is slow
// which host makes it so (slow_hosts.cc), and the traffic of inference (traffic.cc). Threads: one.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

// One job on these hosts, on GPUs where they have some, `what` in its progress; with spec.split by
// ranks, which count host by host in the order of the check's list. Returns the error that ended
// it, or none. Errors: a signal.
using MeasureOn = Result<std::optional<Error>>(CheckRun& run, const std::vector<Host>& hosts,
                                               const BenchSpec& spec, const std::string& what,
                                               BenchReport& report);
MeasureOn measure_on;

// Those of the fit hosts that reach each other; of the rest it is told. Errors: incomplete.
Result<std::vector<Host>> partners_of(CheckRun& run, const char* suite);
// Each over these hosts, with a finding of its own. The slowest of those that are far below what is
// expected. Errors: a signal.
Result<std::optional<BenchReport>> measure_all(
    CheckRun& run, const char* suite, const std::vector<Host>& hosts,
    const std::vector<BenchSpec>& specs, const std::function<MeasureOn>& measure = measure_on);

// The row's share of what is expected of it; its bus bandwidth, in GB/s, where nothing is held
// against `like`, a row over all of the hosts.
double share_of(const BenchRow& row, const BenchRow& like);
inline double share_of(const BenchRow& row) {
  return share_of(row, row);
}

// `whole`: a run over all `hosts` that is too slow in its last row. Groups of them do the same
// (cmd/judge/bisect.h), and without whom it is found at fault all do once more; of a host with
// several GPUs its ranks are tried one by one. Adds findings and culprits. Errors: a signal.
Status find_slow_hosts(CheckRun& run, const std::vector<Host>& hosts, const BenchReport& whole,
                       const std::function<MeasureOn>& measure = measure_on);

// `tokens`: sizes are tokens of 7 KiB. A finding for each size of an exchange that is uneven: its
// time, held against `even`, the all-to-all of blocks of the same size by the same steps; without
// it the time alone. Twice as long as its busiest rank's share of that is told, and no fault: the
// paths to one rank are less than those to all. Pure.
std::vector<Finding> exchange_times(const BenchReport& uneven, const BenchReport* even,
                                    bool tokens);

}  // namespace collctl::cmd
