#include "base/auth.h"

#include <atomic>
#include <thread>

#include "base/format.h"
#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/own_loopback.h"
#include "tests/unit/runtime/few_files.h"

namespace auth_tests {

using namespace collctl;
using base::AuthListener;
using base::Secret;

namespace {

ByteView view(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Secret secret_of(uint8_t fill) {
  Secret s;
  s.bytes.fill(fill);
  return s;
}

Address loopback(bool v6 = false) {
  auto a = base::parse_address(v6 ? "[::1]:0" : "127.0.0.1:0");
  REQUIRE(a.ok());
  return *a;
}

Deadline soon() {
  return Deadline::after_seconds(60);
}

// This process may have so many descriptors, until the end of this.
class MostFiles {
 public:
  explicit MostFiles(rlim_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit lowered{.rlim_cur = most, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lowered) == 0);
  }
  MostFiles(const MostFiles&) = delete;
  MostFiles& operator=(const MostFiles&) = delete;
  ~MostFiles() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Serves a listener in a thread until it is destroyed; counts who came in.
class Server {
 public:
  explicit Server(const Secret& secret, bool v6 = false) {
    auto made = AuthListener::listen(loopback(v6), secret);
    REQUIRE(made.ok());
    listener_ = std::move(*made);
    address_ = listener_->address();
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const Address& address() const { return address_; }
  std::vector<base::Accepted> accepted;  // after stop()
  uint64_t dropped() const { return listener_->dropped(); }
  std::atomic<int> count{0};

 private:
  void serve() {
    while (!stop_) {
      std::vector<pollfd> fds;
      listener_->add_interest(fds);
      if (!base::poll_fds(fds, Deadline::after_ms(20))) return;
      listener_->handle();
      while (auto a = listener_->next()) {
        accepted.push_back(std::move(*a));
        ++count;
      }
    }
  }
  std::unique_ptr<AuthListener> listener_;
  Address address_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void wait_for_count(const Server& server, int count) {
  const Deadline limit = soon();
  while (server.count < count && !limit.passed()) base::sleep_until(Deadline::after_ms(1));
  REQUIRE(server.count >= count);
}

}  // namespace

TEST_CASE("HMAC-SHA256 separates its parts", "[auth]") {
  const Secret s = secret_of(7);
  const auto a = base::hmac_sha256(s, {view("ab"), view("c")});
  CHECK(a == base::hmac_sha256(s, {view("ab"), view("c")}));
  CHECK(a != base::hmac_sha256(s, {view("a"), view("bc")}));
  CHECK(a != base::hmac_sha256(s, {view("ab"), view("c"), view("")}));
  CHECK(a != base::hmac_sha256(secret_of(8), {view("ab"), view("c")}));
}

TEST_CASE("HMAC-SHA256 agrees with an independent computation", "[auth]") {
  // Python: hmac.new(bytes([7])*16, b"\x03\0\0\0abc", "sha256")
  const auto a = base::hmac_sha256(secret_of(7), {view("abc")});
  std::string hex;
  for (const uint8_t b : a) hex += format("{:02x}", b);
  CHECK(hex == "1fc54eb3f3c2c0e23c7e9bd7d991d3daa9c1be10360ec31b89a50b0479cedb40");
}

TEST_CASE("constant-time comparison compares", "[auth]") {
  CHECK(base::equal_constant_time(view("same"), view("same")));
  CHECK_FALSE(base::equal_constant_time(view("same"), view("samE")));
  CHECK_FALSE(base::equal_constant_time(view("same"), view("sam")));
}

TEST_CASE("secrets are random or derived from a token", "[auth]") {
  CHECK(base::random_secret()->bytes != base::random_secret()->bytes);
  const auto of = [](const char* token) {
    const auto secret = base::secret_from_token(token);
    REQUIRE(secret.ok());
    return secret->bytes;
  };
  CHECK(of("a") != of("b"));
  // Slow on purpose, and the same everywhere: scrypt, N = 32768, r = 8, p = 1.
  const std::array<uint8_t, 16> known{0xee, 0xc5, 0x60, 0x49, 0x44, 0x8b, 0x93, 0x9f,
                                      0x6b, 0x7d, 0xee, 0xb0, 0x47, 0x99, 0x4e, 0x3c};
  CHECK(of("correct horse battery") == known);
  const int64_t start = base::machine_ns();
  (void)of("a");
  CHECK(base::machine_ns() - start > 5'000'000);
}

TEST_CASE("both sides prove themselves and the greeting arrives", "[auth]") {
  const bool v6 = GENERATE(false, true);
  const size_t length = GENERATE(size_t(0), size_t(5), base::kMaxGreeting);
  Server server(secret_of(1), v6);
  const std::string greeting(length, 'x');
  auto fd = base::auth_connect(server.address(), secret_of(1), view(greeting), soon());
  REQUIRE(fd.ok());
  wait_for_count(server, 1);
  // Bytes behind the handshake belong to the caller, on both sides.
  REQUIRE(base::write_exact(fd->get(), "hello", 5, soon()).ok());
  server.stop();
  REQUIRE(server.accepted.size() == 1);
  CHECK(server.accepted[0].greeting.size() == length);
  CHECK(server.accepted[0].from.port() == base::local_address(fd->get())->port());
  char text[5];
  REQUIRE(base::read_exact(server.accepted[0].fd.get(), text, 5, soon()).ok());
  CHECK(std::string(text, 5) == "hello");
  CHECK(server.dropped() == 0);
}

TEST_CASE("both sides leave the handshake with a key of their own", "[auth]") {
  Server server(secret_of(1));
  base::Session sessions[2];
  std::vector<Fd> open;
  for (base::Session& session : sessions) {
    auto fd = base::auth_connect(server.address(), secret_of(1), view("me"), soon(), {}, nullptr,
                                 &session);
    REQUIRE(fd.ok());
    open.push_back(std::move(*fd));
  }
  wait_for_count(server, 2);
  server.stop();
  for (size_t i = 0; i < 2; ++i) {
    CHECK(sessions[i].connector);
    CHECK_FALSE(server.accepted[i].session.connector);
    CHECK(server.accepted[i].session.key.bytes == sessions[i].key.bytes);
  }
  CHECK(sessions[0].key.bytes != sessions[1].key.bytes);
  CHECK(sessions[0].key.bytes != secret_of(1).bytes);
}

TEST_CASE("another version of the handshake is said to be that", "[auth]") {
  auto listener = base::listen_tcp(loopback());
  const Address at = *base::local_address(listener->get());
  std::thread other([&] {
    pollfd p{listener->get(), POLLIN, 0};
    if (!base::poll_fds({&p, 1}, soon())) return;
    auto fd = base::accept_now(listener->get());
    const uint8_t challenge[40] = {0x43, 0x4c, 0x43, 0x31};  // "CLC1"
    char byte;
    if (base::write_exact(fd->get(), challenge, sizeof challenge, soon()))
      (void)base::read_exact(fd->get(), &byte, 1, soon());
  });
  auto fd = base::auth_connect(at, secret_of(1), view("me"), soon());
  other.join();
  REQUIRE_FALSE(fd.ok());
  CHECK(fd.error().message.find("another version of the handshake") != std::string::npos);
}

TEST_CASE("a wrong secret is turned down on either side", "[auth]") {
  Server server(secret_of(1));
  auto fd = base::auth_connect(server.address(), secret_of(2), view("me"), soon());
  REQUIRE_FALSE(fd.ok());
  CHECK(fd.error().code == ErrorCode::lost);
  CHECK(fd.error().message.find(server.address().text()) != std::string::npos);
  CHECK(fd.error().message.find("secret") != std::string::npos);
  CHECK(base::auth_connect(server.address(), secret_of(1), view("me"), soon()).ok());
  server.stop();
  CHECK(server.accepted.size() == 1);
  CHECK(server.dropped() == base::kProofTries);
}

TEST_CASE("a listener that only repeats what it hears is found out", "[auth]") {
  auto listener = base::listen_tcp(loopback());
  REQUIRE(listener.ok());
  const Address at = *base::local_address(listener->get());
  std::atomic<bool> played{false};
  std::thread mirror([&] {
    pollfd p{listener->get(), POLLIN, 0};
    bool ok = base::poll_fds({&p, 1}, soon()).ok();
    auto fd = base::accept_now(listener->get());
    // A challenge of the right form, then the connector's own proof sent back.
    uint8_t challenge[40] = {0x43, 0x4c, 0x43, 0x32};
    ok = ok && base::write_exact(fd->get(), challenge, sizeof challenge, soon()).ok();
    uint8_t answer[72 + 2];
    ok = ok && base::read_exact(fd->get(), answer, sizeof answer, soon()).ok();
    played = ok && base::write_exact(fd->get(), answer + 40, 32, soon()).ok();
  });
  auto fd = base::auth_connect(at, secret_of(1), view("me"), soon());
  mirror.join();
  CHECK(played);
  REQUIRE_FALSE(fd.ok());
  CHECK(fd.error().code == ErrorCode::lost);
  CHECK(fd.error().message.find("does not know") != std::string::npos);
}

TEST_CASE("something else behind the port is said to be something else", "[auth]") {
  auto listener = base::listen_tcp(loopback());
  const Address at = *base::local_address(listener->get());
  std::atomic<bool> played{false};
  std::thread other([&] {
    pollfd p{listener->get(), POLLIN, 0};
    if (!base::poll_fds({&p, 1}, soon())) return;
    auto fd = base::accept_now(listener->get());
    const std::string banner(64, '!');
    if (!base::write_exact(fd->get(), banner.data(), banner.size(), soon())) return;
    char byte;
    played = !base::read_exact(fd->get(), &byte, 1, soon()).ok();
  });
  auto fd = base::auth_connect(at, secret_of(1), view("me"), soon());
  REQUIRE_FALSE(fd.ok());
  CHECK(fd.error().message.find("not a collctl listener") != std::string::npos);
  other.join();
  CHECK(played);
}

TEST_CASE("who is hung up on before the handshake is told so, and nothing of secrets", "[auth]") {
  auto listener = base::listen_tcp(test::own_loopback());
  auto connector =
      base::AuthConnector::start(*base::local_address(listener->get()), secret_of(1), view("x"));
  REQUIRE(connector.ok());
  pollfd called{listener->get(), POLLIN, 0};
  REQUIRE(*base::poll_fds({&called, 1}, soon()) == 1);
  REQUIRE(*base::accept_now(listener->get()));  // and closed at once
  const Deadline limit = soon();
  while (!(*connector)->turned_away()) {
    REQUIRE_FALSE(limit.passed());
    pollfd p{(*connector)->fd(), (*connector)->events(), 0};
    REQUIRE(base::poll_fds({&p, 1}, limit).ok());
    REQUIRE((*connector)->progress().ok());
  }
  const Error& why = *(*connector)->turned_away();
  CHECK(why.code == ErrorCode::lost);
  CHECK(why.message.ends_with(" before the handshake"));
  CHECK(why.hint == "");
}

TEST_CASE("silent and noisy strangers hold nobody up", "[auth]") {
  Server server(secret_of(1));
  std::vector<Fd> strangers;
  for (int i = 0; i < 60; ++i) {
    auto fd = base::connect_tcp(server.address(), soon(), true);
    REQUIRE(fd.ok());
    const std::string noise = i % 3 == 0 ? "" : std::string(i % 3 == 1 ? 3 : 500, char(i));
    REQUIRE(base::write_exact(fd->get(), noise.data(), noise.size(), soon()).ok());
    strangers.push_back(std::move(*fd));
  }
  const int64_t start = now_ns();
  std::vector<std::thread> friends;
  std::atomic<int> good{0};
  for (int i = 0; i < 32; ++i)
    friends.emplace_back([&, i] {
      if (base::auth_connect(server.address(), secret_of(1), view(std::to_string(i)), soon()))
        ++good;
    });
  for (auto& t : friends) t.join();
  CHECK(good == 32);
  CHECK(now_ns() - start < int64_t(base::kHandshakeSeconds * 1e9));
  wait_for_count(server, 32);
  server.stop();
  CHECK(server.accepted.size() == 32);
  CHECK(server.dropped() >= 20);  // those who said too much nonsense
}

TEST_CASE("a silent stranger is sent away in the end", "[auth]") {
  Server server(secret_of(1));
  auto fd = base::connect_tcp(server.address(), soon(), true);
  REQUIRE(fd.ok());
  uint8_t buffer[64];
  REQUIRE(base::read_exact(fd->get(), buffer, 40, soon()).ok());
  const Status end = base::read_exact(fd->get(), buffer, 1, soon());
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().code == ErrorCode::lost);
  server.stop();
  CHECK(server.dropped() == 1);
}

TEST_CASE("a greeting longer than allowed is not even read", "[auth]") {
  Server server(secret_of(1));
  auto fd = base::connect_tcp(server.address(), soon(), true);
  uint8_t buffer[72] = {};
  REQUIRE(base::read_exact(fd->get(), buffer, 40, soon()).ok());
  const uint32_t head[2] = {0x32414c43, uint32_t(base::kMaxGreeting + 1)};
  std::memcpy(buffer, head, sizeof head);
  REQUIRE(base::write_exact(fd->get(), buffer, sizeof buffer, soon()).ok());
  const Status end = base::read_exact(fd->get(), buffer, 1, soon());
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().code == ErrorCode::lost);
}

TEST_CASE("deadlines of both sides are errors with the address", "[auth]") {
  auto listener = AuthListener::listen(loopback(), secret_of(1));
  auto nobody = (*listener)->accept_one(Deadline::after_ms(30));
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().code == ErrorCode::deadline);
  CHECK(nobody.error().message.find((*listener)->address().text()) != std::string::npos);
  // The listener exists but nobody serves it.
  auto waited =
      base::auth_connect((*listener)->address(), secret_of(1), view("x"), Deadline::after_ms(50));
  REQUIRE_FALSE(waited.ok());
  CHECK(waited.error().code == ErrorCode::deadline);
}

TEST_CASE("a connector stops when it is told to", "[auth]") {
  auto listener = AuthListener::listen(test::own_loopback(), secret_of(1));
  const Address silent = (*listener)->address();  // nobody serves it
  Address gone;
  {
    auto first = AuthListener::listen(test::own_loopback(), secret_of(1));
    gone = (*first)->address();
  }
  for (const Address& at : {silent, gone}) {
    uint32_t cancelled = 0;
    bool waits = false;
    std::thread later([&] {
      waits = test::wait_until_others_sleep();
      std::atomic_ref<uint32_t>(cancelled).store(1);
    });
    const auto ended = base::auth_connect(at, secret_of(1), view("x"), Deadline::after_seconds(60),
                                          {}, &cancelled);
    later.join();
    CHECK(waits);
    REQUIRE_FALSE(ended.ok());
    CHECK(ended.error().code == ErrorCode::lost);
    CHECK(ended.error().message.find("stopped because") != std::string::npos);
  }
}

TEST_CASE("a connector waits for a listener that is not there yet", "[auth]") {
  Address at;
  {
    auto first = AuthListener::listen(test::own_loopback(), secret_of(1));
    at = (*first)->address();
  }
  auto refused = base::auth_connect(at, secret_of(1), view("x"), Deadline::after_ms(60));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::lost);
  std::atomic<bool> accepted{false}, waits{false};
  std::thread later([&] {
    waits = test::wait_until_others_sleep();
    auto listener = AuthListener::listen(at, secret_of(1), true);
    accepted = listener.ok() && (*listener)->accept_one(soon()).ok();
  });
  CHECK(base::auth_connect(at, secret_of(1), view("x"), soon()).ok());
  later.join();
  CHECK(waits);
  CHECK(accepted);
}

TEST_CASE("who is turned away for lack of descriptors is told so", "[auth]") {
  auto listener = AuthListener::listen(test::own_loopback(), secret_of(1));
  REQUIRE(listener.ok());
  auto connector = base::AuthConnector::start((*listener)->address(), secret_of(1), view("x"));
  REQUIRE(connector.ok());
  bool called = true;
  {
    // No assertion in here: UBSan looks at the objects in it through a pipe.
    const runtime::testing::FewFiles none(0);
    while (called && (*listener)->dropped() == 0) {
      std::vector<pollfd> fds;
      (*listener)->add_interest(fds);
      called = *base::poll_fds(fds, soon()) > 0;
      (*listener)->handle();
    }
  }
  REQUIRE(called);
  Result<bool> done = false;
  const auto go_on = [&](bool served) {
    pollfd p{(*connector)->fd(), (*connector)->events(), 0};
    REQUIRE(base::poll_fds({&p, 1}, served ? Deadline::after_ms(5) : soon()).ok());
    done = (*connector)->progress();
    if (served) (*listener)->handle();
  };
  while (done.ok() && !(*connector)->turned_away()) go_on(false);
  REQUIRE(done.ok());
  const Error& said = *(*connector)->turned_away();
  CHECK(said.code == ErrorCode::unavailable);
  CHECK(said.message.find("run out of file descriptors") != std::string::npos);
  CHECK(said.hint.find("ulimit -n") != std::string::npos);
  // That was nobody's proof: the caller goes on, and comes in once there is room.
  const Deadline limit = soon();
  while (done.ok() && !*done && !limit.passed()) go_on(true);
  REQUIRE(done.ok());
  CHECK(*done);
}

TEST_CASE("refusals before the handshake are no answer until the deadline", "[auth]") {
  const bool no_files = GENERATE(false, true);  // or just hangs up
  Address at;
  {
    auto first = AuthListener::listen(test::own_loopback(), secret_of(1));
    at = (*first)->address();
  }
  // A stranger has the port first, and turns everybody away.
  std::atomic<int> refused{0};
  std::atomic<bool> accepted{false};
  std::thread other([&] {
    {
      auto fake = base::listen_tcp(at, true);
      if (!fake.ok()) return;
      while (refused < 5) {
        pollfd p{fake->get(), POLLIN, 0};
        if (!base::poll_fds({&p, 1}, soon())) return;
        auto fd = base::accept_now(fake->get());
        if (!fd || !*fd) continue;
        const uint8_t refusal[40] = {0x43, 0x4c, 0x43, 0x30};  // "CLC0"
        if (no_files && !base::write_exact(fd->get(), refusal, sizeof refusal, soon())) return;
        ++refused;
      }
    }
    auto listener = AuthListener::listen(at, secret_of(1), true);
    accepted = listener.ok() && (*listener)->accept_one(soon()).ok();
  });
  const auto fd = base::auth_connect(at, secret_of(1), view("x"), soon());
  other.join();
  CHECK(fd.ok());
  CHECK(accepted);
  CHECK(refused == 5);
}

TEST_CASE("who has answered is let in before its place goes to another", "[auth]") {
  auto listener = AuthListener::listen(test::own_loopback(), secret_of(1));
  REQUIRE(listener.ok());
  auto caller = base::AuthConnector::start((*listener)->address(), secret_of(1), view("x"));
  REQUIRE(caller.ok());
  std::vector<pollfd> fds;
  (*listener)->add_interest(fds);
  REQUIRE(*base::poll_fds(fds, soon()) == 1);
  (*listener)->handle();
  // It connects and answers the challenge: until that has arrived.
  fds.clear();
  (*listener)->add_interest(fds);
  REQUIRE(fds.size() == 2);
  const Deadline limit = soon();
  while (fds[1].revents == 0 && !limit.passed()) {
    const auto done = (*caller)->progress();
    REQUIRE(done.ok());
    REQUIRE_FALSE(*done);
    REQUIRE(base::poll_fds({&fds[1], 1}, Deadline::after_ms(5)).ok());
  }
  // More strangers than have places, all in one turn.
  std::vector<Fd> strangers;
  {
    const MostFiles low(256);
    for (int i = 0; i < 70; ++i) {
      auto fd = base::connect_tcp((*listener)->address(), soon(), true);
      if (fd.ok()) strangers.push_back(std::move(*fd));
    }
    (*listener)->handle();
  }
  CHECK(strangers.size() == 70);
  CHECK((*listener)->dropped() == 6);
  const auto in = (*listener)->next();
  REQUIRE(in);
  CHECK(in->greeting == Bytes{'x'});
}

TEST_CASE("strangers leave three quarters of the descriptors free", "[auth]") {
  auto listener = AuthListener::listen(test::own_loopback(), secret_of(1));
  REQUIRE(listener.ok());
  size_t watched = 0;
  uint64_t dropped = 0;
  bool friend_in = false;
  std::vector<Fd> strangers;
  {
    const MostFiles low(256);
    for (int i = 0; i < 100; ++i) {
      auto fd = base::connect_tcp((*listener)->address(), soon(), true);
      if (fd.ok()) strangers.push_back(std::move(*fd));
      (*listener)->handle();
      std::vector<pollfd> fds;
      (*listener)->add_interest(fds);
      watched = std::max(watched, fds.size() - 1);
    }
    dropped = (*listener)->dropped();
    std::thread caller([&] {
      friend_in = base::auth_connect((*listener)->address(), secret_of(1), view("x"), soon()).ok();
    });
    const auto in = (*listener)->accept_one(soon());
    caller.join();
    friend_in = friend_in && in.ok();
  }
  CHECK(strangers.size() == 100);
  CHECK(watched == 64);
  CHECK(dropped == 36);
  CHECK(friend_in);
}

}  // namespace auth_tests
