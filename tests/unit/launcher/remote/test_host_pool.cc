// HostPool and silence: of a host, and of this process itself.
#include "launcher/remote/host_pool.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/host_facts.h"
#include "base/wait.h"
#include "launcher/remote/agent_protocol.h"
#include "launcher/remote/binary.h"
#include "tests/catch.h"

namespace remote_host_pool_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

// A pool starts this very binary as the agent of this host: here one that greets, says nothing more
// and goes when its input ends.
__attribute__((constructor)) void be_a_silent_agent() {
  std::ifstream file("/proc/self/cmdline");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  if (line.find(std::string(1, '\0') + kAgentCommand + '\0') == std::string::npos) return;
  Bytes wire;
  append_frame(wire, uint16_t(AgentFrame::hello), encoded(AgentHello()));
  const std::string said =
      std::string(kAgentWord) + "frames\n" + std::string(wire.begin(), wire.end());
  bool heard = ::write(STDOUT_FILENO, said.data(), said.size()) == ssize_t(said.size());
  for (char c = 0; heard && ::read(STDIN_FILENO, &c, 1) == 1;) continue;
  ::_exit(heard ? 0 : 1);
}

// One whose command has said this.
class SaidChannel : public HostChannel {
 public:
  explicit SaidChannel(std::string said, ChannelPhase phase = ChannelPhase::open)
      : output_(std::move(said)), phase_(phase) {}
  void add_interest(std::vector<pollfd>&) const override {}
  Deadline wakeup() const override { return Deadline::after_ms(0); }
  void progress() override {}
  ChannelPhase phase() const override { return phase_; }
  std::optional<Error> error() const override { return std::nullopt; }
  void write(ByteView bytes) override { written.append(bytes.begin(), bytes.end()); }
  size_t pending() const override { return 0; }
  void close_input() override {}
  std::string& output() override { return output_; }
  std::string& errors() override { return errors_; }
  std::optional<int> exit_code() const override { return std::nullopt; }
  std::string description() const override { return "said"; }
  std::string written;

 private:
  std::string output_, errors_;
  ChannelPhase phase_;
};

// A login that asks at the terminal whenever it gets on.
class AskingChannel : public SaidChannel {
 public:
  explicit AskingChannel(int& asked)
      : SaidChannel("", ChannelPhase::authenticating), asked_(asked) {}
  void progress() override { ++asked_; }

 private:
  int& asked_;
};

std::unique_ptr<HostPool> pool_of(const std::vector<HostSpec>& hosts, double heartbeat_s) {
  PoolOptions options;
  options.heartbeat_s = heartbeat_s;
  auto pool = HostPool::make(hosts, options);
  REQUIRE(pool.ok());
  return std::move(*pool);
}

void turn(HostPool& pool) {
  REQUIRE(pool.turn(Deadline::after_ms(20), {}).ok());
}

}  // namespace

TEST_CASE("a host that is silent for the heartbeat's time is lost, and not before") {
  HostSpec here;
  here.name = "localhost";
  const auto pool = pool_of({here}, 1.5);
  const Deadline deadline = Deadline::after_seconds(60);
  while (!pool->settled() && !deadline.passed()) turn(*pool);
  REQUIRE(pool->host(0).phase() == HostPhase::up);
  const int64_t heard_ns = pool->host(0).heard_ns();
  while (pool->failed().empty() && !deadline.passed()) turn(*pool);
  const double silent = double(now_ns() - heard_ns) / 1e9;
  REQUIRE(pool->failed() == std::vector{0});
  CHECK(pool->host(0).heard_ns() == heard_ns);
  CHECK(silent >= 1.5);
  CHECK(silent < 10);
  CHECK(pool->host(0).error()->code == ErrorCode::lost);
  CHECK(pool->host(0).cause().find("no heartbeat for 2 s") != std::string::npos);
}

// Agents have heard of it up to a beat, a second, before it was stopped.
TEST_CASE("a process that did not run is to blame from a beat less than the heartbeat on") {
  const auto blamed = pool_of({}, 3), pardoned = pool_of({}, 60);
  for (HostPool* pool : {blamed.get(), pardoned.get()}) turn(*pool);
  CHECK(blamed->absence_s() == 0);
  // time is what is tested: a launcher that does not run for so long
  base::sleep_until(Deadline::after_ms(2500));
  for (HostPool* pool : {blamed.get(), pardoned.get()}) turn(*pool);
  CHECK(blamed->absence_s() >= 2.4);
  CHECK(pardoned->absence_s() == 0);
  CHECK(blamed->absence_error().code == ErrorCode::lost);
  CHECK(blamed->absence_error().message.find("hosts end what they run after 3 s without it") !=
        std::string::npos);
}

TEST_CASE("a login that is not over when the job ends asks for nothing any more") {
  int asked = 0;
  PoolOptions options;
  options.ssh.open = [&asked](const HostTarget&, const ChannelOptions&) {
    std::unique_ptr<HostChannel> asking(new AskingChannel(asked));
    return Result(std::move(asking));
  };
  options.always_ssh = true;
  HostSpec there;
  there.name = "node07.example";
  {
    const auto pool = HostPool::make({there}, options);
    REQUIRE(pool.ok());
    turn(**pool);
    REQUIRE((*pool)->host(0).phase() == HostPhase::authenticating);
    REQUIRE(asked > 0);
    asked = 0;
    (*pool)->leave(Deadline::after_seconds(60));
    CHECK((*pool)->host(0).phase() == HostPhase::left);
  }
  CHECK(asked == 0);
}

TEST_CASE("a host that carries others sends them no other build than the launcher's") {
  PoolOptions options;
  options.in_agent = true;
  options.stage.hash = "another";
  options.stage.machine = base::machine_name();
  options.ssh.open = [](const HostTarget&, const ChannelOptions&) {
    std::unique_ptr<HostChannel> said(new SaidChannel(std::string(kAgentWord) + "need gzip\n"));
    return Result(std::move(said));
  };
  HostSpec there;
  there.name = "node07.example";
  const auto pool = HostPool::make({there}, options);
  REQUIRE(pool.ok());
  const Deadline deadline = Deadline::after_seconds(60);
  const HostLink& link = (*pool)->host(0);
  while (link.phase() < HostPhase::staging && !deadline.passed()) turn(**pool);
  REQUIRE(link.phase() == HostPhase::failed);
  CHECK(link.cause().find("has another build of collctl to send") != std::string::npos);
}

// The answer to a host that says that it is a mips64.
std::string answer_to_mips64(PoolOptions options) {
  SaidChannel* channel = nullptr;
  options.ssh.open = [&channel](const HostTarget&, const ChannelOptions&) {
    auto said = std::make_unique<SaidChannel>(std::string(kAgentWord) + "machine mips64\n");
    channel = said.get();
    return Result(std::unique_ptr<HostChannel>(std::move(said)));
  };
  HostSpec there;
  there.name = "node07.example";
  const auto pool = HostPool::make({there}, options);
  REQUIRE(pool.ok());
  const Deadline deadline = Deadline::after_seconds(60);
  while ((channel == nullptr || channel->written.empty()) && !deadline.passed()) turn(**pool);
  return channel->written;
}

TEST_CASE("a host of another architecture hears of the binary that is named for it") {
  PoolOptions options;
  options.binary_for["mips64"] = "/proc/self/exe";
  CHECK(answer_to_mips64(options) == staged_hash(*own_hash()));
  CHECK(answer_to_mips64({}) == staged_hash(""));
}

}  // namespace remote_host_pool_tests
