// One rank of a measurement: the row of the table of tasks, and the communicators around a
// BenchRun.
#include "cmd/measure/rank.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/format.h"
#include "base/thrown.h"
#include "cmd/measure/run.h"
#include "cmd/measure/running.h"
#include "cmd/measure/soak.h"
#include "cmd/measure/together.h"
#include "cmd/measure/versus.h"
#include "runtime/communicator/members.h"
#include "runtime/communicator/services.h"

namespace collctl::cmd {
namespace {

constexpr double kAlikeSeconds = 2;  // all ranks refuse the same operation well within
constexpr double kFinishSeconds = 30;
constexpr int64_t kReasonMs = 1000;  // how far the whole's news may be behind the group's

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
    options.task = task_text(spec.soak ? "soak" : name_of(spec.collective), json_of(spec), kAlike) +
                   alike_lines<BenchSpec>(json_of(spec));
  return options;
}

// One rank's part in a run of groups (--split): which group it is in, the group's communicator, and
// the BenchRun over it. On the rank's thread. All ranks of the job together: what fails in one
// group ends all of them; its error comes back in the job's numbers of ranks, and the whole has
// been told. `continued`: the whole is of those that are left, and the groups are what is left of
// them.
class GroupRun {
 public:
  GroupRun(const BenchSpec& spec, runtime::Communicator& whole, BenchOut& out,
           const Continued* continued)
      : spec_(spec), whole_(whole), out_(out), continued_(continued) {}
  Status run();

 private:
  Result<Groups> find_groups();
  Deadline start_deadline() const;
  Status run_in(runtime::Communicator& group, const Groups& groups);

  const BenchSpec& spec_;
  runtime::Communicator& whole_;
  BenchOut& out_;
  const Continued* const continued_;  // null: no ranks were lost before
};

// Those left of the groups that began, by the numbers that their ranks have now; a group that is
// lost is empty.
Groups left_of(const Continued& continued) {
  Groups left;
  for (const std::vector<int>& group : continued.groups) {
    std::vector<int>& mine = left.emplace_back();
    for (int rank = 0; rank < int(continued.members.size()); ++rank)
      if (std::ranges::count(group, continued.members[size_t(rank)]) > 0) mine.push_back(rank);
  }
  return left;
}

Result<Groups> GroupRun::find_groups() {
  if (continued_ != nullptr) {
    Groups left = left_of(*continued_);
    if (group_of(left, whole_.rank()) >= 0) return left;
    return Error(ErrorCode::defect, "this rank is in none of the groups that the launcher knows");
  }
  if (spec_.split.by_rank()) return groups_of(spec_.split, whole_.size());
  // A rank that cannot tell where it is lets all end alike.
  Result<int> node = spec_.split.by == SplitBy::numa ? numa_node(whole_) : Result<int>(0);
  ByteWriter writer;
  writer.put(int32_t(node ? *node : -1));
  COLL_ASSIGN(const auto all,
              whole_.gather_blobs(writer.bytes(), Deadline::after_seconds(op_timeout(spec_))));
  std::vector<RankSite> sites;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader reader(all[rank]);
    sites.push_back({whole_.peers()[rank].host_hash, reader.get<int32_t>()});
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's NUMA node has the wrong length");
  }
  if (!node) return std::move(node.error());
  for (size_t rank = 0; rank < sites.size(); ++rank)
    if (sites[rank].numa < 0)
      return Error(ErrorCode::usage,
                   format("--split numa: rank {} (host {}) is of no one NUMA node", rank,
                          whole_.peers()[rank].host))
          .blame(int(rank));
  return groups_of(spec_.split, sites);
}

// By the time that the start of the whole has left.
Deadline GroupRun::start_deadline() const {
  const auto knob = base::knob_seconds(base::KnobId::start_timeout);
  const double all_s = spec_.start_left_s > 0      ? spec_.start_left_s
                       : spec_.start_timeout_s > 0 ? spec_.start_timeout_s
                       : knob                      ? *knob
                                                   : 60;  // start-up has refused an illegal one
  return Deadline::after_seconds(std::max(1.0, all_s - whole_.init_times().total));
}

Status GroupRun::run() {
  COLL_ASSIGN(const Groups groups, find_groups());
  COLL_TRY(check_groups(spec_, groups));
  COLL_ASSIGN(const std::unique_ptr<runtime::Communicator> group,
              whole_.split(group_of(groups, whole_.rank()), 0, start_deadline()));
  // The end of the job is told in its own numbers: the group only hears that it ends.
  const auto end_group = [&](ErrorCode code) {
    group->abort(Error(code, "the job ends").because(Cause::told_to_end));
  };
  std::mutex mutex;
  std::optional<Error> aborted;
  const auto end_by = [&](const Error& why) {
    {
      const std::lock_guard lock(mutex);
      if (!aborted) aborted = why;
    }
    end_group(why.code);
  };
  const AbortScope scope(end_by);
  const base::Cancel::Listener with_whole(whole_.failure(), end_by);
  const DoingScope doing(*group, whole_);
  Status ran = base::caught([&] { return run_in(*group, groups); });
  if (ran) return ran;
  if (ran.error().cause == Cause::told_to_end) {
    runtime::CommunicatorServices(whole_).wait_for_notice(Deadline::after_ms(kReasonMs));
    const int awaited = ran.error().awaited;
    const std::lock_guard lock(mutex);
    if (aborted) ran = *aborted;
    if (ran.error().awaited < 0) ran.error().awaited = awaited;
  }
  // The rank that the whole waited for at a deadline may be waiting as well.
  if (ran.error().code != ErrorCode::deadline) ran = in_its_group(groups, std::move(ran.error()));
  // The whole hears of it first: a rank that leaves its group must not be taken for a lost one.
  whole_.abort(ran.error());
  end_group(ran.error().code);
  return ran;
}

Status GroupRun::run_in(runtime::Communicator& group, const Groups& groups) {
  Together together(whole_, group, groups, out_, op_timeout(spec_), continued_);
  Status ran = BenchRun(spec_, together, nullptr, continued_).run();
  if (ran) {
    ran = group.finalize(Deadline::after_seconds(kFinishSeconds));
    if (ran) return ran;
  }
  return together.told(std::move(ran.error()));
}

Status run_measurement(const TaskContext& context) {
  COLL_ASSIGN(const BenchSpec spec, bench_of(context.spec));
  return bench_rank(spec, context.id, context.rank, context.size, context.sink, context.continued);
}

Result<std::string> settle_measurement(const TaskSpec& asked, const TaskPlace& place) {
  COLL_ASSIGN(const BenchSpec spec, bench_of(asked));
  if (place.ranks > 0 && !spec.soak) COLL_TRY(check_ranks_and_roots(spec, place.ranks));
  COLL_ASSIGN(const BenchSpec known, settled(spec, place.on_gpus, place.why));
  return json_of(known);
}

}  // namespace

const RankTask kMeasureTask{
    .name = "measure", .run = run_measurement, .settle = settle_measurement};

Result<BenchSpec> bench_of(const TaskSpec& task) {
  COLL_ASSIGN(BenchSpec spec,
              record_of<BenchSpec>(task.options, "reading the bench specification"));
  static_cast<RankSettings&>(spec) = task.settings;
  return spec;
}

TaskSpec task_of(const BenchSpec& spec) {
  return {.task = &kMeasureTask, .settings = spec, .options = json_of(spec)};
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
    // An error that only this rank knows must end the others too. A usage error all ranks find
    // alike: a rank that left before the others have found it would be a lost rank to them.
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
  runtime::CommOptions options = bench_options(spec, sink);
  if (continued != nullptr) {
    options.members = continued->members;
    // In the job's numbers. The job has its header.
    out.on = [&members = continued->members, &sink](BenchRecord record) -> Status {
      if (std::holds_alternative<BenchHeader>(record)) return {};
      in_job_numbers(members, record);
      if (BenchRow* const row = std::get_if<BenchRow>(&record)) {
        row->root = runtime::in_numbers_of(members, row->root);
        if (row->group < 0) row->ranks = int(members.size());  // a group knows its own
      }
      return sink.record(encode_record(record));
    };
  }
  std::optional<CostWatch> cost;
  if (!spec.versus.empty() && spec.device >= 0 && !spec.split && continued == nullptr) {
    // The driver's context is there before either side's communicator.
    COLL_ASSIGN(auto device, transport::Device::open(spec.device));
    cost.emplace(std::move(device));
  }
  CostWatch* const watch = cost ? &*cost : nullptr;
  Status ran = with_communicator(context, options, watch,
                                 [&](runtime::Communicator& communicator) -> Status {
                                   if (spec.split)
                                     return GroupRun(spec, communicator, out, continued).run();
                                   if (spec.soak) return Soak(spec, communicator, out).run();
                                   Everyone everyone(communicator, out, op_timeout(spec));
                                   return BenchRun(spec, everyone, watch, continued).run();
                                 });
  if (ran || continued == nullptr) return ran;
  return runtime::in_numbers_of(continued->members, std::move(ran.error()));
}

}  // namespace collctl::cmd
