// `rails`: every NIC of every host against every NIC of every other. The ranks find it out
// (matrix.h), rank 0 sends it as one record (record.cc), the judgement
// (judge.cc) and the reports (text.cc, rails_json.cc) are pure. Threads: values.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/measure/task.h"
#include "cmd/rails/matrix.h"

namespace collctl::cmd {

inline constexpr uint64_t kMostRailsMessage = 64u << 20;
struct RailsSpec {
  uint64_t message_bytes = 1u << 20;
  double seconds = 0.02;  // of streaming on each path
  double timeout_s = 3;   // of a path that hangs
  std::string net;        // "", ib, socket

  std::string to_json() const;
  static Result<RailsSpec> from_json(const std::string& text);
};

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
  std::vector<RailsGid> gids = {};
};
struct RailsHost {
  std::string host;
  std::vector<RailsNic> nics;
  std::vector<std::string> unused;
  std::string why_no_rdma;
};
using runtime::RailEnd;
struct RailsCell {
  RailEnd end = RailEnd::ok;
  double GBps = 0, first_us = 0;
  int from_gid = -1, to_gid = -1;
  std::string gid_type = {}, text = {};
};
struct RailsPair {
  int from = 0, to = 0;          // indexes of hosts
  std::vector<RailsCell> cells;  // by NIC of `from`, then of `to`
};
struct RailsReport {
  bool one_host = false;
  uint64_t message_bytes = 0;
  std::vector<RailsHost> hosts;
  std::vector<RailsPair> pairs;
};

// "ok", "unlike", "gid", "no-route", "no-answer", "mtu", "failed", "wrong-data": stable, for
// scripts.
const char* rail_word(RailEnd end);
RailsReport report_of(const runtime::RailMatrix& matrix, uint64_t message_bytes);
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
// "node01 mlx5_0:1 -> node02 mlx5_1:1"
std::string rail_text(const RailsReport& report, const RailAt& at);

struct RailFinding {
  std::string kind;  // a word of rail_word, "slow" or "host"
  std::string message, remedy;
  std::string host, peer, nic, peer_nic;
};
struct RailsVerdict {
  bool rdma = false;                 // what was tried is RDMA, else interfaces
  bool rail_only = false;            // NICs reach only those of their name
  std::map<double, double> medians;  // GB/s by the slower NIC's rate (Gb/s)
  std::vector<RailAt> slow;
  size_t good = 0, tried = 0;  // paths; of a rail-only fabric those inside a rail
  double median_GBps = 0, least_GBps = 0;
  std::vector<RailFinding> findings;
  std::string recommended;  // variables; empty: nothing can be recommended
  std::string note;         // about that line; may be empty
  ErrorCode code{};         // 0: passed
  std::vector<std::string> reasons;
};
// `below`: a path is slow that has less than so much of the median of its kind; 0: none is.
RailsVerdict judge_rails(const RailsReport& report, double below);

// Every route between two NICs as a check, the form of all reports: a JSON list.
std::string rails_list(const RailsReport& report, const RailsVerdict& verdict);

struct RailsTextStyle {
  bool quiet = false, all_pairs = false;
  double below = 0;
};
std::string rails_text(const RailsReport& report, const RailsVerdict& verdict,
                       const RailsTextStyle& style);
std::string rails_json(const RailsReport& report, const RailsVerdict& verdict);

// The command, and the rows of its options.
Result<int> rails_command(const ParsedLine& line, Console& console);
void add_rails_options(std::vector<Option>& table);

}  // namespace collctl::cmd
