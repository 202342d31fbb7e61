// `rails` and `run ... rails`: the command.
#include <mutex>

#include "base/env.h"
#include "base/format.h"
#include "cmd/job/options.h"
#include "cmd/report/options.h"
#include "cmd/report/document_file.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/talk.h"
#include "cmd/text/progress.h"
#include "cmd/rails/rails.h"
#include "cmd/report/report.h"

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
  if (line.has("net")) spec.net = line.text("net");
  if (!spec.net.empty() && spec.net != "ib" && spec.net != "socket")
    return Error(ErrorCode::usage, format("--net {}: rails tries ib or socket", spec.net));
  COLL_ASSIGN(spec.message_bytes, base::parse_bytes(line.text("message")));
  if (spec.message_bytes > kMostRailsMessage)
    return Error(ErrorCode::usage, format("--message {}: at most {}M", line.text("message"),
                                          kMostRailsMessage >> 20));
  spec.seconds = line.number("seconds", 0);
  spec.timeout_s = line.number("pair-timeout", 0);
  TaskSpec task{.task = &kRailsTask, .settings = {}, .options = spec.to_json()};
  task.settings.device_request = DeviceRequest::cpu;
  task.settings.start_timeout_s = line.has("start-timeout") ? line.number("start-timeout", 0) : 0;
  task.settings.verbosity = line.times("verbose");
  return task;
}

// One rank for each host acts; of one host two, whose NICs meet.
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
  COLL_ASSIGN(const OutputOptions output, or_decline(launch, interpret_output(line, nullptr)));
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
  const JobOutcome outcome = run_task_job(launch, task, sink);
  const std::string record = sink.finish();
  const bool json = output.format == Format::json;
  if (record.empty()) {
    // Without a record the job has failed, and says why.
    Error error = outcome.error.value_or(Error(ErrorCode::defect, "no rank reported anything"));
    if (error.code != ErrorCode::interrupted) return error;
    console.print_error(error);  // each process of a joined job has its own to tell
    return outcome.exit_code;
  }
  COLL_ASSIGN(const RailsReport report, read_rails(record));
  const double below = line.number("below", 0);
  const RailsVerdict verdict = judge_rails(report, below);
  const auto as_json = [&] { return rails_json(report, verdict); };
  int code = outcome.error ? outcome.exit_code : 0;
  if (verdict.code != ErrorCode{} &&
      (code == 0 || base::severity(verdict.code) > base::severity(outcome.error->code)))
    code = int(verdict.code);
  if (!speaks) return code;
  console.out(
      json
          ? as_json()
          : rails_text(report, verdict,
                       {.quiet = output.quiet, .all_pairs = output.verbosity > 0, .below = below}));
  if (outcome.error) console.print_error(*outcome.error);
  if (output.files.empty()) return code;
  const size_t hosts = report.hosts.size();
  const Document document{
      .title = format("collctl rails: {}",
                      hosts == 1 ? report.hosts[0].host : format("{} hosts", hosts)),
      .json = as_json(),
      .rows = "checks",
      .list = rails_list(report, verdict),
      .text = rails_text(report, verdict, {.quiet = false, .all_pairs = true, .below = below}),
      .svg = ""};
  if (Status written = write_documents(output.files, document); !written.ok()) {
    console.print_error(written.error());
    if (code == 0) code = int(written.error().code);
  }
  return code;
}

}  // namespace collctl::cmd
