// One rank of a measurement (cmd/bench.h): the communicator's life around a BenchRun.
#include <memory>

#include "base/format.h"
#include "cmd/abort_scope.h"
#include "cmd/bench.h"
#include "cmd/bench_run.h"
#include "cmd/soak.h"
#include "cmd/topo_dump.h"

namespace collctl::cmd {

namespace {

runtime::CommOptions comm_options(const BenchSpec& spec) {
  runtime::CommOptions options;
  // One choice holds for the whole run; several are set in turn (BenchRun).
  if (spec.algorithms.size() <= 1 && spec.protocols.size() <= 1) {
    if (!spec.algorithms.empty()) options.algo = spec.algorithms[0];
    if (!spec.protocols.empty()) options.proto = spec.protocols[0];
  }
  options.channels = spec.channels;
  options.transport = spec.transport;
  options.p2p = spec.p2p;
  options.start_timeout_s = spec.start_timeout_s;
  options.op_timeout_s = spec.op_timeout_s;
  options.local_ranks = spec.local_ranks;
  options.device = spec.device;
  options.share_device = spec.share_device;
  options.launcher = spec.launcher;
  return options;
}

}  // namespace

Status bench_rank(const BenchSpec& spec, const runtime::UniqueId& id, int rank, int size,
                  BenchSink& sink) {
  COLL_TRY(dump_topology(rank));
  sink.phase(rank, "connect");
  COLL_ASSIGN(const std::unique_ptr<runtime::Communicator> communicator,
              runtime::Communicator::init(id, rank, size, comm_options(spec)));
  const AbortScope aborted([&](const Error& why) { communicator->abort(why); });
  {
    Status status = spec.soak ? Soak(spec, *communicator, sink).run()
                              : BenchRun(spec, *communicator, sink).run();
    if (!status) {
      // What only this rank knows must end the others too; a usage error all ranks found alike.
      if (status.error().code != ErrorCode::usage) communicator->abort(status.error());
      return status;
    }
  }
  sink.phase(rank, "finish");
  COLL_TRY_IN(communicator->finalize(Deadline::after_seconds(30)), "finish");
  return {};
}

}  // namespace collctl::cmd
