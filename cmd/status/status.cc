#include "cmd/status/status.h"

#include <set>

#include "base/format.h"
#include "base/number_ranges.h"
#include "base/whole_number.h"
#include "cmd/job/root_cause.h"
#include "cmd/job/status_door.h"
#include "cmd/report/options.h"
#include "cmd/status/ras.h"
#include "cmd/text/file.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {
namespace {

constexpr double kDoorSeconds = 7;        // of one job that was named
constexpr double kEachDoorSeconds = 2.5;  // of several
constexpr double kLeastWait = 0.1;        // waits for a peer that are told below the table

size_t hosts_of(const JobNow& job) {
  std::set<Host> hosts;
  for (const RankNow& rank : job.ranks) hosts.insert(rank.host);
  return hosts.size();
}

std::string plural(size_t count, const char* what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string headline(const JobNow& job) {
  return format("{}, {} on {}, for {:.1f} s{}{}", job.what, plural(job.ranks.size(), "rank"),
                plural(hosts_of(job), "host"), job.seconds, job.progress.empty() ? "" : ": ",
                job.progress);
}

std::string process_of(const RankNow& rank) {
  if (rank.state.empty()) return "ended";
  if (rank.state == "?") return "not known";
  if (rank.state == "S") return "sleeps (S)";
  if (rank.state == "R") return "runs (R)";
  return state_words(rank.state[0]);
}

std::string peers_of(const RankDoing& doing) {
  std::vector<int> peers;
  for (const WaitDoing& wait : doing.waits) peers.push_back(wait.peer);
  return base::number_ranges(peers, ", ");
}

std::string doing_of(const JobNow& job, const RankNow& rank) {
  if (rank.state.empty()) return "";
  if (!rank.doing) return job.answers ? "does not answer" : "";
  const RankDoing& doing = *rank.doing;
  if (!doing.waits.empty()) {
    const WaitDoing& wait = doing.waits.front();
    if (wait.operation.empty())
      return format("waits {:.3g} s for rank{} {} to begin #{} of the window", wait.seconds,
                    doing.waits.size() == 1 ? "" : "s", peers_of(doing), wait.number);
    const std::string at =
        format("{} #{}, {}, {}, channel {}, step {}: saw {}", wait.operation, wait.number,
               wait.algorithm, wait.protocol, wait.channel, wait.step, wait.seen);
    return wait.receives
               ? format("waits {:.3g} s for data from rank {} ({})", wait.seconds, wait.peer, at)
               : format("waits {:.3g} s for rank {} to take data ({})", wait.seconds, wait.peer,
                        at);
  }
  if (!doing.busy) return doing.last.empty() ? "" : "between calls, last " + doing.last;
  return (doing.on_gpu ? "on the GPU: " : "in ") + doing.last;
}

Result<JobNow> read_job(const OpenDoor& door, double seconds) {
  COLL_ASSIGN(const std::string text, ask_door(door, base::Deadline::after_seconds(seconds)));
  auto job = record_of<JobNow>(text);
  if (!job) return std::move(job.error()).within(format("what job {} says", door.pid));
  return job;
}

std::string listed(const std::vector<OpenDoor>& doors) {
  std::string text;
  for (const OpenDoor& door : doors) text += format("{}{}", text.empty() ? "" : ", ", door.pid);
  return text;
}

}  // namespace

Document status_document(std::span<const JobNow> jobs) {
  JsonWriter json;
  begin_document(json, "collctl.status/1");
  json.key("jobs").begin_array();
  for (const JobNow& job : jobs) json.raw(json_of(job));
  Document document = document_with(json.end_array().end_object().take() + "\n", "jobs");
  document.title = "collctl status";
  document.has_verdict = false;
  if (jobs.size() != 1) {
    Table table{titled({"job", "<now"})};
    for (const JobNow& job : jobs) table.add({std::to_string(job.pid), headline(job)});
    document.parts.push_back({std::move(table)});
    return document;
  }
  const JobNow& job = jobs[0];
  document.heading = format("job {}: {}", job.pid, headline(job));
  Table table{titled({"rank", "<host", "pid", "<phase", "<process", "calls", "<now"}),
              {"pid", "calls"}};
  for (const RankNow& rank : job.ranks)
    table.add({std::to_string(rank.rank), rank.host.name, std::to_string(rank.pid),
               rank.phase.empty() ? "-" : rank.phase, process_of(rank),
               rank.doing ? std::to_string(rank.doing->calls) : "-", doing_of(job, rank)});
  document.parts.push_back({std::move(table)});
  if (std::string waits = awaited_text(job, kLeastWait); !waits.empty())
    document.parts.push_back({Facts{{std::move(waits)}}});
  return document;
}

Result<int> status_command(const ParsedLine& line, Console& console) {
  COLL_ASSIGN(const OutputOptions output, interpret_files(line));
  if (line.has("ras")) return ras_command(line, output, console);
  std::vector<OpenDoor> doors = open_doors();
  const std::string word = line.words.empty() ? "" : line.words[0];
  const int pid = base::whole_number(word).value_or(0);
  if (!word.empty() && pid <= 0)
    return Error(ErrorCode::usage, format("'{}': a job is the pid of its launcher", word),
                 "collctl status without a job lists those that run");
  const bool named = !word.empty();
  if (doors.empty())
    return Error(
        ErrorCode::unavailable,
        named ? format("there is no job {} of this user on this host", pid)
              : "no job of this user runs on this host",
        "it is asked on the host where it was launched; jobs that an engine (srun, mpirun, "
        "torchrun) launched, and those with --rank-mode thread, cannot be asked");
  if (named) {
    const std::string known = listed(doors);
    std::erase_if(doors, [&](const OpenDoor& door) { return door.pid != pid; });
    if (doors.empty())
      return Error(ErrorCode::unavailable,
                   format("there is no job {} of this user on this host", pid),
                   format("these run: {}", known));
  }
  std::vector<JobNow> jobs;
  std::optional<Error> silent;
  for (const OpenDoor& door : doors) {
    auto job = read_job(door, doors.size() == 1 ? kDoorSeconds : kEachDoorSeconds);
    if (job)
      jobs.push_back(std::move(*job));
    else if (job.error().code != ErrorCode::lost || named)
      silent = std::move(job.error());
  }
  if (jobs.empty())
    return silent ? *silent
                  : Error(ErrorCode::unavailable, "no job of this user runs on this host any more");
  COLL_TRY(deliver(status_document(jobs), output, console));
  if (!silent) return 0;
  console.print_error(*silent);
  return int(silent->code);
}

}  // namespace collctl::cmd
