// The suite `nccl` in its parts: the installed NCCL over all fit hosts (nccl.cc), what its figures,
// its log and its RAS say (nccl_judge.cc, nccl_facts_judge.cc, nccl_seen_judge.cc, pure) and how
// they are shown (nccl_report.cc, pure). Threads: one.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/record.h"
#include "cmd/document/document.h"
#include "cmd/judge/bench.h"
#include "cmd/judge/finding.h"
#include "cmd/measure/nccl_watch.h"
#include "cmd/nccl_facts/nccl_facts.h"

namespace collctl::cmd {

struct CheckRun;

struct NcclHost {
  Host host;
  NcclFacts facts;
};
struct NcclRow {  // one size of a collective, out of place, by both
  std::string collective;
  uint64_t bytes = 0;
  double own_us = 0, nccl_us = 0, own_GBps = 0, nccl_GBps = 0;  // bus bandwidths
  std::string own_algorithm, own_protocol;
  int own_channels = 0;
  std::string algorithm, protocol;  // NCCL's by its log; empty: it does not say
  int channels = 0;                 // 0: likewise
  int64_t wrong = -1;               // elements of NCCL's result; -1: not checked at this size
  bool again = false;               // both were measured twice, the second time counts
  double ratio() const { return nccl_us > 0 ? own_us / nccl_us : 0; }  // of NCCL's speed to ours
};
struct OwnWay {
  std::string via;  // of links between ranks
  uint64_t links = 0;
};
struct NcclReport {
  std::string name;  // "nccl 2.28.9"; empty: it did not come to run
  int ranks = 0;
  std::vector<NcclHost> hosts;
  std::vector<NcclRow> rows;
  std::vector<OwnWay> own_ways;
  std::vector<NcclOnHost> seen;  // choices stand in the rows
};
void fields(Record& io, NcclReport& report);

// From so many bytes on a figure is one of bandwidth, and what is slow there fails.
inline constexpr uint64_t kNcclBandwidthBytes = 1 << 20;

// Facts of hosts beside each other: whoever has not what most have is named. A host without the
// library is one of these only where another has it.
std::vector<Finding> nccl_fact_findings(std::span<const NcclHost> hosts);
// Rows of a timed run; NCCL's choices and what was checked, of a watched one, into them.
std::vector<NcclRow> nccl_rows(const BenchReport& timed);
void add_watched(const BenchReport& watched, std::vector<NcclRow>& rows);
// Whether one of the two has less than `below` of the other's speed at any size.
bool nccl_differs(std::span<const NcclRow> rows, double below);
// Findings of one collective's rows. The first is of the whole, "nccl/COLLECTIVE".
std::vector<Finding> nccl_speed_findings(std::span<const NcclRow> rows, double below);
std::vector<Finding> nccl_data_findings(const BenchReport& watched);
// Its log and its RAS, of all watched runs; `own`: links of ours on the same ranks.
std::vector<Finding> nccl_seen_findings(const NcclReport& report);

// The suite for a run whose facts are known. Errors: a signal, incomplete.
using NcclMeasure = std::function<Result<std::optional<Error>>(
    CheckRun& run, const std::vector<Host>& hosts, const BenchSpec& spec, const std::string& what,
    BenchReport& report)>;
Status check_nccl_of(CheckRun& run, std::vector<NcclHost> facts, const NcclMeasure& measure);

void add_nccl(const NcclReport& report, Document& document);

}  // namespace collctl::cmd
