// The command `window-test`, also under run: its options, and the sink that prints what came.
#include <mutex>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "cmd/cli/option_rows.h"
#include "cmd/document/document.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {
namespace {

// Refuses options that collectives take and window-test does not.
Status check_options(const ParsedLine& line) {
  for (const auto& [name, values] : line.given) {
    const Option* option = find_option(name, line.command->scopes);
    const bool measures = option->group == Group::sizes || option->group == Group::measure ||
                          option->group == Group::select || option->group == Group::output;
    if (measures && find_option(name, line.collective->scopes) == nullptr)
      return usage(format("--{} has no meaning for window-test", name));
  }
  return {};
}

// Called by whoever runs rank 0 (any thread, guarded), finished by the command.
class WindowReporter : public TaskSink {
 public:
  WindowReporter(Console& console, OutputOptions output, bool speaks)
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
    COLL_ASSIGN(report_, record_of<WindowReport>(json, "reading a window-test record"));
    return {};
  }

  int finish(const JobOutcome& outcome);

 private:
  Status write_files(const Document& document);

  std::mutex mutex_;
  Console& console_;
  const OutputOptions output_;
  const bool speaks_;
  Progress progress_;
  std::optional<BenchHeader> header_;
  std::optional<WindowReport> report_;  // as far as it is
  std::string stage_;                   // under way
};

Status WindowReporter::write_files(const Document& document) {
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
  WindowReport report;
  if (report_) report = *report_;
  if (header_) report.header = *header_;
  if (outcome.error) add_broken_stage(report, stage_, *outcome.error);
  Verdict verdict = judge(report, outcome.hosts, outcome.error);
  const Document document =
      window_document(report, outcome.error && report.checks.empty()
                                  ? error_json(*outcome.error, verdict.exit_code())
                                  : window_json(report, verdict));
  Status files;
  if (speaks_) files = write_files(document);
  if (!files) verdict.worsen(files.error());
  if (speaks_ && (output_.format == Format::json || !report.checks.empty()))
    print_document(document, output_, console_);
  if (outcome.error) console_.print_error(*outcome.error);
  if (!outcome.error && speaks_ && output_.format == Format::json)
    for (const Reason& reason : verdict.reasons())
      console_.err(format("collctl: {}\n", reason.message));
  if (!files) console_.print_error(files.error());
  return verdict.exit_code();
}

}  // namespace

Result<TaskSpec> window_test_task(const ParsedLine& line) {
  COLL_TRY(check_options(line));
  WindowTestSpec spec;
  spec.device_request = interpret_device(line);
  COLL_TRY(fill(line, spec));
  return TaskSpec{.task = &kWindowTestTask, .settings = spec, .options = json_of(spec)};
}

void add_window_test_options(std::vector<Option>& t, uint32_t own) {
  using namespace kinds;
  const Adder add{t, Group::measure, own};
  add("budget", seconds("S", 0.001, 1e6, "300"), to<&WindowTestSpec::budget_s>,
      "start no further stage or pair after S seconds (window-test)",
      "What is left is not tested: the exit code is 8, and the report names it.");
}

Command window_test_row(uint32_t own) {
  return {.name = "window-test",
          .kind = CommandKind::task,
          .arguments = "[options]",
          .scopes = kTask | kTimedTask | own,
          .summary = "symmetric memory: whether it is mapped, ordered and right",
          .description =
              "Registers windows of memory among the ranks and tests them. Every rank writes "
              "patterns of its own and reads them through its mapping of every other rank's "
              "window, at several strides and offsets; windows are registered again and again, "
              "several at once, until there is no room, and with mistakes, which must fail with a "
              "clear error. Then: whether a flag that is written after data arrives after it, put, "
              "get, signal and wait between every two ranks with their times, and collectives on "
              "windows against the same on ordinary memory. Where two ranks do not share memory "
              "the network carries puts and gets. The exit code is 0 when all of it passed, 7 when "
              "data was wrong, 1 when another check failed, 8 when something could not be tested.",
          .examples = {{"collctl window-test", "one rank per GPU, or per core without GPUs"},
                       {"collctl window-test -H a,b --json", "on two hosts, one JSON object"},
                       {"collctl window-test -n 4 -o windows.svg", "the matrix as a heat map"}},
          .under_run = kBench | kTimedTask | own,
          .run = window_test_command};
}

Result<int> window_test_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  if (line.has("dry-run"))
    COLL_TRY(refuse_under_engine(launch));
  else
    COLL_TRY(adopt(launch));
  COLL_ASSIGN(
      const TaskSpec task,
      or_decline(launch, settle_line(line, launch, [&](int) { return window_test_task(line); })));
  COLL_ASSIGN(OutputOptions output, or_decline(launch, interpret_output(line, nullptr, kAllFiles)));
  if (line.has("dry-run")) {
    launch.talk = console_talk(console, output.quiet);
    return dry_run(line, launch, console);
  }
  for (const OutputFile& file : output.files)
    COLL_TRY(or_decline(launch, check_writable(file.path)));
  if (!output.quiet && launch.join_rank <= 0) note_hosts(launch, "run window-test", console);
  launch.talk = console_talk(console, output.quiet);
  WindowReporter reporter(console, std::move(output), launch.join_rank <= 0);
  return reporter.finish(run_task_job(launch, task, reporter));
}

}  // namespace collctl::cmd
