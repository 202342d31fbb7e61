// Who is to blame for a deadline. When one rank stands still, all others run into their deadlines
// within moments of each other, and most of them wait for a rank that is itself waiting. So a rank
// whose deadline passed tells its neighbours that it waits, and looks whether the one it waits for
// says the same. If not, that one is the cause, and this rank announces it; if so, it leaves the
// announcement to whoever is nearer to the cause.
//
// Called by the thread whose submission failed, once in a communicator's life.
#include <set>

#include "base/wait.h"
#include "runtime/communicator_state.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kWaitingTag = 0x57414954;
constexpr int64_t kWindowMs = 500;  // deadlines of ranks that wait for each other lie closer

}  // namespace

void Communicator::State::leave_blame_to_the_nearest(const Error& mine) {
  // Another thread in a collective of the bootstrap: then without asking.
  const std::unique_lock lock(bootstrap_mutex, std::try_to_lock);
  if (!lock || mine.rank < 0 || mine.rank >= size || mine.rank == rank) return;
  std::set<int> neighbours;
  for (const LinkInfo& link : wire->infos())
    neighbours.insert(link.from == rank ? link.to : link.from);
  if (device_window != nullptr)  // there everybody waits for everybody
    for (int other = 0; other < size; ++other)
      if (other != rank) neighbours.insert(other);
  const Deadline told = Deadline::after_ms(kWindowMs);
  const int32_t awaited = mine.rank;
  for (const int other : neighbours) {
    // A rank that cannot be told is not one that would keep quiet for it.
    if (!bootstrap->send(other, kWaitingTag, ByteWriter().put(awaited).bytes(), told)) break;
  }
  const auto answer = bootstrap->recv(awaited, kWaitingTag, Deadline::after_ms(kWindowMs));
  if (!answer) return;
  // Ended by the announcement; where ranks wait in a circle nobody makes one, and the time ends it.
  const Deadline announced = Deadline::after_ms(2 * kWindowMs);
  while (!failed.load(std::memory_order_acquire) && !announced.passed())
    base::sleep_until(Deadline::after_ms(2));
}

}  // namespace collctl::runtime
