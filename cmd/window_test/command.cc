// The command `window-test`, also under run: its options, and the sink that prints what came.
#include <algorithm>
#include <mutex>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "cmd/job/options.h"
#include "cmd/report/options.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/dry_run.h"
#include "cmd/report/document_file.h"
#include "cmd/report/report.h"
#include "cmd/window_test/window_test.h"
#include "cmd/job/talk.h"

namespace collctl::cmd {
namespace {

// What a collective takes and this does not.
Status check_options(const ParsedLine& line) {
  for (const auto& [name, values] : line.given) {
    const Option* option = find_option(name, line.command->scopes);
    const bool measures = option->group == Group::sizes || option->group == Group::measure ||
                          option->group == Group::select || option->group == Group::output;
    if (measures && (option->scopes & kWindowTest) == 0)
      return usage(format("--{} has no meaning for window-test", name));
  }
  return {};
}

struct WindowOutput {
  bool json = false, quiet = false, whole = false;
  std::vector<OutputFile> files;
};

Result<WindowOutput> interpret_window_output(const ParsedLine& line) {
  WindowOutput output;
  output.json = line.has("json");
  output.quiet = line.has("quiet");
  output.whole = line.times("verbose") > 0;
  COLL_ASSIGN(OutputOptions given, interpret_output(line, nullptr, true));
  output.files = std::move(given.files);
  for (const OutputFile& file : output.files) COLL_TRY(check_writable(file.path));
  return output;
}

// Called by whoever runs rank 0 (any thread, guarded), finished by the command.
class WindowReporter : public TaskSink {
 public:
  WindowReporter(Console& console, WindowOutput output, bool speaks)
      : console_(console),
        output_(std::move(output)),
        speaks_(speaks),
        progress_(console, speaks && !output_.quiet) {}
  void progress(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    stage_ = text;
    progress_.text(text);
  }
  void phase(int rank, const std::string& name) override {
    const std::lock_guard lock(mutex_);
    if (!header_) progress_.phase(rank, name);
  }
  // On rank 0 the header first, then the report as far as it is.
  Status record(const std::string& json) override {
    const std::lock_guard lock(mutex_);
    if (speaks_ && !header_) {
      COLL_ASSIGN(header_, read_header(json));
      return {};
    }
    COLL_ASSIGN(report_, WindowReport::from_json(json));
    return {};
  }

  int finish(const JobOutcome& outcome);

 private:
  Status write_files(const WindowReport& report, const Verdict& verdict, const std::string& json);

  std::mutex mutex_;
  Console& console_;
  const WindowOutput output_;
  const bool speaks_;
  Progress progress_;
  std::optional<BenchHeader> header_;
  std::optional<WindowReport> report_;  // as far as it is
  std::string stage_;                   // under way
};

Status WindowReporter::write_files(const WindowReport& report, const Verdict& verdict,
                                   const std::string& json) {
  if (output_.files.empty()) return {};
  Document document{.title = format("collctl window-test: {} ranks", report.header.ranks),
                    .json = json,
                    .rows = "checks",
                    .text = report.checks.empty() ? "" : window_text(report, verdict, true),
                    .svg = report.pairs.empty() ? "" : window_svg(report)};
  std::vector<OutputFile> files;
  for (const OutputFile& file : output_.files) {
    if (file.format != Format::svg || !document.svg.empty())
      files.push_back(file);
    else
      console_.note(format("{} is not written: no pair of ranks was measured", file.path));
  }
  return write_documents(files, document);
}

int WindowReporter::finish(const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  const Error* job_error = outcome.error ? &*outcome.error : nullptr;
  WindowReport report;
  if (report_) report = *report_;
  if (header_) report.header = *header_;
  if (job_error != nullptr) add_broken_stage(report, stage_, *job_error);
  Verdict verdict = judge(report);
  if (job_error != nullptr && verdict.ok) verdict.worsen(job_error->code);
  for (const HostEnd& host : outcome.hosts)
    if (host.error) verdict.add(ReasonKind::host_left_out, host.error->chain(), host.host);
  int code = final_code(
      job_error != nullptr && outcome.exit_code == 0 ? int(job_error->code) : outcome.exit_code,
      verdict);
  const std::string json = job_error == nullptr    ? window_json(report, verdict)
                           : report.checks.empty() ? error_json(*job_error, code)
                                                   : window_error_json(report, *job_error, code);
  Status files;
  if (speaks_) files = write_files(report, verdict, json);
  if (!files && code == 0) code = int(files.error().code);
  if (speaks_ && output_.json) console_.out(json);
  if (speaks_ && !output_.json && !report.checks.empty()) {
    if (!output_.quiet && header_) console_.out(window_header(*header_));
    console_.out(window_text(report, verdict, output_.whole));
  }
  if (job_error != nullptr) console_.print_error(*job_error);
  if (job_error == nullptr && speaks_)
    for (const Reason& reason : verdict.reasons)
      console_.err(format("collctl: {}\n", reason.message));
  if (!files) console_.print_error(files.error());
  return code;
}

}  // namespace

Result<TaskSpec> window_test_task(const ParsedLine& line) {
  COLL_TRY(check_options(line));
  WindowTestSpec spec;
  spec.device_request = interpret_device(line);
  spec.iterations = int(line.number("iters", 20));
  spec.budget_s = line.number("budget", kWindowTestSeconds);
  if (line.has("transport")) spec.transport = line.text("transport");
  if (line.has("net")) spec.net = line.text("net");
  spec.op_timeout_s = line.has("op-timeout") ? line.number("op-timeout", 0) : 0;
  spec.start_timeout_s = line.has("start-timeout") ? line.number("start-timeout", 0) : 0;
  spec.verbosity = line.times("verbose");
  return TaskSpec{.task = &kWindowTestTask, .settings = spec, .options = spec.to_json()};
}

Result<int> window_test_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  if (line.has("dry-run")) COLL_TRY(refuse_under_engine(launch));
  else COLL_TRY(adopt(launch));
  COLL_ASSIGN(const TaskSpec task,
              or_decline(launch, settle_line(line, launch, [&](int) { return window_test_task(line); })));
  if (line.has("dry-run")) {
    COLL_TRY(interpret_output(line, nullptr, true));
    launch.talk = console_talk(console, line.has("quiet"));
    return dry_run(line, launch, console);
  }
  COLL_ASSIGN(WindowOutput output, or_decline(launch, interpret_window_output(line)));
  if (!output.quiet && launch.join_rank <= 0)
    for (const auto& warning : launch.hosts.warnings) console.note(warning);
  launch.talk = console_talk(console, output.quiet);
  WindowReporter reporter(console, std::move(output), launch.join_rank <= 0);
  return reporter.finish(run_task_job(launch, task, reporter));
}

}  // namespace collctl::cmd
