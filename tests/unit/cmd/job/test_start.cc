// The notes that a start makes of its hosts, and what it hands on to them.
#include "cmd/job/start.h"

#include <algorithm>
#include <cstdlib>

#include "base/host_facts.h"
#include "cmd/job/config.h"
#include "tests/catch.h"

namespace job_start_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Ranks of which only is known which run.
struct Running : launcher::RankGroup {
  std::vector<bool> up;
  int size() const override { return int(up.size()); }
  int pid(int) const override { return 0; }
  Host host(int) const override { return {}; }
  bool running(int rank) const override { return up[size_t(rank)]; }
  int running_count() const override { return 0; }
  Result<std::vector<launcher::Event>> wait(Deadline, std::span<const int>) override {
    return std::vector<launcher::Event>();
  }
  Status keep_alive() override { return {}; }
  Status send(int, launcher::FrameType, ByteView, Deadline) override { return {}; }
  Status write_stdin(int, ByteView, Deadline) override { return {}; }
  size_t stdin_pending(int) const override { return 0; }
  void close_stdin(int) override {}
  void signal_all(int) override {}
  void kill(int) override {}
  void end(double) override {}
  void look() override {}
  char state(int) const override { return 'R'; }
};

}  // namespace

TEST_CASE("a host runs once all its ranks do, and is done once all have ended", "[job]") {
  std::vector<HostEnd> hosts(2);
  hosts[0].ranks = {0, 1};
  hosts[1].ranks = {2};
  Running group;
  group.up = {true, true, true};
  std::vector<bool> works = {true, false, false};
  const auto note = [&](int rank, double now) {
    note_progress(
        hosts, group, rank, [&](int r) { return works[size_t(r)]; }, now);
  };
  note(0, 1);
  CHECK(hosts[0].phase == "bootstrapping");
  CHECK(hosts[0].bootstrapping == 1);
  CHECK(hosts[0].running < 0);
  CHECK(hosts[1].bootstrapping < 0);
  works[1] = true;
  note(1, 2);
  CHECK(hosts[0].phase == "running");
  CHECK(hosts[0].running == 2);
  note(0, 3);  // the first time counts
  CHECK(hosts[0].running == 2);
  group.up[0] = false;
  note(0, 4);
  CHECK(hosts[0].done < 0);
  group.up[1] = false;
  note(1, 5);
  CHECK(hosts[0].phase == "done");
  CHECK(hosts[0].done == 5);
}

TEST_CASE("-x hands on the variables that it names, by name and by prefix", "[job]") {
  ::setenv("XTEST_ONE", "1", 1);
  ::setenv("XTEST_TWO", "2", 1);
  ::setenv("XTES", "3", 1);
  const auto handed = [](const std::vector<std::string>& entries) {
    std::vector<std::string> found;
    for (const std::string& variable : exported_environment(entries))
      if (variable.starts_with("XTES")) found.push_back(variable);
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(handed({}).empty());
  CHECK(handed({"XTEST_ONE"}) == std::vector<std::string>{"XTEST_ONE=1"});
  CHECK(handed({"XTEST*"}) == std::vector<std::string>{"XTEST_ONE=1", "XTEST_TWO=2"});
  CHECK(handed({"XTEST_O"}).empty());
  for (const char* name : {"XTEST_ONE", "XTEST_TWO", "XTES"}) ::unsetenv(name);
}

TEST_CASE("binaries for other architectures", "[job]") {
  LaunchOptions options;
  options.binary_for = {"mips64=/opt/mips64/collctl", "riscv64=a=b"};
  const auto pool = pool_options(options);
  REQUIRE(pool.ok());
  CHECK(pool->binary_for.at("mips64") == "/opt/mips64/collctl");
  CHECK(pool->binary_for.at("riscv64") == "a=b");
  for (const std::string& wrong : {std::string("mips64"), std::string("mips64="), std::string("=c"),
                                   std::string("a/b=c"), base::machine_name() + "=/opt/collctl"}) {
    INFO(wrong);
    options.binary_for = {wrong};
    const auto refused = pool_options(options);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::usage);
    CHECK(refused.error().message.find("--binary-for") == 0);
  }
}

}  // namespace job_start_tests
