// `rails`: every NIC of every host against every NIC of every other. The ranks find it out
// (matrix.h), rank 0 sends it as one record (record.cc), the judgement (judge.cc) and the reports
// (text.cc) are pure. Threads: values.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/judge/busy.h"
#include "cmd/judge/verdict.h"
#include "cmd/measure/task.h"
#include "cmd/rails/matrix.h"
#include "cmd/report/paths.h"
#include "cmd/text/table.h"

namespace collctl::cmd {

inline constexpr uint64_t kMostRailsMessage = 64u << 20, kMostCurveBytes = 1u << 30,
                          kLeastCurveBytes = 8;
struct RailsSpec {
  uint64_t message_bytes = 1u << 20;
  double seconds = 0.02;  // of streaming on each path
  double timeout_s = 3;   // of a path that hangs
  std::string net;        // "", ib, socket
  int sparse_from = 0;    // hosts from which on not all pairs are tried (Rails::Options)
  double below = 0;       // of what is usual: slow, and measured again
  runtime::MemoryChoice memory = runtime::MemoryChoice::automatic;
  bool every_nic = false;                 // GPUs over NICs that are far from them as well
  uint64_t min_bytes = 0, max_bytes = 0;  // of the curve of each measurement with GPU memory
  std::vector<uint64_t> sizes() const;    // steps of 8; 0 to 0: none
  double large_s = 0;  // for one large size of each as well, of all together; 0: none
};
void fields(Record& io, RailsSpec& spec);

struct RailsGid {
  int index = 0;
  std::string type, address;
};
struct RailsNic {
  std::string name, link;  // "mlx5_0:1", "InfiniBand", "RoCE"; "eth0", "Ethernet"
  bool rdma = false;
  double rate_Gbps = 0;  // 0: not known
  int mtu = 0, lid = 0;
  std::string address = {};  // of an interface
  std::string network = {};  // that it is on: "10.83.0.0/24"; empty: not known
  std::vector<RailsGid> gids = {};
};
struct RailsHost {
  Host host;
  std::vector<RailsNic> nics;
  std::vector<std::string> unused;
  std::string why_no_rdma;
  std::string busy;  // "other processes took 1.6 of 2 cores beside 1 rank"
  runtime::RailGpus gpus = {};
};
using runtime::RailEnd, runtime::RailPair, runtime::RailResult;
struct RailsReport {
  bool one_host = false;
  uint64_t message_bytes = 0;
  std::vector<RailsHost> hosts;
  std::vector<RailPair> pairs;   // as measured last
  std::vector<RailPair> before;  // of those that were measured again, as they were then, in turn
  // GPU memory: what was asked for, and what was measured, in turn.
  runtime::MemoryChoice memory = runtime::MemoryChoice::host;
  std::vector<uint64_t> sizes = {};  // of each measurement's curve
  std::vector<runtime::MemoryTrial> trials = {};
};

// "ok", "unlike", "gid", "no-route", "no-answer", "mtu", "failed", "wrong-data": stable, for
// scripts.
const char* rail_word(RailEnd end);
RailsReport report_of(const runtime::RailMatrix& matrix, const RailsSpec& spec);
// The fields of a report, inside an object; and back, trusting nothing.
void write_rails(JsonWriter& json, const RailsReport& report);
Result<RailsReport> read_rails(const std::string& json);

// The row of the table of tasks.
extern const RankTask kRailsTask;

// Where one cell stands.
struct RailAt {
  size_t pair = 0, from = 0, to = 0;  // index of the pair, of the NICs
  auto operator<=>(const RailAt&) const = default;
};

// A path is slow that has less than this part of what is usual: `below`, or half of it where an end
// was busy, as its speed says little then.
double slow_below(const RailsHost& from, const RailsHost& to, double below);

struct RailsFindings {
  bool rdma = false;               // what was tried is RDMA, else interfaces
  bool rail_only = false;          // NICs reach only those of their name
  std::map<double, double> usual;  // GB/s by the slower NIC's rate (Gb/s): usual.h
  std::vector<RailAt> slow;        // or with too many packets sent again
  size_t good = 0, tried = 0;      // paths; of a rail-only fabric those inside a rail
  double median_GBps = 0, least_GBps = 0, below = 0;
  // First the culprits ("blame"), then every path ("rail") and hosts ("rdma"); the reason of
  // a path that fails is a word of rail_word, or "slow".
  std::vector<Finding> checks;
  std::vector<Culprit> culprits;
  std::set<std::pair<int, int>> broken;  // hosts, a path between which a culprit makes bad
  std::vector<size_t> unexplained;   // of the checks: paths that are bad, and nobody is behind it
  size_t came_back = 0;              // paths: bad once, good when measured again
  std::string recommended;           // variables; empty: nothing can be recommended
  std::string note;                  // about that line; may be empty
  std::vector<std::string> summary;  // unless all passed: the reasons
  Verdict verdict(std::optional<Error> error) const { return {checks, std::move(error), summary}; }
};
// `below`: a path is slow that has less than so much of what is usual of its kind; 0: none is.
RailsFindings judge_rails(const RailsReport& report, double below);
BusyHosts busy_hosts(const RailsReport& report);
// The guard's findings about paths that stay spoilt; a host at fault is a culprit.
void settle_busy(const BusyGuard& guard, const RailsReport& report, RailsFindings& found);
// Hosts whose paths have to be measured among themselves once more before anybody is named; fewer
// than two: none.
std::vector<int> hosts_in_doubt(const RailsReport& report, double below, int round);

// A job that broke off gives collctl.error/1 around what was found before.
std::string rails_json(const RailsReport& report, const RailsFindings& found,
                       const Verdict& verdict);

// `json`: of rails_json().
Document rails_document(const RailsReport& report, const RailsFindings& found, std::string json);
// Ends are "node01 eth0"; a path that is none of this fabric was not tried.
PathMatrix rails_paths(const RailsReport& report, const RailsFindings& found);

// The command, its row and those of its options.
Result<int> rails_command(const ParsedLine& line, Console& console);
Command rails_row(uint32_t own);
void add_rails_options(std::vector<Option>& table, uint32_t own);

}  // namespace collctl::cmd
