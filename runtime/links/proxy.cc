#include "runtime/links/proxy.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/bell.h"
#include "base/format.h"
#include "base/wait.h"
#include "runtime/links/proxy_state.h"

namespace collctl::runtime {

namespace {

using transport::Link;
using transport::Progress;

constexpr int64_t kAbortLookNs =
    50'000'000;                   // a sleeping block thread looks at its abort word so often
constexpr int kFinishTries = 20;  // while another thread is in the middle of driving, or links move

// This thread's last look at an engine's moves: it missed nothing while the count is the same.
struct Seen {
  const void* engine = nullptr;
  uint32_t moves = 0;
};
thread_local Seen t_seen;

// A host answers for all its addresses on every interface; this listener is to hear one alone.
Status accept_only_by(const base::AuthListener& listener, const std::string& interface) {
  if (interface.empty()) return {};
  std::vector<pollfd> fds;
  listener.add_interest(fds);  // nobody has connected yet: its own descriptor
  for (const pollfd& each : fds)
    // Kernels before 5.7 let only root do it; then the routes decide.
    if (setsockopt(each.fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                   socklen_t(interface.size() + 1)) != 0 &&
        errno != EPERM)
      return base::errno_error(ErrorCode::unavailable, "listen by " + interface, errno);
  return {};
}

}  // namespace

ProxyEngine::ProxyEngine() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<ProxyEngine>> ProxyEngine::start(Options options) {
  std::unique_ptr<ProxyEngine> engine(new ProxyEngine());
  State& s = *engine->state_;
  s.options = std::move(options);
  COLL_ASSIGN(s.bell, base::make_bell());
  COLL_ASSIGN(s.control, base::make_bell());
  std::vector<Address> places = s.options.also_listen_at;
  if (s.options.listen_at.family() != 0) places.insert(places.begin(), s.options.listen_at);
  for (const Address& at : places) {
    COLL_ASSIGN(auto listener, base::AuthListener::listen(at, s.options.secret));
    COLL_TRY(accept_only_by(*listener, s.options.interface));
    s.listeners.push_back(std::move(listener));
  }
  return engine;
}

ProxyEngine::~ProxyEngine() {
  state_->end_thread();
}

Address ProxyEngine::address() const {
  return state_->listeners.empty() ? Address{} : state_->listeners[0]->address();
}

std::vector<Address> ProxyEngine::addresses() const {
  std::vector<Address> all;
  for (const auto& listener : state_->listeners) all.push_back(listener->address());
  return all;
}

void ProxyEngine::add(Link* link, Link* sends) {
  if (!link->needs_progress()) return;
  State& s = *state_;
  {
    const std::scoped_lock lock(s.driver);
    if (sends != nullptr) link->join(*sends);
    link->attach_bell(s.bell.get());
    s.links.push_back({link});
    s.link_count.store(int(s.links.size()), std::memory_order_release);
  }
  s.ensure_thread();
  base::ring_bell(s.control.get());  // its poll set has changed
}

void ProxyEngine::remove(Link* link) {
  State& s = *state_;
  {
    const std::scoped_lock lock(s.driver);
    std::erase_if(s.links, [&](const State::Driven& driven) { return driven.link == link; });
    s.link_count.store(int(s.links.size()), std::memory_order_release);
  }
  base::ring_bell(s.control.get());
}

// --- driving; the caller holds `driver` ---

template <class Move>
bool ProxyEngine::State::move_all(Move move) {
  bool moved = false;
  for (Driven& driven : links) {
    if (driven.failed) continue;
    Result<Progress> result = move(*driven.link);
    if (result) {
      moved |= *result == Progress::moved;
      continue;
    }
    driven.failed = true;
    // After the last barrier every rank closes when it likes.
    if (!closing.load(std::memory_order_acquire) && options.on_error)
      options.on_error(result.error());
  }
  return moved;
}

bool ProxyEngine::State::progress_all(const kernels::Fifo* awaited) {
  return move_all([awaited](Link& link) { return link.progress(awaited); });
}

bool ProxyEngine::State::arm_all() {
  armed = true;
  bool quiet = true;
  for (Driven& driven : links)
    if (!driven.failed) quiet &= driven.link->arm();
  return quiet;
}

void ProxyEngine::State::disarm_all() {
  if (!armed) return;
  armed = false;
  for (Driven& driven : links)
    if (!driven.failed) driven.link->disarm();
}

bool ProxyEngine::State::drained() const {
  return std::all_of(links.begin(), links.end(),
                     [](const Driven& driven) { return driven.failed || driven.link->drained(); });
}

// A block thread drives now: the engine's thread leaves the descriptors to it.
void ProxyEngine::State::take_over() {
  assisted_ns.store(now_ns(), std::memory_order_release);
  disarm_all();
  if (thread_in_poll.load(std::memory_order_acquire) &&
      thread_in_poll.exchange(false, std::memory_order_acq_rel))
    base::ring_bell(control.get());
}

// --- what block threads miss while another one drives ---

uint32_t ProxyEngine::State::moves_now() const {
  return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(moves)).load(std::memory_order_acquire);
}

void ProxyEngine::State::note_moves() {
  t_seen = {this, moves_now()};
}

bool ProxyEngine::State::missed_moves() const {
  return t_seen.engine != this || t_seen.moves != moves_now();
}

void ProxyEngine::State::announce_moves() {
  std::atomic_ref<uint32_t>(moves).fetch_add(1, std::memory_order_seq_cst);
  // Pairs with the sleeper's increment: it sees the new count, or this sees it.
  if (std::atomic_ref<uint32_t>(sleepers).load(std::memory_order_seq_cst) != 0)
    base::futex_wake(&moves, 1 << 30);
}

// --- block threads ---

bool ProxyEngine::assist(const kernels::Fifo* awaited) {
  State& s = *state_;
  if (s.link_count.load(std::memory_order_acquire) == 0) return false;
  s.note_moves();
  const std::unique_lock lock(s.driver, std::try_to_lock);
  if (!lock) {
    // The driving thread may wait for this very core.
    base::yield_thread();
    return false;
  }
  s.take_over();
  const bool moved = s.progress_all(awaited);
  if (moved) s.announce_moves();
  return moved;
}

void ProxyEngine::assist_sleep(int64_t until_ns) {
  State& s = *state_;
  if (s.missed_moves()) return s.note_moves();
  const Deadline until = Deadline::at_ns(until_ns).earlier(Deadline::after_ns(kAbortLookNs));
  std::unique_lock lock(s.driver, std::try_to_lock);
  if (!lock) {
    // The driving thread announces what it moves, and once more when it stops. It may have stopped
    // by now: hence the count, which the futex compares.
    std::atomic_ref<uint32_t>(s.sleepers).fetch_add(1, std::memory_order_seq_cst);
    base::futex_wait(&s.moves, t_seen.moves, until);
    std::atomic_ref<uint32_t>(s.sleepers).fetch_sub(1, std::memory_order_relaxed);
    return s.note_moves();
  }
  s.take_over();
  if (!s.progress_all()) s.sleep_as_driver(until);
  lock.unlock();
  s.announce_moves();
  s.note_moves();
}

void ProxyEngine::State::sleep_as_driver(Deadline until) {
  if (arm_all()) {
    fds.assign(1, {bell.get(), POLLIN, 0});
    for (Driven& driven : links)
      if (!driven.failed) driven.link->add_interest(fds);
    block_sleeps.store(true, std::memory_order_release);
    wait_on(fds, until);
    block_sleeps.store(false, std::memory_order_release);
    base::drain_bell(bell.get());
  }
  disarm_all();
  progress_all();
  assisted_ns.store(now_ns(), std::memory_order_release);
}

void ProxyEngine::State::wait_on(std::vector<pollfd>& on, Deadline until) {
  Result<int> ready = base::poll_fds(on, until);
  if (ready) return;
  if (options.on_error) options.on_error(ready.error());
  base::sleep_until(until.earlier(Deadline::after_ms(10)));
}

void ProxyEngine::hand_back() {
  State& s = *state_;
  if (s.link_count.load(std::memory_order_acquire) == 0) return;
  assist();
  s.assisted_ns.store(0, std::memory_order_release);
  if (!s.thread_in_poll.load(std::memory_order_acquire)) base::ring_bell(s.control.get());
}

void ProxyEngine::finish_operation() {
  State& s = *state_;
  if (s.link_count.load(std::memory_order_acquire) == 0) return;
  bool left = true;
  for (int i = 0; left && i < kFinishTries; ++i) {
    const std::unique_lock lock(s.driver, std::try_to_lock);
    if (lock) {
      s.take_over();
      const bool moved = s.move_all([](Link& link) { return link.flush(); });
      if (moved) s.announce_moves();
      left = !s.drained();
      if (!moved) break;  // else a send may have got its credit just now
      continue;
    }
    // A block thread that sleeps on the links has armed the bell before what was published last.
    if (s.block_sleeps.load(std::memory_order_acquire)) return;
    base::yield_thread();
  }
  if (!left) return;
  s.assisted_ns.store(0, std::memory_order_release);
  base::ring_bell(s.control.get());
}

void ProxyEngine::take_back() {
  State& s = *state_;
  const std::scoped_lock lock(s.driver);
  for (State::Driven& driven : s.links) driven.link->take_back();
}

void ProxyEngine::busy(bool begins) {
  State& s = *state_;
  const int before = s.operations.fetch_add(begins ? 1 : -1, std::memory_order_acq_rel);
  // The thread sleeps, or is to look once more at what the operation published last.
  if (before <= 1) base::ring_bell(s.control.get());
}

void ProxyEngine::run_on_node(int node) {
  state_->wanted_node.store(node, std::memory_order_release);
  base::ring_bell(state_->control.get());
}

bool ProxyEngine::assist_hook(void* engine, const kernels::Fifo* awaited) {
  return static_cast<ProxyEngine*>(engine)->assist(awaited);
}

void ProxyEngine::assist_sleep_hook(void* engine, int64_t until_ns) {
  auto* self = static_cast<ProxyEngine*>(engine);
  if (until_ns == 0) return self->hand_back();
  self->assist_sleep(until_ns);
}

void ProxyEngine::take_back_hook(void* engine) {
  static_cast<ProxyEngine*>(engine)->take_back();
}

// --- the end ---

Status ProxyEngine::flush(Deadline deadline) {
  Status flushed = state_->drain(deadline);
  base::ring_bell(state_->control.get());  // the thread waits for the links again
  return flushed;
}

void ProxyEngine::expect_close() {
  state_->closing.store(true, std::memory_order_release);
}

Status ProxyEngine::stop(Deadline deadline) {
  State& s = *state_;
  s.closing.store(true, std::memory_order_release);
  Status drained = s.drain(deadline);
  if (drained) {
    {
      const std::scoped_lock lock(s.driver);
      for (State::Driven& driven : s.links)
        if (!driven.failed) driven.link->say_goodbye();
    }
    drained = s.drain(deadline);
  }
  s.end_thread();
  const std::scoped_lock lock(s.driver);
  s.disarm_all();
  s.links.clear();
  s.link_count.store(0, std::memory_order_release);
  return drained;
}

Status ProxyEngine::State::drain(Deadline deadline) {
  while (true) {
    {
      const std::scoped_lock lock(driver);
      disarm_all();
      progress_all();
      if (drained()) return {};
    }
    uint32_t* const aborted = options.abort_word;
    if (!closing && aborted != nullptr && std::atomic_ref<uint32_t>(*aborted).load() != 0)
      return {};
    if (deadline.passed())
      return Error(ErrorCode::deadline,
                   "network links still have data that the peers do not accept");
    base::sleep_until(Deadline::after_ns(200'000));
  }
}

}  // namespace collctl::runtime
