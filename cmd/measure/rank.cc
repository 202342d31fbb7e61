// One rank of a measurement: the row of the table of tasks, and the communicator around a BenchRun.
#include "cmd/measure/rank.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/thrown.h"
#include "cmd/measure/abort_scope.h"
#include "cmd/measure/rank_doing.h"
#include "cmd/measure/run.h"
#include "cmd/measure/soak.h"
#include "cmd/measure/together.h"
#include "cmd/measure/versus.h"
#include "runtime/communicator/members.h"

namespace collctl::cmd {
namespace {

constexpr double kAlikeSeconds = 2;  // all ranks refuse the same operation well within
constexpr double kFinishSeconds = 30;

constexpr TaskField kAlike[] = {{"versus", "--vs or --vs-config"}};

runtime::CommOptions bench_options(const BenchSpec& spec, TaskSink& sink) {
  runtime::CommOptions options = comm_options(spec, sink);
  // One choice holds for the whole run; several are set in turn (BenchRun).
  if (spec.algorithms.size() <= 1 && spec.protocols.size() <= 1) {
    if (!spec.algorithms.empty()) options.algo = spec.algorithms[0];
    if (!spec.protocols.empty()) options.proto = spec.protocols[0];
  }
  options.channels = spec.channels;
  options.p2p = spec.p2p;
  options.recalibrate = spec.recalibrate;
  options.count_waits = spec.stragglers || spec.trace;
  // Only where no launcher of ours has given all ranks theirs.
  if (sink.every_rank())
    options.task =
        task_text(spec.soak ? "soak" : name_of(spec.collective), spec.to_json(), kAlike) +
        alike_lines<BenchSpec>(spec.to_json());
  return options;
}

Status run_measurement(const TaskContext& context) {
  COLL_ASSIGN(const BenchSpec spec, bench_of(context.spec));
  return bench_rank(spec, context.id, context.rank, context.size, context.sink, context.continued);
}

Result<std::string> settle_measurement(const TaskSpec& asked, const TaskPlace& place) {
  COLL_ASSIGN(const BenchSpec spec, bench_of(asked));
  if (place.ranks > 0 && !spec.soak) COLL_TRY(check_ranks_and_roots(spec, place.ranks));
  COLL_ASSIGN(const BenchSpec known, settled(spec, place.on_gpus, place.why));
  return known.to_json();
}

}  // namespace

const RankTask kMeasureTask{
    .name = "measure", .run = run_measurement, .settle = settle_measurement};

Result<BenchSpec> bench_of(const TaskSpec& task) {
  COLL_ASSIGN(BenchSpec spec, BenchSpec::from_json(task.options));
  static_cast<RankSettings&>(spec) = task.settings;
  return spec;
}

TaskSpec task_of(const BenchSpec& spec) {
  return {.task = &kMeasureTask, .settings = spec, .options = spec.to_json()};
}

runtime::CommOptions comm_options(const RankSettings& settings, TaskSink& sink) {
  runtime::CommOptions options;
  options.start_timeout_s = settings.start_timeout_s;
  options.start_left_s = settings.start_left_s;
  options.op_timeout_s = settings.op_timeout_s;
  options.local_ranks = settings.local_ranks;
  options.device = settings.device;
  options.calibrate = true;
  options.share_device = settings.share_device;
  options.launcher = settings.launcher;
  options.cancel = start_cancel();
  options.checks_in = [&sink] { sink.checks_in(); };
  return options;
}

runtime::CommOptions comm_options(const TimedSettings& settings, TaskSink& sink) {
  runtime::CommOptions options = comm_options(static_cast<const RankSettings&>(settings), sink);
  options.transport = settings.transport;
  options.net = settings.net;
  options.integrity = settings.integrity;
  return options;
}

Status with_communicator(const TaskContext& context, const runtime::CommOptions& options,
                         CostWatch* cost,
                         const std::function<Status(runtime::Communicator&)>& work) {
  COLL_ASSIGN(const std::unique_ptr<runtime::Communicator> communicator,
              runtime::Communicator::init(context.id, context.rank, context.size, options));
  if (cost != nullptr) cost->pause();
  const AbortScope aborted([&](const Error& why) { communicator->abort(why); });
  const DoingScope doing(*communicator);
  if (Status status = base::caught([&] { return work(*communicator); }); !status) {
    // What only this rank knows must end the others too. A usage error all ranks find alike: who
    // left before the others have found it would be a lost rank to them.
    const bool alike = status.error().code == ErrorCode::usage &&
                       communicator->barrier(Deadline::after_seconds(kAlikeSeconds));
    if (!alike) communicator->abort(status.error());
    return status;
  }
  context.sink.phase(context.rank, "finish");
  COLL_TRY_IN(communicator->finalize(Deadline::after_seconds(kFinishSeconds)), "finish");
  return {};
}

Status bench_rank(const BenchSpec& spec, const runtime::UniqueId& id, int rank, int size,
                  TaskSink& sink, const Continued* continued) {
  const TaskSpec task = task_of(spec);
  const TaskContext context{task, id, rank, size, sink};
  BenchOut out{sink, [&](const BenchRecord& record) { return sink.record(encode_record(record)); },
               sink.every_rank()};
  sink.phase(rank, "connect");
  if (continued != nullptr) {
    // In the job's numbers. The job has its header.
    const std::vector<int>& members = continued->members;
    out.on = [&](BenchRecord record) -> Status {
      if (std::holds_alternative<BenchHeader>(record)) return {};
      in_job_numbers(members, record);
      if (BenchRow* const row = std::get_if<BenchRow>(&record)) {
        row->root = runtime::in_numbers_of(members, row->root);
        if (row->group < 0) row->ranks = int(members.size());  // a group knows its own
      }
      return sink.record(encode_record(record));
    };
    runtime::CommOptions options = bench_options(spec, sink);
    options.members = members;
    Status ran =
        with_communicator(context, options, nullptr, [&](runtime::Communicator& communicator) {
          if (spec.split) return run_in_group(spec, communicator, out, continued);
          Everyone everyone(communicator, out, op_timeout(spec));
          return BenchRun(spec, everyone, nullptr, continued).run();
        });
    if (!ran) return runtime::in_numbers_of(members, std::move(ran.error()));
    return ran;
  }
  std::optional<CostWatch> cost;
  if (!spec.versus.empty() && spec.device >= 0) {
    // The driver's context is there before either side's communicator.
    COLL_ASSIGN(auto device, transport::Device::open(spec.device));
    cost.emplace(std::move(device));
  }
  CostWatch* const watch = cost && !spec.split ? &*cost : nullptr;
  return with_communicator(context, bench_options(spec, sink), watch,
                           [&](runtime::Communicator& communicator) -> Status {
                             if (spec.split) return run_in_group(spec, communicator, out);
                             if (spec.soak) return Soak(spec, communicator, out).run();
                             Everyone everyone(communicator, out, op_timeout(spec));
                             return BenchRun(spec, everyone, watch).run();
                           });
}

}  // namespace collctl::cmd
