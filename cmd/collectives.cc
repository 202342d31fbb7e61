// Measuring a collective: `run <collective>` and the direct form.
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/measure/options.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/root_commands.h"

namespace collctl::cmd {

Result<int> collective_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  if (line.has("dry-run")) COLL_TRY(refuse_under_engine(launch));
  // Before anything is said: of an adopted job, rank 0 alone speaks.
  else
    COLL_TRY(adopt(launch));
  if (line.text("vs") == kRivalNames[int(Rival::mpi)])
    COLL_TRY(or_decline(launch, adopt_by_mpi(launch, line.collective->name)));
  if (launch.shrink && launch.joins())
    COLL_TRY(or_decline(launch, Status(usage("--on-loss shrink: another launcher has started these "
                                             "ranks and ends them all with the lost one; expected "
                                             "hosts (-H) or --launcher local"))));
  const auto read = [&](int ranks) -> Result<TaskSpec> {
    COLL_ASSIGN(const BenchSpec bench, interpret_bench(line, interpret_device(line), ranks));
    return task_of(bench);
  };
  COLL_ASSIGN(const TaskSpec task, or_decline(launch, settle_line(line, launch, read)));
  COLL_ASSIGN(const BenchSpec spec, bench_of(task));
  COLL_ASSIGN(const OutputOptions output, or_decline(launch, interpret_output(line, &spec)));
  if (line.has("dry-run")) {
    launch.talk = console_talk(console, output.quiet);
    return dry_run(line, launch, console);
  }
  for (const OutputFile& file : output.files)
    COLL_TRY(or_decline(launch, check_writable(file.path)));
  if (!output.quiet && launch.join_rank <= 0) {
    // Each process of an engine's job has been told its own number.
    if (!line.ranks_by_gpus || !launch.joins())
      for (const auto& note : line.notes) console.note(note);
    for (const auto& note : useless_options(line)) console.note(note);
    // The hosts' slots would have refused so many.
    if (launch.launcher == LauncherKind::local && launch.ranks > 2 * base::usable_cores() &&
        !launch.iterations_hint.empty())
      console.note(launch.iterations_hint);
    note_hosts(launch, "run " + std::string(line.collective->name), console);
  }
  launch.talk = console_talk(console, output.quiet);
  Reporter reporter(console, output, spec, launch.join_rank <= 0);
  JobOutcome outcome = run_task_job(launch, task, reporter);
  if (outcome.error && outcome.error->code == ErrorCode::unavailable &&
      !launch.iterations_hint.empty())
    outcome.error->hint += (outcome.error->hint.empty() ? "" : "; ") + launch.iterations_hint;
  return reporter.finish(outcome);
}

}  // namespace collctl::cmd
