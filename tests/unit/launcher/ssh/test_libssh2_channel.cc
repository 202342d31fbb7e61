// The channel over libssh2 as far as it comes without a server: the hops of a configuration, what
// is refused, and whose time a silent server's is. With a server: tests/e2e/ssh_clients.sh.
#include "launcher/ssh/libssh2_channel.h"

#include <filesystem>
#include <fstream>

#include "base/socket.h"
#include "base/wait.h"
#include "launcher/ssh/prompt.h"
#include "tests/catch.h"
#include "tests/own_loopback.h"
#include "tests/skip.h"

namespace ssh_libssh2_channel_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

// A configuration of one test. An empty text is none at all, which needs no ssh to be read by.
class Configuration {
 public:
  explicit Configuration(const std::string& text)
      : path_(format("/tmp/collctl-test-ssh-{}", ::getpid())) {
    std::ofstream(path_) << text;
    options.config_file = text.empty() ? "none" : path_;
    options.connect_timeout_s = 20;
  }
  ~Configuration() { std::filesystem::remove(path_); }
  ChannelOptions options;

 private:
  std::string path_;
};

bool over(const HostChannel& c) {
  return c.phase() == ChannelPhase::ended || c.phase() == ChannelPhase::failed;
}

template <class Done>
void drive(HostChannel& c, Done done, double seconds = 60) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (!over(c) && !done() && !deadline.passed()) {
    c.progress();
    std::vector<pollfd> fds;
    c.add_interest(fds);
    const Deadline until = c.wakeup().earlier(deadline).earlier(Deadline::after_ms(20));
    REQUIRE(base::poll_fds(fds, until).ok());
  }
}

Error failure(const HostTarget& target, const ChannelOptions& options) {
  Libssh2Channel channel(target, options, "true");
  drive(channel, [] { return false; });
  REQUIRE(channel.phase() == ChannelPhase::failed);
  REQUIRE(channel.error().has_value());
  return *channel.error();
}

// Where nobody listens.
uint16_t closed_port() {
  const auto listener = base::listen_tcp(test::own_loopback());
  REQUIRE(listener.ok());
  return base::local_address(listener->get())->port();
}

bool says(const Error& e, const std::string& part) {
  return e.message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("libssh2: so many jump hosts and no more", "[ssh]") {
  const std::string own = test::own_loopback().text();
  const std::string first = format("{}:{}", own.substr(0, own.rfind(':')), closed_port());
  const Configuration none("");
  std::string jumps = first;
  for (int i = 1; i < 7; ++i) jumps += format(",127.0.0.{}", i + 1);
  // Eight hops with the host itself: the first is dialled.
  const Error refused =
      failure({.name = "far", .user = "", .key = "", .jump = jumps}, none.options);
  CHECK(says(refused, "far: jump host "));
  CHECK(says(refused, "connection refused"));
  CHECK(refused.host == "far");
  CHECK(refused.code == ErrorCode::launch);
  Libssh2Channel two({.name = "far", .user = "", .key = "", .jump = first + ",127.0.0.2"},
                     none.options, "true");
  drive(two, [] { return false; });
  const std::string way = two.description();
  INFO(way);
  CHECK(way.find(" through 127.") < way.find(", 127.0.0.2"));
  CHECK(way.find(", 127.0.0.2") != std::string::npos);
  const Error many =
      failure({.name = "far", .user = "", .key = "", .jump = jumps + ",127.0.0.9"}, none.options);
  CHECK(many.code == ErrorCode::usage);
  CHECK(many.message == "far: more than 8 hops");
  CHECK(many.hint.find("loop") != std::string::npos);
  const Error none_such =
      failure({.name = "far", .user = "", .key = "", .jump = "a:b:c:d@"}, none.options);
  CHECK(none_such.code == ErrorCode::usage);
  CHECK(says(none_such, "is not a jump host"));
}

TEST_CASE("libssh2: a server that is silent has its time, without that of questions", "[ssh]") {
  const auto listener = base::listen_tcp(test::own_loopback());
  REQUIRE(listener.ok());
  const base::Address at = *base::local_address(listener->get());
  const std::string text = at.text();
  Configuration none("");
  none.options.connect_timeout_s = 1;
  HostTarget target;
  target.name = text.substr(0, text.rfind(':'));
  target.port = at.port();
  const auto fails_after = [&](bool asked) {
    Libssh2Channel channel(target, none.options, "true");
    bool dialled = false;
    drive(channel, [&] {
      pollfd caller{listener->get(), POLLIN, 0};
      dialled = *base::poll_fds({&caller, 1}, Deadline::after_ns(0)) > 0;
      return dialled;
    });
    REQUIRE(dialled);
    const base::Fd silent(::accept(listener->get(), nullptr, nullptr));
    channel.progress();  // knows that it is connected
    const int64_t began = now_ns();
    if (asked) pardon_ns(1'500'000'000);
    drive(channel, [] { return false; });
    REQUIRE(channel.phase() == ChannelPhase::failed);
    CHECK(says(*channel.error(), "within 1 s"));
    return double(now_ns() - began) / 1e9;
  };
  const double plain = fails_after(false), asked = fails_after(true);
  CHECK(plain >= 0.7);
  CHECK(plain < 2.2);
  CHECK(asked >= 2.2);
  CHECK(asked < 20);
}

TEST_CASE("libssh2: what a configuration asks of the way", "[may_skip]") {
  if (!std::filesystem::exists("/usr/bin/ssh"))
    return collctl::test::skip("ssh is not installed, so no configuration is read");
  const std::string own = test::own_loopback().text();
  const std::string address = own.substr(0, own.rfind(':'));
  const Configuration config(
      format("Host proxied\n  ProxyCommand nc %h %p\n"
             "Host *\n  HostName {}\n  Port {}\n  ProxyJump gate\n",
             address, closed_port()));
  HostTarget proxied, gate, inner;
  proxied.name = "proxied";
  gate.name = "gate";
  inner.name = "inner";
  Libssh2Channel channel(proxied, config.options, "true");
  drive(channel, [] { return false; });
  REQUIRE(channel.error().has_value());
  CHECK(says(*channel.error(), "ProxyCommand"));
  CHECK(channel.incapable() == "the configuration has a ProxyCommand");
  // The jump host is not reached through itself, though the pattern says so.
  const Error direct = failure(gate, config.options);
  CHECK(direct.message.starts_with("gate: "));
  CHECK_FALSE(says(direct, "jump host"));
  CHECK(says(failure(inner, config.options), "inner: jump host gate"));
}

}  // namespace ssh_libssh2_channel_tests
