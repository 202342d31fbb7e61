// The errors of failed connections: who was reached, who never answered.
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/auth.h"
#include "base/peer_closed.h"
#include "base/wait.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace peer_closed_tests {

using namespace collctl;
using namespace collctl::base;

namespace {

Address loopback() {
  Address a;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&a.storage);
  v4->sin_family = AF_INET;
  v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.length = sizeof *v4;
  return a;
}

// Listens, and lets its queue fill up: the kernel then drops what knocks, as a firewall does.
struct Full {
  Full() {
    auto made = listen_tcp(loopback());
    REQUIRE(made.ok());
    listener = std::move(*made);
    REQUIRE(::listen(listener.get(), 0) == 0);
    at = *local_address(listener.get());
    for (int i = 0; i < 4; ++i)
      if (auto caller = connect_tcp(at, Deadline::after_ms(200), false))
        callers.push_back(std::move(*caller));
  }
  Fd listener;
  Address at;
  std::vector<Fd> callers;
};

}  // namespace

TEST_CASE("a lost connection without a reason is told from one with a reason") {
  for (const int failure : {ECONNRESET, EPIPE})
    CHECK(only_says_closed(connection_error("send", failure).within("rank 3")));
  CHECK(only_says_closed(connection_error("receive", ECONNRESET)));
  CHECK(only_says_closed(closed_by_peer()));
  CHECK_FALSE(only_says_closed(connection_error("receive", ETIMEDOUT)));
  CHECK_FALSE(only_says_closed(Error(ErrorCode::lost, "the queue pair ran out of retries")));
  Error late = connection_error("send", EPIPE);
  late.code = ErrorCode::deadline;
  CHECK_FALSE(only_says_closed(late));
}

TEST_CASE("who never answers is told from who refuses and who does not finish") {
  const Full full;
  const Secret secret{};
  const auto silent = auth_connect(full.at, secret, {}, Deadline::after_ms(300));
  REQUIRE_FALSE(silent.ok());
  CAPTURE(silent.error().chain());
  CHECK(never_answered(silent.error()));
  const auto again = connect_tcp(full.at, Deadline::after_ms(300), false);
  REQUIRE_FALSE(again.ok());
  CHECK(never_answered(again.error()));

  auto stopped = listen_tcp(loopback());  // as of a process that is stopped
  REQUIRE(stopped.ok());
  const auto unfinished =
      auth_connect(*local_address(stopped->get()), secret, {}, Deadline::after_ms(300));
  REQUIRE_FALSE(unfinished.ok());
  CHECK_FALSE(never_answered(unfinished.error()));

  const Address gone = *local_address(stopped->get());
  stopped->reset();
  const auto refused = auth_connect(gone, secret, {}, Deadline::after_ms(300));
  REQUIRE_FALSE(refused.ok());
  CHECK_FALSE(never_answered(refused.error()));

  for (const int number : {ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EINVAL, EPERM})
    CHECK(never_answered(connect_error(gone, number)));
  CHECK_FALSE(never_answered(connect_error(gone, ECONNREFUSED)));
  CHECK_FALSE(never_answered(connection_error("receive", ETIMEDOUT)));
}

TEST_CASE("a connection that did not come about names both ends") {
  const Error e = cannot_connect("rank 7 (host a)", "rank 8 (host b)", "b",
                                 Error(ErrorCode::deadline, "10.0.0.8:42: no connection"));
  CHECK(e.code == ErrorCode::deadline);
  CHECK(e.host == "b");
  CHECK(e.message ==
        "rank 7 (host a) cannot connect to rank 8 (host b): 10.0.0.8:42: no connection");
  CHECK(e.hint.find("collctl doctor") != std::string::npos);
  CHECK(says_cannot_connect(e));
  // Within a host no cable is at fault.
  const Error own = cannot_connect("rank 0 (host a)", "rank 1 (host a)", "a",
                                   connect_error(*parse_address("127.0.0.1:42"), ENETUNREACH));
  CHECK(own.hint.find("loopback") != std::string::npos);
  CHECK_FALSE(says_cannot_connect(Error(ErrorCode::deadline, "rank 0 waits for rank 15")));
}

TEST_CASE("a connection over which nothing passes any more names both ends") {
  const Error e = cannot_reach("rank 7 (host a)", "rank 8 (host b)", 3.14);
  CHECK(e.code == ErrorCode::deadline);
  CHECK(e.message ==
        "rank 7 (host a) cannot reach rank 8 (host b): it has acknowledged nothing for 3.1 s");
  CHECK(e.hint.find("collctl doctor") != std::string::npos);
  CHECK(says_cannot_reach(e));
  CHECK_FALSE(says_cannot_connect(e));
  CHECK(says_broken_way(e));
  CHECK_FALSE(says_broken_way(Error(ErrorCode::deadline, "rank 0 waits for rank 15")));
}

// As the kernel counts: waits of 204 ms and twice as long each time.
TEST_CASE("for how long nothing was acknowledged is the sum of all waits") {
  tcp_info sent_again{};
  sent_again.tcpi_unacked = 1;
  sent_again.tcpi_retransmits = sent_again.tcpi_backoff = 4;
  sent_again.tcpi_rto = 204'000 << 4;
  sent_again.tcpi_last_data_sent = 40;
  sent_again.tcpi_last_ack_recv = 60'000;
  CHECK_THAT(unacknowledged_s(sent_again), Catch::Matchers::WithinAbs(3.1, 0.02));
  sent_again.tcpi_last_ack_recv = 2500;  // as when an answer came in between
  CHECK_THAT(unacknowledged_s(sent_again), Catch::Matchers::WithinAbs(2.5, 1e-6));
  sent_again.tcpi_retransmits = 1;
  CHECK(unacknowledged_s(sent_again) == 0);

  tcp_info probing{};  // no route: nothing was ever sent, and tcpi_rto stays what it was
  probing.tcpi_probes = probing.tcpi_backoff = 4;
  probing.tcpi_rto = 204'000;
  probing.tcpi_last_data_sent = 40;
  probing.tcpi_last_ack_recv = 60'000;
  CHECK_THAT(unacknowledged_s(probing), Catch::Matchers::WithinAbs(3.1, 0.02));
  probing.tcpi_probes = probing.tcpi_backoff = 2;
  CHECK(unacknowledged_s(probing) == 0);  // 0.65 s

  tcp_info slow{};  // a way whose answers take long
  slow.tcpi_probes = slow.tcpi_backoff = 1;
  slow.tcpi_rto = 1'500'000;
  slow.tcpi_last_ack_recv = 60'000;
  slow.tcpi_last_data_sent = 900;
  CHECK(unacknowledged_s(slow) == 0);
  slow.tcpi_last_data_sent = 2100;
  CHECK_THAT(unacknowledged_s(slow), Catch::Matchers::WithinAbs(3.6, 1e-6));
  slow.tcpi_last_ack_recv = 2104;  // it was answered
  CHECK(unacknowledged_s(slow) == 0);
}

namespace {

// A connection inside this process; `from` is the end that sends.
struct OwnConnection {
  OwnConnection() {
    auto listener = listen_tcp(loopback());
    if (!listener) return;
    auto made = connect_tcp(*local_address(listener->get()), Deadline::after_seconds(10), false);
    if (!made) return;
    from = std::move(*made);
    pollfd ready{listener->get(), POLLIN, 0};
    if (poll_fds({&ready, 1}, Deadline::after_seconds(10)))
      to = Fd(::accept(listener->get(), nullptr, nullptr));
  }
  void fill() const {
    const std::vector<char> much(1 << 16);
    while (::send(from.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
  }
  Fd from, to;
};

// A network of the calling thread's own, of nothing but lo, which begins up.
class OwnNetwork {
 public:
  OwnNetwork() : alone_(::unshare(CLONE_NEWNET) == 0) { set(true); }
  bool alone() const { return alone_; }  // and every step was taken
  void set(bool up) {
    if (!alone_) return;
    const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq lo{};
    std::memcpy(lo.ifr_name, "lo", 3);
    lo.ifr_flags = up ? IFF_UP : 0;
    alone_ = ::ioctl(any.get(), SIOCSIFFLAGS, &lo) == 0;
  }

 private:
  bool alone_;
};

double overdue_within(int fd, double seconds) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (unacknowledged_s(fd) == 0 && !deadline.passed()) sleep_until(Deadline::after_ms(50));
  return unacknowledged_s(fd);
}

}  // namespace

TEST_CASE("who only does not read has acknowledged what there was room for") {
  const OwnConnection slow;
  REQUIRE(bool(slow.to));
  slow.fill();
  CHECK(overdue_within(slow.from.get(), 2.5) == 0);
}

TEST_CASE("what is sent over a way that has gone is overdue after a second",
          "[overdue][may_skip]") {
  bool alone = false, connected = false;
  double before = -1, after = -1, took = 0;
  std::thread([&] {
    OwnNetwork network;
    alone = network.alone();
    if (!alone) return;
    const OwnConnection cut;
    connected = bool(cut.to);
    if (!connected) return;
    // time is what is tested: a way that was silent for long, which says nothing
    sleep_until(Deadline::after_ms(3000));
    before = unacknowledged_s(cut.from.get());
    network.set(false);
    alone = network.alone();
    const int64_t sent = machine_ns();  // the kernel's clock
    cut.fill();
    after = overdue_within(cut.from.get(), 10);
    took = double(machine_ns() - sent) * 1e-9;
  }).join();
  if (!alone) return collctl::test::skip("this machine allows no network of one's own");
  REQUIRE(connected);
  CHECK(before == 0);
  CHECK(after >= 1);
  CHECK(took >= 0.9);
  CHECK(after <= took + 0.3);  // not for as long as it was silent
}

TEST_CASE("what is sent over a way that has gone is overdue where the other end has closed, too",
          "[overdue][may_skip]") {
  bool alone = false, connected = false, closed = false;
  double at_once = -1, after = -1, taken = -1;
  std::thread([&] {
    OwnNetwork network;
    alone = network.alone();
    if (!alone) return;
    const OwnConnection cut;
    OwnConnection whole;
    connected = bool(cut.to) && bool(whole.to);
    if (!connected) return;
    whole.to.reset();
    whole.fill();
    taken = unacknowledged_s(whole.from.get());
    network.set(false);
    cut.fill();
    // It was sent again twice, 0.6 s after it was sent first: the next time is 0.8 s away.
    tcp_info info{};
    socklen_t size = sizeof info;
    const Deadline deadline = Deadline::after_seconds(20);
    do sleep_until(Deadline::after_ms(5));
    while (::getsockopt(cut.from.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_backoff < 2 && !deadline.passed());
    network.set(true);
    ::shutdown(cut.to.get(), SHUT_WR);
    network.set(false);
    alone = network.alone();
    ::getsockopt(cut.from.get(), IPPROTO_TCP, TCP_INFO, &info, &size);
    closed = info.tcpi_state == TCP_CLOSE_WAIT;
    at_once = unacknowledged_s(info);
    after = unacknowledged_s(cut.from.get());
  }).join();
  if (!alone) return collctl::test::skip("this machine allows no network of one's own");
  REQUIRE(connected);
  CHECK(taken == 0);  // refused
  CHECK(closed);
  CHECK(at_once == 0);
  CHECK(after >= 0.6);
}

TEST_CASE("attempts to connect end a little before what they are part of") {
  for (const double seconds : {0.1, 1.0, 10.0, 60.0}) {
    const Deadline whole = Deadline::after_seconds(seconds);
    const double before = double(whole.at() - connect_deadline(whole).at()) / 1e9;
    CAPTURE(seconds, before);
    CHECK(before > 0);
    CHECK(before <= std::min(seconds / 8, 1.5));
  }
  const Deadline passed = Deadline::after_seconds(-1);
  CHECK(connect_deadline(passed).at() == passed.at());
}

}  // namespace peer_closed_tests
