// Who is to blame for a deadline. When one rank stands still, all others run into their deadlines
// within moments of each other, and most of them wait for a rank that is itself waiting. So a rank
// whose deadline passed tells its neighbours that it waits, and looks whether the one it waits for
// says the same. If not, that one is the cause, and this rank announces it; if so, it leaves the
// announcement to whoever is nearer to the cause. Ranks that wait for each other may have called
// different operations: each tells what it called, and that is then the error. Heads of a network
// that reduces wait for it and not for a rank: there all ranks tell all others, and who does not is
// the cause.
//
// Called by the thread whose submission failed, once in a communicator's life.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/wait.h"
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kWaitingTag = 0x57414954;
constexpr size_t kMostCallBytes = 4096;
constexpr int64_t kHeedMs = 1000;

// Deadlines of ranks that wait for each other lie closer: one that comes later than the whole of a
// deadline has itself to blame. Bounded both ways, for deadlines of seconds and of hours.
int64_t window_ms(double op_timeout_s) {
  return int64_t(1000 * std::clamp(op_timeout_s, 0.5, 3.0));
}

}  // namespace

// Ended by anybody's announcement, or by the time.
void Communicator::State::wait_until_told(Deadline deadline) const {
  while (!failed.load(std::memory_order_acquire) && !deadline.passed())
    base::sleep_until(Deadline::after_ms(2));
}

// An exchange that an abort ended has told why before it returned. One whose peer has gone may be
// ahead of the notice that says why: that one is then the error.
void Communicator::State::heed_abort(const Error& ended) const {
  if (ended.code != ErrorCode::deadline) wait_until_told(Deadline::after_ms(kHeedMs));
}

// A peer that has gone with what it offered has said why before.
Status Communicator::State::heeded(Status status) const {
  if (status || status.error().code != ErrorCode::lost || status.error().rank < 0 ||
      status.error().rank == rank)
    return status;
  heed_abort(status.error());
  Status known = error();
  return known ? std::move(status) : std::move(known);
}

// Of a head that waits for its network, and so for it knows not whom: a rank that does not wait.
// Where all do, it is the network.
void Communicator::State::blame_the_silent(Error& mine) {
  const Deadline told = Deadline::after_ms(window_ms(settings.op_timeout_s));
  int silent = -1;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const auto answer = bootstrap->recv(other, kWaitingTag, told);
    if (!answer) heed_abort(answer.error());
    if (failed.load(std::memory_order_acquire)) return;
    if (!answer) {
      silent = silent < 0 ? other : silent;
      continue;
    }
    ByteReader r(*answer);
    (void)r.get<int32_t>();  // whom it waits for
    if (auto different = calls.difference(rank, other, r.get_bytes(kMostCallBytes))) {
      mine = std::move(*different);
      mine.host = peers[size_t(other)].host;
      return;
    }
  }
  if (silent < 0) return;
  mine.message +=
      format("; rank {} (host {}) has not entered it", silent, peers[size_t(silent)].host);
  mine.rank = silent;
  mine.host = peers[size_t(silent)].host;
}

void Communicator::State::leave_blame_to_the_nearest(Error& mine) {
  // Another thread in a collective of the bootstrap: then without asking.
  const std::unique_lock lock(bootstrap_mutex, std::try_to_lock);
  if (!lock || mine.rank < 0 || mine.rank >= size) return;
  const int64_t span = window_ms(settings.op_timeout_s);
  std::set<int> neighbours;
  bool reduces = false;  // has a link into a network that does
  for (const LinkInfo& link : wire->infos()) {
    if (link.from != link.to) neighbours.insert(link.from == rank ? link.to : link.from);
    reduces |= link.from == link.to;
  }
  if (mine.rank == rank && !reduces) return;
  // There everybody waits for everybody.
  if (device_window != nullptr || wire->has_reducers())
    for (int other = 0; other < size; ++other)
      if (other != rank) neighbours.insert(other);
  const Deadline told = Deadline::after_ms(span);
  const int32_t awaited = mine.rank;
  const Bytes message = ByteWriter().put(awaited).put_bytes(calls.encode()).take();
  for (const int other : neighbours) {
    // A rank that cannot be told is not one that would keep quiet for it.
    if (!bootstrap->send(other, kWaitingTag, message, told)) break;
  }
  if (mine.rank == rank) return blame_the_silent(mine);
  const auto answer = bootstrap->recv(awaited, kWaitingTag, Deadline::after_ms(span));
  if (!answer) return heed_abort(answer.error());
  ByteReader r(*answer);
  (void)r.get<int32_t>();  // whom it waits for
  if (auto different = calls.difference(rank, awaited, r.get_bytes(kMostCallBytes))) {
    mine = std::move(*different);
    mine.host = peers[size_t(awaited)].host;
    return;
  }
  // Ended by the announcement; where ranks wait in a circle nobody makes one, and the time ends it.
  wait_until_told(Deadline::after_ms(2 * span));
}

}  // namespace collctl::runtime
