// The channel to this very host: streams, exit codes, back-pressure, failures.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host_facts.h"
#include "base/wait.h"
#include "launcher/ssh/channel.h"
#include "tests/catch.h"

namespace ssh_ssh_process_tests {

using namespace collctl;
using launcher::ChannelPhase;
using launcher::HostChannel;

namespace {

std::unique_ptr<HostChannel> open(const std::vector<std::string>& argv) {
  auto channel = launcher::open_process_channel("here", argv);
  REQUIRE(channel.ok());
  return std::move(channel.value());
}

bool over(const HostChannel& c) {
  return c.phase() == ChannelPhase::ended || c.phase() == ChannelPhase::failed;
}

// Drives the channel until `done`; false when so much time has passed first.
template <class Done>
bool drive(HostChannel& c, Done done, double seconds = 20) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (!deadline.passed()) {
    c.progress();
    if (done()) return true;
    std::vector<pollfd> fds;
    c.add_interest(fds);
    REQUIRE(base::poll_fds(fds, c.wakeup().earlier(deadline)).ok());
  }
  return false;
}

void send(HostChannel& c, const std::string& text) {
  c.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("a process channel carries both ways and ends with the exit code") {
  auto c = open({"sh", "-c", "cat; echo talk >&2; exit 7"});
  send(*c, "hello ");
  send(*c, "there");
  c->close_input();
  REQUIRE(drive(*c, [&] { return over(*c); }));
  CHECK(c->phase() == ChannelPhase::ended);
  CHECK(c->output() == "hello there");
  CHECK(c->errors() == "talk\n");
  CHECK(c->exit_code() == 7);
  CHECK(!c->error().has_value());
}

TEST_CASE("a process channel stops reading when nothing is taken, and loses nothing") {
  constexpr size_t kBytes = 20'000'000;
  auto c = open({"head", "-c", std::to_string(kBytes), "/dev/zero"});
  REQUIRE(drive(*c, [&] { return over(*c) || c->output().size() >= HostChannel::kMostBuffered; }));
  CHECK(c->phase() == ChannelPhase::open);
  CHECK(c->output().size() < HostChannel::kMostBuffered + 100'000);
  size_t total = 0;
  REQUIRE(drive(*c, [&] {
    total += c->output().size();
    c->output().clear();
    return over(*c);
  }));
  CHECK(total + c->output().size() == kBytes);
}

TEST_CASE("a process that has ended with more than is held wakes nobody until that is taken") {
  constexpr size_t kBytes = HostChannel::kMostBuffered + 60'000;
  // Output that is not held fits into the pipe, so it ends.
  auto c = open({"head", "-c", std::to_string(kBytes), "/dev/zero"});
  int turns = 0;
  CHECK_FALSE(drive(
      *c,
      [&] {
        turns += c->output().size() >= HostChannel::kMostBuffered ? 1 : 0;
        return over(*c) || turns > 1000;
      },
      0.5));
  CHECK_FALSE(over(*c));
  CHECK(turns < 100);
  c->output().clear();
  REQUIRE(drive(*c, [&] { return over(*c); }));
  CHECK(c->output().size() < 150'000);
}

TEST_CASE("much input goes through a process channel") {
  auto c = open({"wc", "-c"});
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 30; ++i) send(*c, piece);
  c->close_input();
  REQUIRE(drive(*c, [&] { return over(*c); }));
  CHECK(std::stoul(c->output()) == 30u << 20);
  CHECK(c->pending() == 0);
}

TEST_CASE("a child that reads no input and one that dies by a signal") {
  // time is what is tested: a command that goes on without its input
  auto c = open({"sh", "-c", "exec <&-; sleep 0.2; kill -9 $$"});
  send(*c, std::string(1 << 20, 'x'));
  REQUIRE(drive(*c, [&] { return over(*c); }));
  CHECK(c->exit_code() == 128 + SIGKILL);
}

TEST_CASE("a program that is not there fails with its name") {
  auto c = open({"/no/such/program"});
  REQUIRE(drive(*c, [&] { return over(*c); }));
  CHECK(c->phase() == ChannelPhase::failed);
  REQUIRE(c->error().has_value());
  CHECK(c->error()->code == ErrorCode::launch);
  CHECK(c->error()->host == "here");
  CHECK(c->error()->message.find("/no/such/program") != std::string::npos);
  CHECK(!launcher::open_process_channel("here", {}).ok());
}

TEST_CASE("a grandchild that holds the streams does not keep the channel open") {
  auto c = open({"sh", "-c", "sleep 30 & echo $!"});
  REQUIRE(drive(*c, [&] { return over(*c); }));
  const int grandchild = std::stoi(c->output());
  CHECK(::getsid(grandchild) != ::getsid(0));
  CHECK(::kill(grandchild, SIGKILL) == 0);
}

TEST_CASE("a channel that is dropped ends the input of its command") {
  int pid = 0;
  {
    auto c = open({"sh", "-c", "echo $$; cat >/dev/null"});
    REQUIRE(drive(*c, [&] { return c->output().find('\n') != std::string::npos; }));
    pid = std::stoi(c->output());
  }
  // A zombie of this process, unless the channel has seen its end and reaped it.
  const auto ended = [&] {
    const char state = base::process_state(pid);
    return state == 0 || state == 'Z';
  };
  const Deadline deadline = Deadline::after_seconds(60);
  while (!ended() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
  CHECK(ended());
  ::waitpid(pid, nullptr, WNOHANG);
}

}  // namespace ssh_ssh_process_tests
