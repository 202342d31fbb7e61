// CollNet where it cannot be had, or fails: the reason in words on every rank, and nothing left.
#include "tests/unit/runtime_network/collnet_job.h"
#include "transport/table/nets.h"

namespace collnet_faults_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("collnet: why it is not there", "[collnet]") {
  const auto refusal = [](const std::vector<int>& hosts) {
    std::string said;
    std::mutex mutex;
    const std::string wrong = on_hosts(hosts, collnet_only(), [&](Communicator& c, Complaints&) {
      Stream stream(c);
      const std::string mine = wrong_in(c, stream, {.count = 5});
      const std::lock_guard lock(mutex);
      if (said.empty()) said = mine;
      if (said != mine) said += " / " + mine;
    });
    return said + wrong;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    CHECK(text.find(" / ") == std::string::npos);
  };
  contains(refusal({0, 1}), "there is none: rank 0 (host ");
  {
    const Plugin plugin("reduces12");
    contains(refusal({0, 0}), "there is none: all ranks are on one host");
    const Variable off("COLLCTL_COLLNET_ENABLE", "0");
    contains(refusal({0, 1}), "has no CollNet (-v there says why)");
  }
  {
    const Plugin plugin("fake12");
    contains(refusal({0, 1}), "has no CollNet (-v there says why)");
  }
  for (const char* nonsense : {"no-group-devices", "no-group-bytes"}) {
    const Plugin plugin("reduces12");
    const Variable word("FAKE_PLUGIN_NONSENSE", nonsense);
    contains(refusal({0, 1}), "has no CollNet (-v there says why)");
  }
  {
    const Plugin plugin("reduces12");
    const Variable word("FAKE_PLUGIN_NONSENSE", "small-groups");
    contains(refusal({0, 1}), "reduces at most 4096 bytes at once, a step has");
  }
  {
    const Plugin plugin("reduces12");
    const Variable macs("COLLCTL_INTEGRITY", "1");
    contains(refusal({0, 1}), "no MACs");
  }
}

TEST_CASE("collnet: a plugin that fails while heads connect", "[collnet]") {
  for (const char* call : {"collListen", "collConnect", "collRegMr"}) {
    INFO(call);
    const Plugin plugin("reduces12");
    const Variable fail("FAKE_PLUGIN_FAIL", call);
    const Started started = start({0, 0, 1}, collnet_only());
    for (const auto& rank : started.ranks) REQUIRE_FALSE(rank->ok());
    const std::string said = started.errors();
    INFO(said);
    CHECK(said.find(" was to fail") != std::string::npos);
    CHECK(said.find("network plugin Sums") != std::string::npos);
  }
}

TEST_CASE("collnet: heads that never become a group", "[collnet]") {
  const Plugin plugin("reduces12");
  const Variable silent("FAKE_PLUGIN_NONSENSE", "silent");
  CommOptions options = collnet_only();
  options.start_timeout_s = 6;
  const Started started = start({0, 1}, options);
  for (const auto& rank : started.ranks) {
    REQUIRE_FALSE(rank->ok());
    INFO(rank->error().chain());
    CHECK(rank->error().chain().find("waits in CollNet (Sums)") != std::string::npos);
  }
}

TEST_CASE("collnet: a plugin that fails in an operation", "[collnet]") {
  for (const char* call : {"iallreduce:3", "collTest:3"}) {
    INFO(call);
    const Plugin plugin("reduces12");
    const Variable fail("FAKE_PLUGIN_FAIL", call);
    Started started = start({0, 0, 1, 1}, collnet_only());
    REQUIRE(started.errors() == "");
    std::mutex mutex;
    std::string said;
    int failed = 0;
    on_all(4, [&](int r) {
      Communicator& c = **(*started.ranks[size_t(r)]);
      Stream stream(c);
      for (int i = 0; i < 20; ++i) {
        const std::string wrong = wrong_in(c, stream, {.count = 100'000});
        if (wrong.empty()) continue;
        const std::lock_guard lock(mutex);
        ++failed;
        said += wrong + "\n";
        return;
      }
    });
    INFO(said);
    CHECK(failed == 4);
    CHECK(said.find("was to fail") != std::string::npos);
  }
}

// A rank at the end of a chain, and a head, for whom the others wait in the network.
TEST_CASE("collnet: a rank that stands still is named by all", "[collnet]") {
  struct Case {
    std::vector<int> hosts;
    int still;
  };
  for (const Case& c : {Case{{0, 1}, 1}, Case{{0, 1, 2}, 0}, Case{{0, 0, 1, 1}, 2},
                        Case{{0, 0, 1, 1}, 3}, Case{{0, 0, 0, 1}, 1}}) {
    INFO(c.hosts.size() << " ranks, rank " << c.still << " stands still");
    const Plugin plugin("reduces12");
    CommOptions options = collnet_only();
    options.op_timeout_s = 3;
    options.channels = 1;
    Started started = start(c.hosts, options);
    REQUIRE(started.errors() == "");
    std::vector<std::string> first(c.hosts.size());
    on_all(int(c.hosts.size()), [&](int r) {
      Communicator& comm = **(*started.ranks[size_t(r)]);
      Stream stream(comm);
      first[size_t(r)] = wrong_in(comm, stream, {.count = 1000});
      if (r != c.still) {
        (void)wrong_in(comm, stream, {.count = 1000});
        return;
      }
      const Deadline deadline = Deadline::after_seconds(30);
      while (comm.async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
    });
    for (size_t r = 0; r < c.hosts.size(); ++r) {
      CHECK(first[r] == "");
      const Status status = (**started.ranks[r])->async_error();
      REQUIRE_FALSE(status);
      INFO("rank " << r << ": " << status.error().chain());
      CHECK(status.error().code == ErrorCode::deadline);
      CHECK(status.error().rank == c.still);
    }
  }
}

TEST_CASE("collnet: a network that does not answer ends all ranks at the deadline", "[collnet]") {
  const Plugin plugin("reduces12");
  CommOptions options = collnet_only();
  options.op_timeout_s = 4;
  Started started = start({0, 0, 1, 1}, options);
  REQUIRE(started.errors() == "");
  const Variable stuck("FAKE_PLUGIN_NONSENSE", "stuck-group");
  on_all(4, [&](int r) {
    Communicator& comm = **(*started.ranks[size_t(r)]);
    Stream stream(comm);
    (void)wrong_in(comm, stream, {.count = 1000});
  });
  for (const auto& rank : started.ranks) {
    const Status status = (**rank)->async_error();
    REQUIRE_FALSE(status);
    INFO(status.error().chain());
    CHECK(status.error().code == ErrorCode::deadline);
    CHECK(status.error().message.find("waits for the in-network reduction") != std::string::npos);
  }
}

TEST_CASE("collnet: failures of closing are told and lose nothing", "[collnet]") {
  for (const char* call : {"closeColl", "collCloseListen", "collFinalize", "collDeregMr"}) {
    INFO(call);
    const Plugin plugin("reduces12");
    const Variable fail("FAKE_PLUGIN_FAIL", call);
    CHECK(on_hosts(hosts_of({1, 1}), collnet_only(), [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            if (std::string wrong = wrong_in(c, stream, {.count = 1000}); !wrong.empty())
              complaints.add(wrong);
          }) == "");
  }
}

TEST_CASE("collnet: ranks with different plugins", "[collnet]") {
  RankFacts facts{};
  Settings settings;
  settings.slot_bytes[0] = 4096;
  facts.info.nets = transport::kNetPlugin | transport::kNetCollNet;
  facts.reducer = {1, transport::reduction_bit(DataType::float32, RedOp::sum), 1 << 20};
  std::vector<RankFacts> all_facts(3, facts);
  for (int r = 0; r < 3; ++r) all_facts[size_t(r)].info.rank = r;
  const HostGroups hosts = {{0, 2}, {1}};
  const std::vector<ChannelShape> channels(2);
  const auto why = [&] { return join_reducers(0, all_facts, hosts, channels, settings).why_not; };
  CHECK(why() == "");
  all_facts[1].reducer.name_hash = 2;
  CHECK(why() == "rank 0 and rank 1 have different network plugins");
  all_facts[1] = all_facts[0];
  all_facts[1].reducer.serves = transport::reduction_bit(DataType::float32, RedOp::max);
  CHECK(why() == "the plugins of all ranks have no reduction in common");
  all_facts[1].reducer.serves = ~uint64_t{0};
  all_facts[2].info.nets = 0;
  CHECK(why() == "rank 2 uses no network plugin");
}

}  // namespace collnet_faults_tests
