// Measuring a collective: `run <collective>` and the direct form.
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/command_line.h"
#include "cmd/job/device_choice.h"
#include "cmd/report/report.h"

namespace collctl::cmd {

Result<int> bench_command(const ParsedLine& line, Console& console) {
  if (line.collective->suite == Suite::rails) return rails_command(line, console);
  if (line.collective->suite == Suite::window_test) return window_test_command(line, console);
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  // Before anything is said: of an adopted job, rank 0 alone speaks.
  COLL_TRY(adopt(launch));
  COLL_ASSIGN(const BenchSpec spec, or_decline(launch, settle_line(line, launch)));
  COLL_ASSIGN(const OutputOptions output, or_decline(launch, interpret_output(line, &spec)));
  for (const OutputFile& file : output.files)
    COLL_TRY(or_decline(launch, check_writable(file.path)));
  if (!output.quiet && launch.join_rank <= 0) {
    // Of an engine's job each process has been told its own number.
    if (!line.ranks_by_gpus || !launch.joins())
      for (const auto& note : line.notes) console.note(note);
    for (const auto& note : useless_options(line)) console.note(note);
    // The hosts' slots would have refused so many.
    if (launch.launcher == LauncherKind::local && launch.ranks > 2 * base::usable_cores() &&
        !launch.iterations_hint.empty())
      console.note(launch.iterations_hint);
    for (const auto& warning : launch.hosts.warnings) console.note(warning);
  }
  if (const auto hint = allocation_hint("run " + std::string(line.collective->name));
      !output.quiet && !launch.joins() && launch.launcher == LauncherKind::local && !hint.empty())
    console.note(hint);
  launch.talk = console_talk(console, output.quiet);
  Reporter reporter(console, output, spec, launch.join_rank <= 0);
  JobOutcome outcome = run_bench_job(launch, spec, reporter);
  if (outcome.error && outcome.error->code == ErrorCode::unavailable &&
      !launch.iterations_hint.empty())
    outcome.error->hint += (outcome.error->hint.empty() ? "" : "; ") + launch.iterations_hint;
  return reporter.finish(outcome);
}

}  // namespace collctl::cmd
