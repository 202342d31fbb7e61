// The JSON descriptions (base/record.h) of what records of a measurement (json.cc) and its
// reports (cmd/report/json.cc) have in common. Threads: values.
#pragma once
#include <optional>
#include <string>

#include "base/host_limits.h"
#include "base/record.h"
#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

inline constexpr int kMostRankNumber = 1 << 20;

// All but the version and the operation, which a report adds to.
void header_fields(Record& io, BenchHeader& header);
// Which group a row is of, if any.
void group_fields(Record& io, BenchRow& row);
void fields(Record& io, DataFault& fault);
void fields(Record& io, RowExpected& expected);
void fields(Record& io, RowTuned& tuned);
void fields(Record& io, LeftOut& out);
void fields(Record& io, BusyHost& host);
void fields(Record& io, ThrottledGpu& gpu);
void fields(Record& io, RankWaits& rank);
void fields(Record& io, StartCost& cost);

// Results at the end of a measurement, gathered from all ranks. Collective; called by BenchRun on
// the rank's thread.

struct RankClosing {  // what one rank says
  static constexpr const char* kRecord = "end of a rank";
  base::HostLoad before = {}, after = {};  // of its host, around the rows
  std::string clocks = {};                 // what throttled its GPU during the run; empty: nothing
  std::string bus_id = {};                 // of its GPU
  std::optional<StartCost> own_cost = {}, other_cost = {};
  std::optional<RankWaits> waits = {};  // where somebody asked; the same on all ranks
};
// Reason why the figures between two readings are not the machine's own: others than `ranks` ranks,
// which took `ranks_s` of processor time, had too much of their host; else empty.
std::string busy_reason(const base::HostLoad& before, const base::HostLoad& after, int ranks,
                        double ranks_s);
// The same from `before` to now, of a process's own `threads`: others alone. Its own cgroup's quota
// is the host's fault, and no reason.
std::string busy_reason(const base::HostLoad& before, int threads);
// Rank 0, and who wants the rows, hands it to its sink. `all_alike`: what every rank knows already.
Status send_closing(RankClosing mine, BenchClosing all_alike, runtime::Communicator& communicator,
                    BenchOut& out, Deadline deadline);

// The header of a measurement: what runs where, gathered from all ranks. Collective; called by the
// measurement and the soak on the rank's thread.

struct HeaderFacts {
  bool windows = false;       // whether the header tells of windows
  std::string versus;         // what else is measured, in words
  std::string clocks;         // what throttles this rank's GPU (ClockWatch::at_first)
  uint64_t window_bytes = 0;  // that this rank has registered (BenchWindows)
  // With --split: this rank's group, whose links and windows count, and all groups.
  const runtime::Communicator* group = nullptr;
  const Groups* groups = nullptr;
};
// On rank 0 the header, without what only a measurement has; on the others it is empty.
Result<BenchHeader> gather_header(const RankSettings& settings, const HeaderFacts& facts,
                                  runtime::Communicator& communicator, Deadline deadline);
// Rank 0 hands a measurement's to its sink.
Status send_header(const BenchSpec& spec, HeaderFacts facts, runtime::Communicator& communicator,
                   BenchOut& out, Deadline deadline);

}  // namespace collctl::cmd
