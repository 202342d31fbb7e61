#include "cmd/measure/nccl_ras.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "base/socket.h"
#include "base/split.h"
#include "base/whole_number.h"
#include "cmd/measure/nccl_log.h"

namespace collctl::cmd {
namespace {

using base::Deadline;

std::string ras_text(std::string_view text) {
  return kept_text(text, kMostRasText);
}

void add_problem(RasStatus& status, std::string_view what) {
  if (status.problems.size() < kMostRasEntries) status.problems.push_back(ras_text(what));
}

// The text between two words of a line.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const size_t from = line.find(before);
  if (from == std::string_view::npos) return {};
  line.remove_prefix(from + before.size());
  return line.substr(0, std::min(after.empty() ? line.size() : line.find(after), line.size()));
}

template <class T>
bool is_number(std::string_view text, T& number) {
  const auto read = base::whole_number<T>(text);
  number = read.value_or(number);
  return read.has_value();
}

// "  Process 4242 on node 10.0.0.7 managing GPU 5", "  Rank 3 -- GPU 3 managed by process 4242 on
// node 10.0.0.7"
bool take_process(std::string_view line, bool dead, RasStatus& status) {
  RasProcess one;
  one.dead = dead;
  if (line.starts_with("  Process ")) {
    if (!is_number(between(line, "  Process ", " "), one.pid)) return false;
    one.host = ras_text(between(line, " on node ", " "));
    const std::string_view gpus = between(line, " managing GPU", "");
    one.gpus = ras_text(gpus.substr(std::min(gpus.find_first_not_of("s "), gpus.size())));
  } else if (line.starts_with("  Rank ")) {
    if (!is_number(between(line, "  Rank ", " "), one.rank)) return false;
    if (!is_number(between(line, " by process ", " "), one.pid)) return false;
    one.host = ras_text(between(line, " on node ", ""));
    one.gpus = ras_text(between(line, " -- GPU ", " managed"));
  } else {
    return false;
  }
  if (one.host.empty() || one.pid < 0) return false;
  const auto known = std::ranges::find_if(status.missing, [&](const RasProcess& other) {
    return other.host == one.host && other.pid == one.pid;
  });
  if (known != status.missing.end()) {
    known->rank = std::max(known->rank, one.rank);
    known->dead = known->dead || dead;
  } else if (status.missing.size() < kMostRasEntries) {
    status.missing.push_back(std::move(one));
  }
  return true;
}

// A row of the table of groups: "    0         1         4         8        32        32   RUNNING
//  MISMATCH"
bool take_group(std::string_view line, RasStatus& status) {
  auto words = base::split(line, ' ');
  std::erase(words, "");
  uint64_t group = 0, communicators = 0, ranks = 0;
  if (words.size() != 8 || !is_number(words[0], group) || !is_number(words[1], communicators) ||
      !is_number(words[5], ranks) || communicators > kMostRasEntries || ranks > kMostRasEntries)
    return false;
  status.communicators += communicators;
  status.ranks += ranks;
  return true;
}

// --- JSON, as far as it is used ---

struct JsonRank {
  RasProcess process;
  int init = 0, async = 0;
  bool aborted = false;
  bool unresponsive = false;
  std::vector<std::pair<const char*, uint64_t>> counts;
};

constexpr const char* kCounts[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                   "AllReduce"};

void rank_fields(Record& io, JsonRank& rank) {
  int gpu = 0;
  io.field("rank", rank.process.rank, 0);
  io.field("host", rank.process.host, kMostRasText);
  io.field("pid", rank.process.pid, -1);  // -1: RAS does not know
  if (io.has("cuda_dev", true)) io.field("cuda_dev", gpu);
  rank.process.gpus = std::to_string(gpu);
}

void read_rank(Record& io, JsonRank& rank) {
  rank_fields(io, rank);
  if (io.has("status", true))
    io.object("status", [&] {
      if (io.has("init_state", true)) io.field("init_state", rank.init);
      if (io.has("async_error", true)) io.field("async_error", rank.async);
      if (io.has("abort_flag", true)) io.field("abort_flag", rank.aborted);
    });
  if (io.has("collective_counts", true))
    io.object("collective_counts", [&] {
      for (const char* name : kCounts) {
        uint64_t count = 0;
        if (!io.has(name, true)) continue;
        io.field(name, count);
        rank.counts.emplace_back(name, count);
      }
    });
}

void read_missing(Record& io, JsonRank& rank) {
  rank_fields(io, rank);
  if (io.has("status", true))
    io.object("status", [&] {
      if (io.has("unresponsive", true)) io.field("unresponsive", rank.unresponsive);
      if (io.has("considered_dead", true)) io.field("considered_dead", rank.process.dead);
    });
}

// Ranks that have begun fewer operations than the others, whichever kind it is.
void tell_counts(const std::string& hash, const std::vector<JsonRank>& ranks, RasStatus& status) {
  for (size_t kind = 0; !ranks.empty() && kind < ranks[0].counts.size(); ++kind) {
    uint64_t most = 0;
    for (const JsonRank& rank : ranks)
      if (kind < rank.counts.size()) most = std::max(most, rank.counts[kind].second);
    std::string late;
    for (const JsonRank& rank : ranks)
      if (kind < rank.counts.size() && rank.counts[kind].second < most && late.size() < 300)
        late += format("{}rank {} on {} has begun {}", late.empty() ? "" : ", ", rank.process.rank,
                       rank.process.host, rank.counts[kind].second);
    if (!late.empty())
      add_problem(status, format("communicator {}: of {} {} {}", hash, most,
                                 ranks[0].counts[kind].first, late));
  }
}

void read_communicator(Record& io, RasStatus& status) {
  std::string hash;
  std::vector<JsonRank> ranks, missing;
  io.field("hash", hash, kMostRasText);
  if (io.has("ranks", true))
    io.objects(
        "ranks", ranks, [&](JsonRank& rank) { read_rank(io, rank); }, kMostRasEntries);
  if (io.has("missing_ranks", true))
    io.objects(
        "missing_ranks", missing, [&](JsonRank& rank) { read_missing(io, rank); }, kMostRasEntries);
  hash = ras_text(hash);
  constexpr int kSuccess = 0, kInProgress = 7;
  for (JsonRank& rank : ranks) {
    rank.process.host = ras_text(rank.process.host);
    if (rank.process.pid >= 0) status.pids.push_back(rank.process.pid);
    const char* const what = rank.init != kSuccess && rank.init != kInProgress ? "could not start"
                             : rank.async != kSuccess && rank.async != kInProgress ? "has failed"
                             : rank.aborted                                        ? "has aborted"
                                                                                   : nullptr;
    if (what != nullptr)
      add_problem(status, format("communicator {}: rank {} on {} {} (code {})", hash,
                                 rank.process.rank, rank.process.host, what,
                                 rank.init != kSuccess && rank.init != kInProgress ? rank.init
                                                                                   : rank.async));
  }
  tell_counts(hash, ranks, status);
  ++status.communicators;
  status.ranks += ranks.size();
  for (JsonRank& rank : missing) {
    rank.process.host = ras_text(rank.process.host);
    if (rank.unresponsive || rank.process.dead)
      status.missing.push_back(rank.process);
    else
      add_problem(status, format("communicator {}: rank {} on {} is no member of it now", hash,
                                 rank.process.rank, rank.process.host));
  }
  if (status.missing.size() > kMostRasEntries || status.pids.size() > kMostRasEntries)
    io.fail("communicators", "fewer ranks");
}

// --- the connection ---

// Lines of a connection; what is too long or too late is an error.
class RasConnection {
 public:
  RasConnection(Fd fd, Deadline deadline) : fd_(std::move(fd)), deadline_(deadline) {}
  Status send(const std::string& command) {
    const std::string line = command + "\n";
    return base::write_exact(fd_.get(), line.data(), line.size(), deadline_);
  }
  // Without its end.
  Result<std::string> line() {
    for (;;) {
      if (const size_t end = got_.find('\n'); end != std::string::npos) {
        std::string text = got_.substr(0, end);
        got_.erase(0, end + 1);
        return text;
      }
      if (got_.size() > kMostRasText) return Error(ErrorCode::lost, "this is no RAS of NCCL's");
      COLL_ASSIGN(const bool more, this->more());
      if (!more) return Error(ErrorCode::lost, "it closed the connection");
    }
  }
  Result<std::string> all() {
    for (;;) {
      COLL_ASSIGN(const bool more, this->more());
      if (!more) return std::move(got_);
    }
  }

 private:
  // False: it has closed the connection.
  Result<bool> more() {
    if (got_.size() > kMostRasAnswer) return Error(ErrorCode::lost, "its answer has no end");
    pollfd wait{fd_.get(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&wait, 1}, deadline_));
    if (ready == 0) return Error(ErrorCode::deadline, "it did not answer in time");
    char part[4096];
    const ssize_t read = ::recv(fd_.get(), part, sizeof part, MSG_DONTWAIT);
    if (read < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (read < 0) return Error(ErrorCode::lost, std::strerror(errno));
    got_.append(part, size_t(read));
    return read > 0;
  }
  Fd fd_;
  Deadline deadline_;
  std::string got_;
};

Result<RasStatus> talk(RasConnection& to, bool by_json, Deadline deadline) {
  COLL_TRY(to.send("CLIENT PROTOCOL 2"));
  COLL_ASSIGN(const std::string hello, to.line());
  if (!hello.starts_with("SERVER PROTOCOL "))
    return Error(ErrorCode::lost,
                 format("this is no RAS of NCCL's: it says '{}'", ras_text(hello)));
  // It gathers from all processes, and tells which did not answer in that time.
  const int64_t seconds = std::max<int64_t>(1, deadline.remaining_ns() / 2'000'000'000);
  COLL_TRY(to.send(format("TIMEOUT {}", seconds)));
  COLL_ASSIGN(const std::string timeout, to.line());
  if (timeout != "OK") return Error(ErrorCode::lost, format("it says '{}'", ras_text(timeout)));
  if (by_json) {
    COLL_TRY(to.send("SET FORMAT json"));
    COLL_ASSIGN(const std::string format, to.line());
    by_json = format == "OK";  // versions that have none say that they do not know the command
  }
  COLL_TRY(to.send("VERBOSE STATUS"));
  COLL_ASSIGN(const std::string answer, to.all());
  return by_json ? read_ras_json(answer) : read_ras_text(answer);
}

Result<RasStatus> ask_by(const std::string& address, bool by_json, Deadline deadline) {
  COLL_ASSIGN(const Address at, base::parse_address(address, deadline));
  auto connected = base::connect_tcp(at, deadline, false);
  if (!connected)
    return Error(ErrorCode::unavailable,
                 format("nothing answers there: {}", connected.error().chain()),
                 "NCCL has it since 2.24, unless NCCL_RAS_ENABLE=0; NCCL_RAS_ADDR says where, else "
                 "localhost:28028, while a job of NCCL's runs on the host");
  RasConnection to(std::move(*connected), deadline);
  return talk(to, by_json, deadline);
}

}  // namespace

Result<RasStatus> read_ras_json(const std::string& text) {
  COLL_ASSIGN(Record io, Record::read(text));
  RasStatus status;
  io.field("nccl_version", status.version, kMostRasText);
  std::vector<int> each;
  io.objects(
      "communicators", each, [&](int&) { read_communicator(io, status); }, kMostRasEntries);
  if (io.has("ras", true))
    io.object("ras", [&] {
      if (io.has("timeouts_count", true)) io.field("timeouts_count", status.timeouts);
    });
  COLL_TRY(io.status());
  status.version = ras_text(status.version);
  std::ranges::sort(status.pids);
  status.pids.erase(std::unique(status.pids.begin(), status.pids.end()), status.pids.end());
  return status;
}

Result<RasStatus> read_ras_text(const std::string& text) {
  RasStatus status;
  enum class Section : uint8_t { none, errors, warnings } section = Section::none;
  bool dead = false, table = false;
  std::string heading;
  for (const std::string_view line : base::lines_of(text)) {
    if (line.starts_with("NCCL version ")) {
      status.version = ras_text(between(line, "NCCL version ", " "));
    } else if (line.starts_with("Communicators...")) {
      table = true;
    } else if (line == "Errors" || line == "Warnings") {
      section = line == "Errors" ? Section::errors : Section::warnings;
    } else if (section == Section::none) {
      if (table) take_group(line, status);
    } else if (line.starts_with("  ")) {
      // In a mismatch the ranks are outliers, not missing ones.
      const bool lost = section == Section::errors && heading.find("ERROR") == std::string::npos;
      if (lost && take_process(line, dead, status)) continue;
      if (lost && line.find("issing communicator data") != std::string_view::npos) continue;
      if (line.find("considered dead") != std::string_view::npos) continue;
      if (heading == "TIMEOUT") {
        const auto number = between(line, "ncountered ", " ");
        if (is_number(number, status.timeouts)) continue;
      }
      add_problem(status, format("{}: {}", heading, line.substr(2)));
    } else if (!line.empty() && line.find_first_not_of('=') != std::string_view::npos) {
      heading = ras_text(line);
      dead = line == "DEAD";
    }
  }
  if (status.version.empty() || !table)
    return Error(ErrorCode::usage, "NCCL's RAS says nothing that can be read",
                 "echo verbose status | nc HOST 28028 shows its answer");
  return status;
}

Result<RasStatus> ask_ras(const std::string& address, Deadline deadline) {
  auto status = ask_by(address, true, deadline);
  // The answer of 2.28 about missing ranks is no JSON: a comma is not there. Its text has them as
  // well.
  if (!status && status.error().code == ErrorCode::usage) status = ask_by(address, false, deadline);
  if (!status) return std::move(status.error()).within(format("asking NCCL's RAS at {}", address));
  return status;
}

void fields(Record& io, RasProcess& process) {
  io.field("host", process.host, kMostRasText);
  io.field("pid", process.pid, -1);
  io.field("gpus", process.gpus, kMostRasText);
  io.field("rank", process.rank, -1);
  io.field("dead", process.dead);
}

void fields(Record& io, RasStatus& status) {
  io.field("nccl_version", status.version, kMostRasText);
  io.field("communicators", status.communicators);
  io.field("ranks", status.ranks);
  io.field("pids", status.pids, kMostRasEntries);
  io.field("missing", status.missing, kMostRasEntries);
  io.field("problems", status.problems, kMostRasEntries, kMostRasText);
  io.field("timeouts", status.timeouts);
}

}  // namespace collctl::cmd
