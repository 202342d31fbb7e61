// `rails` and `run ... rails`: the command.
#include "cmd/rails/rails.h"

#include <algorithm>
#include <mutex>

#include "base/env.h"
#include "base/format.h"
#include "cmd/cli/option_rows.h"
#include "cmd/document/document.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/judge/bench.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

namespace {

// Takes rank 0's record; the rest is for people.
class RailsSink : public TaskSink {
 public:
  RailsSink(Console& console, bool shows) : progress_(console, shows) {}
  void progress(const std::string& text) override {
    const std::scoped_lock lock(mutex_);
    progress_.text(text);
  }
  void phase(int rank, const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    progress_.phase(rank, name);
  }
  Status record(const std::string& json) override {
    const std::scoped_lock lock(mutex_);
    record_ = json;
    return {};
  }
  std::string finish() {
    const std::scoped_lock lock(mutex_);
    progress_.clear();
    return record_;
  }

 private:
  std::mutex mutex_;
  Progress progress_;
  std::string record_;
};

// A request for sizes is one for GPU memory.
Status settle_sizes(const ParsedLine& line, RailsSpec& spec) {
  using runtime::MemoryChoice;
  const bool sizes = line.has("min-bytes") || line.has("max-bytes");
  if (!sizes) return {};
  if (spec.memory == MemoryChoice::host)
    return Error(ErrorCode::usage, "-b and -e are sizes of GPU memory, and --memory is host");
  if (spec.memory == MemoryChoice::automatic) spec.memory = MemoryChoice::both;
  if (!line.has("min-bytes")) spec.min_bytes = std::min(kLeastCurveBytes, spec.max_bytes);
  if (!line.has("max-bytes")) spec.max_bytes = kMostCurveBytes;
  if (spec.min_bytes > spec.max_bytes)
    return Error(ErrorCode::usage, "the smallest size (-b) is above the largest (-e)");
  return {};
}

Result<TaskSpec> rails_task(const ParsedLine& line) {
  RailsSpec spec;
  COLL_TRY(fill(line, spec));
  if (line.has("net")) spec.net = line.text("net");
  if (!spec.net.empty() && spec.net != "ib" && spec.net != "socket")
    return Error(ErrorCode::usage, format("--net {}: rails tries ib or socket", spec.net));
  if (spec.max_bytes > kMostCurveBytes)
    return Error(ErrorCode::usage, format("-e {}: at most 1G", line.text("max-bytes")));
  if (spec.message_bytes > kMostRailsMessage)
    return Error(ErrorCode::usage, format("--message {}: at most {}M", line.text("message"),
                                          kMostRailsMessage >> 20));
  spec.below = line.number("below", 0);
  COLL_TRY(settle_sizes(line, spec));
  TaskSpec task{.task = &kRailsTask, .options = json_of(spec)};
  task.settings.device_request = DeviceRequest::cpu;
  return task;
}

// One rank for each host acts; of one host two, whose NICs reach each other.
ParsedLine with_ranks(const ParsedLine& given) {
  ParsedLine line = given;
  const bool hosts = line.has("hosts") || line.has("hostfile");
  if (hosts && !line.has("ranks") && !line.has("ranks-per-host"))
    line.given["ranks-per-host"] = {"1"};
  return line;
}

}  // namespace

Result<int> rails_command(const ParsedLine& given, Console& console) {
  COLL_TRY(base::check_knobs());
  const ParsedLine line = with_ranks(given);
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  COLL_TRY(adopt(launch));
  COLL_ASSIGN(const TaskSpec task, or_decline(launch, rails_task(line)));
  COLL_ASSIGN(const OutputOptions output, or_decline(launch, interpret_files(line, kAllFiles)));
  if (launch.ranks == 0 && launch.launcher == LauncherKind::local && !launch.joins())
    launch.ranks = 2;
  const bool speaks = launch.join_rank <= 0;
  const bool quiet = output.quiet || !speaks;
  launch.talk = console_talk(console, quiet);
  if (!quiet) note_hosts(launch, "run rails", console);
  if (line.has("dry-run")) return dry_run(line, launch, console);
  RailsSink sink(console, !quiet);
  const double below = line.number("below", 0);
  BusyGuard guard(std::nullopt);
  JobOutcome outcome;
  std::string record;
  RailsReport report;
  RailsFindings found;
  do {
    outcome = run_task_job(launch, task, sink);
    record = sink.finish();
    if (record.empty()) break;
    COLL_ASSIGN(report, read_rails(record));
    found = judge_rails(report, below);
    // Ranks that others started begin but once.
  } while (guard.again(found.checks, busy_hosts(report)) && !outcome.error && !launch.joins());
  if (record.empty()) {
    // Without a record the job has failed, and says why.
    Error error = outcome.error.value_or(Error(ErrorCode::defect, "no rank reported anything"));
    if (error.code != ErrorCode::interrupted) return error;
    console.print_error(error);  // each process of a joined job has its own to tell
    return outcome.exit_code;
  }
  settle_busy(guard, report, found);
  if (guard.times() > 1 && !quiet)
    console.note(format("measured {} times, as {}", guard.times(), guard.why()));
  for (Finding& host : left_out_findings(outcome.hosts)) {
    found.summary.push_back(host.message);
    found.checks.push_back(std::move(host));
  }
  Verdict verdict = found.verdict(outcome.error);
  if (!speaks) return verdict.exit_code();
  const Document document = rails_document(report, found, rails_json(report, found, verdict));
  print_document(document, output, console);
  if (outcome.error) console.print_error(*outcome.error);
  if (Status written = write_documents(output.files, document); !written.ok()) {
    console.print_error(written.error());
    verdict.worsen(written.error());
  }
  return verdict.exit_code();
}

// The rows of `rails` in THE tables of commands and options.

Command rails_row(uint32_t own) {
  return {.name = "rails",
          .kind = CommandKind::task,
          .arguments = "[launch options] [options]",
          .scopes = kTask | own,
          .summary = "every NIC of every host against every other: reach, GB/s",
          .description =
              "Sends real data from each NIC of each host to each NIC of every other and back, and "
              "prints a table for each pair of hosts (of hosts with one NIC each, one matrix): "
              "GB/s, or why nothing passes. NICs are RDMA ports, or the network interfaces where "
              "no host has RDMA or with --net socket. All paths between two hosts are connected at "
              "the same time, so that those that hang cost one time-out (--pair-timeout, 3 "
              "seconds), and 1.2 seconds where one of the two has answered none of two others; "
              "then they stream one after another. Pairs of hosts go in rounds, a host in one pair "
              "at a time. Hosts tell what they find through the launcher, so that a link that is "
              "broken is a mark in the table and ends nothing. A bad path is measured again, "
              "beside good hosts, up to six times, before a host, a NIC, a link or one direction "
              "of it is named, as check does it. It prints facts of each NIC (rate, MTU, the GID "
              "that is used), every failure comes with a remedy, and the last line is what to set "
              "so that jobs use the good ones. Exit code 1 when a path fails or is slow. With one "
              "host alone its NICs loop back to each other. collctl run rails is the same.",
          .examples = {{"collctl rails -H node[01-04]", "four hosts, their RDMA ports"},
                       {"collctl run -H a,b rails --net socket", "the interfaces of two"},
                       {"collctl rails -H a,b --memory gpu --all-nics",
                        "every GPU over every NIC of its host"},
                       {"collctl rails -H a,b --json", "one JSON object"}},
          .run = rails_command};
}

void add_rails_options(std::vector<Option>& t, uint32_t own) {
  using namespace kinds;
  const Adder add{t, Group::measure, own};
  add("message", size("1M", 1024), alike<&RailsSpec::message_bytes>,
      "size of the messages that are timed (rails)",
      "At most 64M. Small messages show a path's latency, not its bandwidth.");
  add("seconds", seconds("S", 0, 60, "0.02"), alike<&RailsSpec::seconds>,
      "how long each path streams, at least 8 messages (rails)");
  add("pair-timeout", seconds("S", 0.1, 600, "3"), alike<&RailsSpec::timeout_s>,
      "how long to wait for a path that hangs, seconds (rails)");
  add("memory", one_of("MEMORY", {"host", "gpu", "both", "auto"}, "auto"),
      alike<&RailsSpec::memory>,
      "memory that is sent from and to: host, gpu, both; auto: both where a host has GPUs (rails)",
      "gpu: each GPU over the NICs near it, beside host memory of another host over the same two "
      "NICs, one way, the other and both at once, and 8 bytes to and fro; and GPU k to GPU k. By "
      "GPUDirect where driver, NIC and path allow that, else through pinned host memory, as jobs "
      "do. A host without a GPU is not tested then (code 8).");
  add("all-nics", flag(), alike<&RailsSpec::every_nic>,
      "each GPU over all NICs of its host, far ones as well (rails)");
  add("b,min-bytes", size("8", 1), alike<&RailsSpec::min_bytes>,
      "smallest size of a curve for each GPU and NIC, in steps of 8 (rails)",
      "A size above --message goes in messages of that.");
  add("e,max-bytes", size("1G", 1), alike<&RailsSpec::max_bytes>, "largest size of it (rails)",
      "At most 1G. A size that would take more than ten seconds is not tested.");
  add.in(own | kCheck)("below", number("F", "%", 0, 1, "0.7"),
                       "below F times what its peers have is slow (rails, check)",
                       "Hosts are held against the median, paths against what is usual between "
                       "NICs of the same rate: of each NIC's n partners the speed of the n/2-th "
                       "best, of all NICs the median of these; so bad hosts do not pull it down "
                       "while they are fewer than the good. 0: none is slow.");
  add_file_option(t, own, kAllFiles, kDrawnAndMonitored);
}

}  // namespace collctl::cmd
