// Measuring a collective: `run <collective>` and the direct form.
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/command_line.h"
#include "cmd/report.h"

namespace collctl::cmd {

Result<int> bench_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  // Before anything is said: of an adopted job, rank 0 alone speaks.
  COLL_TRY(adopt(launch, line.text("launcher") == "adopt"));
  int ranks = launch.join.empty() ? launch.ranks : launch.join_size;
  if (ranks == 0) ranks = base::usable_cores();
  COLL_ASSIGN(const BenchSpec spec, interpret_bench(line, ranks));
  COLL_ASSIGN(const OutputOptions output, interpret_output(line, &spec));
  for (const OutputFile& file : output.files) COLL_TRY(check_writable(file.path));
  if (!output.quiet)
    for (const auto& note : useless_options(line)) console.note(note);
  Reporter reporter(console, output, spec, launch.join_rank <= 0);
  return reporter.finish(run_bench_job(launch, spec, reporter));
}

}  // namespace collctl::cmd
