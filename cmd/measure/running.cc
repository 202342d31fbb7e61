#include "cmd/measure/running.h"

#include <algorithm>
#include <mutex>

#include "base/clock.h"
#include "runtime/communicator/members.h"

namespace collctl::cmd {
namespace {

using base::Cancel;

struct Running {
  std::mutex mutex;
  std::shared_ptr<Cancel> measurements = std::make_shared<Cancel>();
  std::shared_ptr<Cancel> starts = std::make_shared<Cancel>();
};

Running& running() {
  static Running all;
  return all;
}

std::shared_ptr<Cancel> measurements_cancel() {
  const std::lock_guard lock(running().mutex);
  return running().measurements;
}

constexpr size_t kMostWaits = 256;

struct OpenScopes {
  std::mutex mutex;
  std::vector<const runtime::Communicator*> communicators;
};
OpenScopes& open_scopes() {
  static OpenScopes all;
  return all;
}

WaitDoing as_doing(const kernels::WaitLog::Now& now, int64_t at_ns) {
  const kernels::Report& wait = now.wait;
  return {.peer = wait.peer,
          .receives = wait.side == kernels::WaitSide::recv,
          .seconds = double(std::max<int64_t>(at_ns - now.since_ns, 0)) / 1e9,
          .operation = kernels::name_of(wait.collective),
          .algorithm = kernels::name_of(wait.algorithm),
          .protocol = kernels::name_of(wait.protocol),
          .number = wait.op_count,
          .channel = wait.channel,
          .step = wait.step,
          .seen = wait.seen,
          .wanted = wait.wanted};
}

void describe(const kernels::WindowWait& window, int64_t at_ns, std::vector<WaitDoing>& waits) {
  for (const int peer : window.missing)
    waits.push_back({.peer = peer,
                     .seconds = double(std::max<int64_t>(at_ns - window.since_ns, 0)) / 1e9,
                     .number = window.number,
                     .step = window.number,
                     .seen = window.number - 1,
                     .wanted = window.number});
}

}  // namespace

AbortScope::AbortScope(Abort abort) : listener_(measurements_cancel(), std::move(abort)) {}

std::shared_ptr<Cancel> start_cancel() {
  const std::lock_guard lock(running().mutex);
  return running().starts;
}

void abort_running(const Error& why) {
  measurements_cancel()->call(why);
  abort_starts(why);
}

void abort_starts(const Error& why) {
  start_cancel()->call(why);
}

void clear_abort() {
  const std::lock_guard lock(running().mutex);
  running().measurements = std::make_shared<Cancel>();
  running().starts = std::make_shared<Cancel>();
}

static void fields(Record& io, WaitDoing& wait) {
  io.field("peer", wait.peer, -1, 1 << 20);
  io.field("receives", wait.receives);
  io.field("seconds", wait.seconds, 0, 1e9);
  io.field("op", wait.operation, 64);
  io.field("algorithm", wait.algorithm, 64);
  io.field("protocol", wait.protocol, 64);
  io.field("number", wait.number);
  io.field("channel", wait.channel, 0, 1 << 20);
  io.field("step", wait.step);
  io.field("seen", wait.seen);
  io.field("wanted", wait.wanted);
}

void fields(Record& io, RankDoing& doing) {
  io.field("rank", doing.rank, 0, 1 << 20);
  io.field("calls", doing.calls);
  io.field("last", doing.last, 256);
  io.field("busy", doing.busy);
  io.field("on_gpu", doing.on_gpu);
  io.field("waits", doing.waits, kMostWaits);
}

DoingScope::DoingScope(const runtime::Communicator& communicator) : communicator_(communicator) {
  const std::lock_guard lock(open_scopes().mutex);
  open_scopes().communicators.push_back(&communicator);
}

DoingScope::DoingScope(const runtime::Communicator& communicator,
                       const runtime::Communicator& whole)
    : communicator_(communicator), whole_(&whole) {
  const std::lock_guard lock(open_scopes().mutex);
  std::ranges::replace(open_scopes().communicators, whole_, &communicator_);
}

DoingScope::~DoingScope() {
  const std::lock_guard lock(open_scopes().mutex);
  if (whole_ != nullptr)
    std::ranges::replace(open_scopes().communicators, &communicator_, whole_);
  else
    std::erase(open_scopes().communicators, &communicator_);
}

namespace {

// A group's ranks by their numbers in the job.
void number_in_job(const std::vector<int>& members, RankDoing& doing) {
  doing.rank = runtime::in_numbers_of(members, doing.rank);
  for (WaitDoing& wait : doing.waits) wait.peer = runtime::in_numbers_of(members, wait.peer);
}

}  // namespace

std::vector<RankDoing> ranks_doing() {
  std::vector<RankDoing> all;
  const std::lock_guard lock(open_scopes().mutex);
  for (const runtime::Communicator* communicator : open_scopes().communicators) {
    const runtime::Activity activity = communicator->activity();
    RankDoing doing{.rank = communicator->rank(),
                    .calls = activity.calls,
                    .last = activity.last,
                    .busy = activity.busy,
                    .on_gpu = communicator->device() != nullptr};
    for (const auto& now : activity.waits) doing.waits.push_back(as_doing(now, now_ns()));
    if (activity.window) describe(*activity.window, now_ns(), doing.waits);
    std::ranges::stable_sort(doing.waits,
                             [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    number_in_job(communicator->members(), doing);
    all.push_back(std::move(doing));
  }
  return all;
}

}  // namespace collctl::cmd
