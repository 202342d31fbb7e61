// A rank that somebody else has started, in this process.
#include "base/env.h"
#include "cmd/job/loop.h"
#include "tests/fake_drivers/mpi_control.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace join_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

// Its launcher takes a rank that leaves without that for lost.
TEST_CASE("ranks that met in MPI end it before they leave", "[job][mpi]") {
  const base::ScopedVariable by_mpich("PMI_RANK", "0");
  LaunchOptions options;
  options.join_rank = options.join_local_rank = 0;
  options.join_size = options.local_ranks = 1;
  options.meet_in_mpi = true;
  RecordSink sink;
  const JobOutcome outcome =
      run_joined(options, task_of(small_bench(kernels::Collective::all_reduce)), sink);
  INFO((outcome.error ? outcome.error->chain() : ""));
  CHECK(outcome.exit_code == 0);
  CHECK_FALSE(sink.records.empty());
  CHECK(fake_mpi::ended() == 1);
}

}  // namespace join_tests
