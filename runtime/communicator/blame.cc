#include "runtime/communicator/blame.h"

#include <algorithm>

#include "base/format.h"
#include "base/peer_closed.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kWaitingTag = 0x57414954;
constexpr size_t kMostCallBytes = 4096;

// Deadlines of ranks that wait for each other lie closer: one that comes later than the whole of a
// deadline has itself to blame. Bounded both ways, for deadlines of seconds and of hours: a hang is
// to be told within three seconds of its deadline.
int64_t window_ms(double op_timeout_s) {
  return int64_t(1000 * std::clamp(op_timeout_s, 0.5, 1.5));
}

}  // namespace

Blame::Waiting Blame::waiting(bool all_wait) const {
  Waiting w;
  for (const LinkInfo& link : o_.wire->infos()) {
    if (link.from != link.to) w.peers.insert(link.from == o_.rank ? link.to : link.from);
    w.on_network |= link.from == link.to;
  }
  if (all_wait || o_.wire->has_reducers())
    for (int other = 0; other < int(o_.peers.size()); ++other)
      if (other != o_.rank) w.peers.insert(other);
  return w;
}

// `answer`: whom the peer waits for, and its calls. Calls that differ from this rank's are the
// error.
bool Blame::called_otherwise(Error& mine, int peer, ByteView answer) const {
  ByteReader r(answer);
  (void)r.get<int32_t>();
  auto different = o_.calls->difference(o_.rank, peer, r.get_bytes(kMostCallBytes));
  if (!different) return false;
  mine = std::move(*different);
  mine.host = o_.peers[size_t(peer)].host;
  return true;
}

// A head waits for its network, so it cannot name a rank: blames a rank that does not wait. Where
// all wait, the network is the cause.
void Blame::find_silent(Error& mine) const {
  const Deadline told = Deadline::after_ms(window_ms(o_.op_timeout_s));
  int silent = -1;
  for (int other = 0; other < int(o_.peers.size()); ++other) {
    if (other == o_.rank) continue;
    const auto answer = o_.bootstrap->recv(other, kWaitingTag, told);
    if (!answer) o_.errors->wait_for_reason(answer.error());
    if (o_.errors->failed()) return;
    if (!answer) {
      silent = silent < 0 ? other : silent;
      continue;
    }
    if (called_otherwise(mine, other, *answer)) return;
  }
  if (silent < 0) return;
  mine.message +=
      format("; rank {} (host {}) has not entered it", silent, o_.peers[size_t(silent)].host);
  mine.rank = silent;
  mine.host = o_.peers[size_t(silent)].host;
}

std::optional<Error> Blame::cannot_reach() const {
  const std::unique_lock lock(*o_.bootstrap_mutex, std::try_to_lock);
  return lock ? unreached() : std::nullopt;
}

std::optional<Error> Blame::unreached() const {
  const auto far = o_.wire->unreached();
  if (!far) return o_.bootstrap->cannot_reach();
  const auto name = [&](int rank) {
    return format("rank {} (host {})", rank, o_.peers[size_t(rank)].host);
  };
  Error e = base::cannot_reach(name(o_.rank), name(far->peer), far->seconds);
  e.rank = far->peer;
  e.host = o_.peers[size_t(far->peer)].host;
  return e;
}

void Blame::find(Error& mine, bool all_wait) const {
  const std::unique_lock lock(*o_.bootstrap_mutex, std::try_to_lock);
  if (!lock || mine.rank < 0 || mine.rank >= int(o_.peers.size())) return;
  // An unreachable peer is the cause, whichever rank is waited for.
  if (auto why = unreached()) {
    why->message += "; " + mine.message;
    mine = std::move(*why);
    return;
  }
  const int64_t span = window_ms(o_.op_timeout_s);
  if (const auto behind = o_.wire->behind_relay(mine.rank, Deadline::after_ms(span / 2))) {
    mine.message += *behind == mine.rank
                        ? "; it is to send that for this rank (PXN), and does not answer"
                        : format(
                              "; it only sends that for this rank to rank {} (PXN), which takes "
                              "nothing",
                              *behind);
    mine.rank = *behind;
    mine.host = o_.peers[size_t(*behind)].host;
  }
  if (const std::string wire = o_.wire->condition(mine.rank); !wire.empty())
    mine.message += "; " + wire;
  const Waiting waits = waiting(all_wait);
  if (mine.rank == o_.rank && !waits.on_network) return;
  const Deadline told = Deadline::after_ms(span);
  const int32_t awaited = mine.rank;
  const Bytes message = ByteWriter().put(awaited).put_bytes(o_.calls->encode()).take();
  for (const int other : waits.peers) {
    // A rank that cannot be told is not one that would keep quiet for it.
    if (!o_.bootstrap->send(other, kWaitingTag, message, told)) break;
  }
  if (mine.rank == o_.rank) return find_silent(mine);
  const auto answer = o_.bootstrap->recv(awaited, kWaitingTag, Deadline::after_ms(span));
  if (!answer) return o_.errors->wait_for_reason(answer.error());
  if (called_otherwise(mine, awaited, *answer)) return;
  // Ended by the announcement; where ranks wait in a circle nobody makes one, and the time ends it.
  o_.errors->wait_for_notice(Deadline::after_ms(2 * span));
}

}  // namespace collctl::runtime
