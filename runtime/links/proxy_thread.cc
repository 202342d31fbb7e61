// The proxy engine's thread, and the listener it serves.
#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/log.h"
#include "base/numa.h"
#include "base/wait.h"
#include "runtime/links/proxy_state.h"
#include "transport/net/greeting.h"

namespace collctl::runtime {

namespace {

constexpr double kIdleSeconds = 10;       // how long the thread sleeps when nothing rings
constexpr double kHandshakeLook = 0.5;    // the same while strangers are proving themselves
constexpr int64_t kBlockNs = 20'000'000;  // the same while a block thread sleeps as the driver
constexpr int64_t kBusyNs = 1'000'000;    // the same while another thread holds the links
// While GPUs work: how long the thread only yields after something moved. From then on it sleeps an
// eighth of the time that nothing has moved: short against a slot on its way through sockets, and
// an operation that waits for a late rank leaves the core to others.
constexpr int64_t kYieldNs = 100'000, kLongestSleepNs = 100'000;
constexpr int64_t kListenersNs = 200'000;  // while GPUs work: who connects waits so long at most
constexpr int64_t kAbortLookMs = 50;       // how late a wait for a connection sees an abort

}  // namespace

void ProxyEngine::State::ensure_thread() {
  const std::scoped_lock lock(start_mutex);
  if (!thread.joinable()) thread = std::thread([this] { thread_main(); });
}

void ProxyEngine::State::end_thread() {
  const std::scoped_lock lock(start_mutex);
  stopping.store(true, std::memory_order_release);
  base::ring_bell(control.get());
  if (thread.joinable()) thread.join();
}

void ProxyEngine::State::thread_main() {
  while (!stopping.load(std::memory_order_acquire)) {
    if (const int node = wanted_node.exchange(-1, std::memory_order_acq_rel); node >= 0)
      base::run_on_node(node);
    const bool assisted =
        now_ns() < assisted_ns.load(std::memory_order_acquire) + ProxyEngine::kHandsOffNs;
    const bool busy = operations.load(std::memory_order_acquire) > 0;
    if (!busy) moved_ns = 0;
    if (link_count.load(std::memory_order_acquire) == 0 || assisted ||
        block_sleeps.load(std::memory_order_acquire))
      keep_off();
    else if (!busy)
      drive();
    else if (drive_busily() || now_ns() < listened_ns + kListenersNs)
      continue;  // to look for callers costs a system call
    listened_ns = now_ns();
    handle_listeners();
  }
}

// Block threads drive, or there is nothing to drive: only the listener and the control bell matter.
void ProxyEngine::State::keep_off() {
  std::vector<pollfd> on{{control.get(), POLLIN, 0}};
  add_listeners(on);
  Deadline until =
      Deadline::after_seconds(on.size() > 1 + listeners.size() ? kHandshakeLook : kIdleSeconds);
  if (block_sleeps.load(std::memory_order_acquire))
    until = until.earlier(Deadline::after_ns(kBlockNs));
  else if (link_count.load(std::memory_order_acquire) != 0)
    until = until.earlier(
        Deadline::at_ns(assisted_ns.load(std::memory_order_acquire) + ProxyEngine::kHandsOffNs));
  wait_on(on, until);
  base::drain_bell(control.get());
}

// Moves the links, or sleeps on them when there is nothing to move: until a descriptor is ready, a
// bell rings, or a block thread takes over (control).
void ProxyEngine::State::drive() {
  std::vector<pollfd> on{{control.get(), POLLIN, 0}, {bell.get(), POLLIN, 0}};
  add_listeners(on);
  Deadline until =
      Deadline::after_seconds(on.size() > 2 + listeners.size() ? kHandshakeLook : kIdleSeconds);
  {
    std::unique_lock lock(driver, std::try_to_lock);
    if (!lock) {
      on.erase(on.begin() + 1);
      wait_on(on, Deadline::after_ns(kBusyNs));
      base::drain_bell(control.get());
      return;
    }
    disarm_all();
    if (progress_all()) {
      lock.unlock();
      announce_moves();
      return;
    }
    if (!arm_all()) return;
    for (Driven& driven : links)
      if (!driven.failed) driven.link->add_interest(on);
    thread_in_poll.store(true, std::memory_order_release);
  }
  wait_on(on, until);
  thread_in_poll.store(false, std::memory_order_release);
  base::drain_bell(control.get());
  base::drain_bell(bell.get());
}

// One look while a GPU works: it publishes without ringing a bell. True when something moved.
bool ProxyEngine::State::drive_busily() {
  bool moved = false;
  {
    const std::scoped_lock lock(driver);
    disarm_all();
    moved = progress_all();
  }
  const int64_t now = now_ns();
  if (moved || moved_ns == 0) moved_ns = now;  // 0: an operation begins
  if (moved) {
    announce_moves();
  } else if (now < moved_ns + kYieldNs) {
    base::yield_thread();
  } else {
    base::sleep_until(Deadline::at_ns(now + std::min((now - moved_ns) / 8, kLongestSleepNs)));
  }
  return moved;
}

void ProxyEngine::State::handle_listeners() {
  for (auto& listener : listeners) {
    listener->handle();
    while (auto connection = listener->next()) deliver(std::move(*connection));
  }
}

void ProxyEngine::State::add_listeners(std::vector<pollfd>& on) const {
  for (const auto& listener : listeners) listener->add_interest(on);
}

void ProxyEngine::State::deliver(base::Accepted connection) {
  transport::NetGreeting greeting{};
  if (!transport::decode(connection.greeting, greeting)) {
    COLL_WARN("NET/Socket : a connection from {} with a malformed greeting, dropped",
              connection.from.text());
    return;
  }
  const std::scoped_lock lock(acceptor);
  if (expected.erase(greeting.key) == 0) {
    COLL_WARN("NET/Socket : an unexpected connection of rank {} from {}, dropped", greeting.from,
              connection.from.text());
    return;
  }
  connections[greeting.key] = std::move(connection);
  accepted.notify_all();
}

void ProxyEngine::expect(uint64_t key) {
  State& s = *state_;
  {
    const std::scoped_lock lock(s.acceptor);
    s.expected.insert(key);
  }
  s.ensure_thread();
}

Result<Fd> ProxyEngine::take(uint64_t key, Deadline deadline, base::Session* session) {
  State& s = *state_;
  std::unique_lock lock(s.acceptor);
  while (true) {
    const Deadline look = deadline.earlier(Deadline::after_ms(kAbortLookMs));
    const bool here =
        base::wait_for(s.accepted, lock, look, [&] { return s.connections.contains(key); });
    if (here) {
      base::Accepted connection = std::move(s.connections.extract(key).mapped());
      if (session != nullptr) *session = connection.session;
      return std::move(connection.fd);
    }
    uint32_t* abort_word = s.options.abort_word;
    if (abort_word != nullptr &&
        std::atomic_ref<uint32_t>(*abort_word).load(std::memory_order_acquire) != 0)
      return Error(ErrorCode::lost, "stopped because the communicator was aborted");
    if (!deadline.passed()) continue;
    std::string where;
    for (const Address& at : addresses()) where += (where.empty() ? "" : " or ") + at.text();
    return Error(ErrorCode::deadline,
                 format("no connection arrived at {} before the deadline", where),
                 "check that the hosts reach each other on this network (COLLCTL_SOCKET_IFNAME)");
  }
}

}  // namespace collctl::runtime
