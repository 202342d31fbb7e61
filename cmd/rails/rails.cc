// `rails` and `run ... rails`: the command.
#include <mutex>

#include "base/env.h"
#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/judge/bench.h"
#include "cmd/rails/rails.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/text/progress.h"

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

Result<TaskSpec> rails_task(const ParsedLine& line) {
  RailsSpec spec;
  COLL_TRY(fill(line, spec));
  if (line.has("net")) spec.net = line.text("net");
  if (!spec.net.empty() && spec.net != "ib" && spec.net != "socket")
    return Error(ErrorCode::usage, format("--net {}: rails tries ib or socket", spec.net));
  if (spec.message_bytes > kMostRailsMessage)
    return Error(ErrorCode::usage, format("--message {}: at most {}M", line.text("message"),
                                          kMostRailsMessage >> 20));
  spec.below = line.number("below", 0);
  TaskSpec task{.task = &kRailsTask, .settings = {}, .options = spec.to_json()};
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
  constexpr FileKinds kFiles{.pictures = true, .monitoring = true};
  COLL_ASSIGN(const OutputOptions output,
              or_decline(launch, interpret_output(line, nullptr, kFiles)));
  for (const OutputFile& file : output.files)
    COLL_TRY(or_decline(launch, check_writable(file.path)));
  if (launch.ranks == 0 && launch.launcher == LauncherKind::local && !launch.joins())
    launch.ranks = 2;
  const bool speaks = launch.join_rank <= 0;
  const bool quiet = output.quiet || !speaks;
  launch.talk = console_talk(console, quiet);
  if (!quiet)
    for (const auto& warning : launch.hosts.warnings) console.note(warning);
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
  console.out(output.format == Format::json
                  ? document.json
                  : document_text(document, {.width = size_t(console.out_width()),
                                             .whole = output.verbosity > 0,
                                             .quiet = output.quiet}));
  if (outcome.error) console.print_error(*outcome.error);
  if (Status written = write_documents(output.files, document); !written.ok()) {
    console.print_error(written.error());
    verdict.worsen(written.error());
  }
  return verdict.exit_code();
}

}  // namespace collctl::cmd
