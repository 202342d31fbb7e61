// The suite `cluster` in its parts: collectives over all hosts (cluster.cc), and where one is slow
// which host makes it so (slow_hosts.cc). Threads: one.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

// One job on these hosts, `what` in its progress; with spec.split by ranks, which count host by
// host in the order of the check's list. Returns the error that ended it, or none. Errors: a
// signal.
using MeasureOn = Result<std::optional<Error>>(CheckRun& run, const std::vector<Host>& hosts,
                                               const BenchSpec& spec, const std::string& what,
                                               BenchReport& report);
MeasureOn measure_on;

// The row's share of what is expected of it; without that its bus bandwidth, in GB/s.
double share_of(const BenchRow& row);

// `whole`: a run over all `hosts` that is too slow in its last row. Groups of them do the same
// (cmd/judge/bisect.h), and without whom it is found at fault all do once more; of a host with
// several GPUs its ranks are tried one by one. Adds findings and culprits. Errors: a signal.
Status find_slow_hosts(CheckRun& run, const std::vector<Host>& hosts, const BenchReport& whole,
                       const std::function<MeasureOn>& measure = measure_on);

}  // namespace collctl::cmd
