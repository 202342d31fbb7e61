// One rank of a measurement (cmd/measure/bench.h): the communicator's life around a BenchRun.
#include <memory>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/thrown.h"
#include "cmd/job/abort_scope.h"
#include "cmd/measure/bench.h"
#include "cmd/measure/run.h"
#include "cmd/rails/rails.h"
#include "cmd/measure/same_command.h"
#include "cmd/measure/soak.h"
#include "cmd/measure/start_cost.h"
#include "cmd/topo/dump.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {

namespace {

runtime::CommOptions comm_options(const BenchSpec& spec, int size, BenchSink& sink) {
  runtime::CommOptions options;
  if (spec.suite == Suite::window_test) options.window_stride = window_test_stride(size);
  // One choice holds for the whole run; several are set in turn (BenchRun).
  if (spec.algorithms.size() <= 1 && spec.protocols.size() <= 1) {
    if (!spec.algorithms.empty()) options.algo = spec.algorithms[0];
    if (!spec.protocols.empty()) options.proto = spec.protocols[0];
  }
  options.channels = spec.channels;
  options.transport = spec.transport;
  options.p2p = spec.p2p;
  options.net = spec.net;
  options.start_timeout_s = spec.start_timeout_s;
  options.op_timeout_s = spec.op_timeout_s;
  options.local_ranks = spec.local_ranks;
  options.device = spec.device;
  options.share_device = spec.share_device;
  options.launcher = spec.launcher;
  options.cancel = start_cancel();
  options.checks_in = [&sink] { sink.checks_in(); };
  // Only where no launcher of ours has given all ranks theirs.
  if (sink.every_rank()) options.task = command_task(spec);
  return options;
}

constexpr double kAlikeSeconds = 2;  // all ranks refuse the same operation well within

}  // namespace

Status bench_rank(const BenchSpec& spec, const runtime::UniqueId& id, int rank, int size,
                  BenchSink& sink) {
  COLL_TRY(dump_topology(rank));
  if (spec.suite == Suite::rails) return rails_rank(spec, id, rank, size, sink);
  sink.phase(rank, "connect");
  std::optional<CostWatch> cost;
  if (!spec.versus.empty() && spec.device >= 0) {
    // The driver's context is there before either side's communicator.
    COLL_ASSIGN(auto device, transport::Device::open(spec.device));
    cost.emplace(std::move(device));
  }
  COLL_ASSIGN(const std::unique_ptr<runtime::Communicator> communicator,
              runtime::Communicator::init(id, rank, size, comm_options(spec, size, sink)));
  if (cost) cost->pause();
  const AbortScope aborted([&](const Error& why) { communicator->abort(why); });
  {
    Status status = base::caught([&]() -> Status {
      return spec.suite == Suite::window_test ? WindowTest(spec, *communicator, sink).run()
             : spec.soak                      ? Soak(spec, *communicator, sink).run()
                         : BenchRun(spec, *communicator, sink, cost ? &*cost : nullptr).run();
    });
    if (!status) {
      // What only this rank knows must end the others too. A usage error all ranks find alike: who
      // left before the others have found it would be a lost rank to them.
      const bool alike = status.error().code == ErrorCode::usage &&
                         communicator->barrier(Deadline::after_seconds(kAlikeSeconds));
      if (!alike) communicator->abort(status.error());
      return status;
    }
  }
  sink.phase(rank, "finish");
  COLL_TRY_IN(communicator->finalize(Deadline::after_seconds(30)), "finish");
  return {};
}

}  // namespace collctl::cmd
