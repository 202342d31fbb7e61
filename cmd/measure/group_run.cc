// One rank's part in a run of groups.
#include "cmd/measure/together.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "base/thrown.h"
#include "cmd/measure/abort_scope.h"
#include "cmd/measure/rank_doing.h"
#include "cmd/measure/run.h"
#include "runtime/communicator/services.h"

namespace collctl::cmd {
namespace {

constexpr double kGroupFinishSeconds = 30;
constexpr int64_t kReasonMs = 1000;  // how far the whole's news may be behind the group's

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

// What is left of the groups that began, by the numbers that their ranks have now; a group that is
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

// What the start of the whole has left.
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
  // What ends the job is told in its own numbers: the group only hears that it ends.
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
  // Whom the whole waited for at a deadline may be waiting as well.
  if (ran.error().code != ErrorCode::deadline) ran = in_its_group(groups, std::move(ran.error()));
  // The whole hears of it first: a rank that leaves its group must not be taken for a lost one.
  whole_.abort(ran.error());
  end_group(ran.error().code);
  return ran;
}

Status GroupRun::run_in(runtime::Communicator& group, const Groups& groups) {
  Together together(whole_, group, groups, out_, op_timeout(spec_), continued_);
  Status ran = BenchRun(spec_, group, out_, nullptr, &together, continued_).run();
  if (ran) {
    ran = group.finalize(Deadline::after_seconds(kGroupFinishSeconds));
    if (ran) return ran;
  }
  return together.told(std::move(ran.error()));
}

}  // namespace

Status run_in_group(const BenchSpec& spec, runtime::Communicator& whole, BenchOut& out,
                    const Continued* continued) {
  return GroupRun(spec, whole, out, continued).run();
}

}  // namespace collctl::cmd
