// The CollNet algorithm over the plugins of tests/fake_plugins, whose network reduces in a process
// beside the ranks: right sums. The expected sums are added up here, element by element.
#include "tests/how_much.h"
#include "tests/unit/runtime_network/collnet_job.h"

namespace collnet_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("collnet: every type and operation, sizes with tails", "[collnet]") {
  const Plugin plugin("reduces12");
  CHECK(on_hosts(hosts_of({2, 2}), collnet_only(), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          for (int t = 0; t < kernels::kDataTypeCount; ++t)
            for (int o = 0; o < kernels::kRedOpCount; ++o)
              for (const uint64_t count : {0, 1, 17, 4099}) {
                const std::string wrong = wrong_in(
                    c, stream, {.count = count, .type = DataType(t), .op = RedOp(o)}, count == 17);
                if (!wrong.empty()) complaints.add(wrong);
              }
        }) == "");
  // Each channel's head gives its parts to the network; all that was calculated went through it.
  CHECK(plugin.reductions() >= 2 * 12 * 5 * 3);
}

TEST_CASE("collnet: hosts of one, two and three ranks, several channels", "[collnet]") {
  const auto all = {hosts_of({1, 1}), hosts_of({2, 2}),       hosts_of({3, 3}),
                    hosts_of({1, 3}), hosts_of({2, 2, 2, 2}), std::vector<int>{0, 1, 0, 1, 1}};
  for (const std::vector<int>& hosts : all) {
    const Plugin plugin("reduces12");
    CommOptions options = collnet_only();
    options.channels = 3;
    INFO(hosts.size() << " ranks");
    CHECK(on_hosts(hosts, options, [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            for (const uint64_t count : {1, 333, 100'003, 400'000}) {
              if (!test::nightly() && count == 400'000 && c.size() > 2) continue;
              for (const RedOp op : {RedOp::sum, RedOp::avg}) {
                const std::string wrong = wrong_in(c, stream, {.count = count, .op = op});
                if (!wrong.empty()) complaints.add(wrong);
              }
            }
            const Operation barrier{.collective = Collective::barrier};
            complaints.add(c.rank(), c.start(barrier, stream, Communicator::Launch::blocking));
          }) == "");
    CHECK(plugin.reductions() > 0);
  }
}

TEST_CASE("collnet: by each version of the interface", "[collnet]") {
  for (const std::string& name : reducing_plugins()) {
    INFO(name);
    const Plugin plugin(name);
    CHECK(on_hosts(hosts_of({2, 1}), collnet_only(), [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            complaints.add(c.rank(), Status());
            if (std::string wrong = wrong_in(c, stream, {.count = 70'001}); !wrong.empty())
              complaints.add(wrong);
            for (const LinkInfo& link : c.links())
              if (link.from == link.to && link.via.rfind("COLLNET/Sums/", 0) != 0)
                complaints.add("via " + link.via);
          }) == "");
    CHECK(plugin.reductions() > 0);
  }
}

TEST_CASE("collnet: operations that follow without waiting, small slots", "[collnet]") {
  const Plugin plugin("reduces12");
  const Variable steps("COLLCTL_STEPS", "2"), bytes("COLLCTL_BUFFSIZE", "2K");
  CHECK(on_hosts(hosts_of({2, 2}), collnet_only(), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          std::vector<int64_t> a(3000, 1), b(3000);
          Operation op{.count = a.size(), .type = DataType::int64};
          for (int i = 0; i < 6; ++i) {
            op.input = i % 2 == 0 ? a.data() : b.data();
            op.output = i % 2 == 0 ? b.data() : a.data();
            complaints.add(c.rank(), c.start(op, stream));
          }
          complaints.add(c.rank(), stream.synchronize());
          for (const int64_t x : a)
            if (x != 4096) return complaints.add(format("{} is not 4^6", x));
        }) == "");
}

TEST_CASE("collnet: chosen later", "[collnet]") {
  const Plugin plugin("reduces12");
  CommOptions options;
  options.algo = "one-shot";  // which needs no links, and is not there on two hosts
  CHECK(on_hosts(hosts_of({2, 2}), options, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          if (wrong_in(c, stream, {.count = 9}) == "") complaints.add("one-shot between hosts");
          for (int times = 0; times < 2; ++times) {
            complaints.add(c.rank(), c.set_choices("collnet", "", 2));
            if (std::string wrong = wrong_in(c, stream, {.count = 90'001}); !wrong.empty())
              complaints.add(wrong);
          }
        }) == "");
  CHECK(plugin.reductions() > 0);
}

TEST_CASE("collnet: what the network does not reduce is refused by all ranks", "[collnet]") {
  const Plugin plugin("reduces12");
  const Variable ops("FAKE_PLUGIN_REDUCES", "max"), types("FAKE_PLUGIN_TYPES", "7,2");
  CHECK(on_hosts(hosts_of({1, 2}), collnet_only(), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const auto refused = [&](DataType type, RedOp op, const std::string& why) {
            const std::string said = wrong_in(c, stream, {.count = 5, .type = type, .op = op});
            if (said.find(why) == std::string::npos) complaints.add("said: " + said);
          };
          refused(DataType::float32, RedOp::sum, "the network does not support sum of float32");
          refused(DataType::float32, RedOp::avg, "the network does not support avg of float32");
          refused(DataType::float8e4m3, RedOp::max,
                  "the network does not support max of float8e4m3");
          const std::string wrong = wrong_in(c, stream, {.count = 77, .op = RedOp::max});
          if (!wrong.empty()) complaints.add(wrong);
        }) == "");
}

// Channel 0's head of a host of three is its first rank, channel 1's the second: by hand.
TEST_CASE("collnet: heads and chains", "[collnet]") {
  const HostGroups hosts = {{0, 2, 5}, {1, 3}, {4}};
  CHECK(chain_heads(chains_in_order(hosts, 0)) == std::vector<int32_t>{0, 1, 4});
  CHECK(chain_heads(chains_in_order(hosts, 1)) == std::vector<int32_t>{2, 3, 4});
  CHECK(chain_heads(chains_in_order(hosts, 2)) == std::vector<int32_t>{5, 1, 4});
  const auto is = [&](int rank, int channel, int up, int down) {
    const kernels::TreeLinks links = chain_links(chains_in_order(hosts, channel), rank);
    CHECK(links.up == up);
    CHECK(links.down[0] == down);
    CHECK(links.down[1] == -1);
  };
  is(0, 0, 0, 2);
  is(2, 0, 0, 5);
  is(5, 0, 2, -1);
  is(2, 1, 2, 5);
  is(5, 1, 2, 0);
  is(0, 1, 5, -1);
  is(1, 0, 1, 3);
  is(3, 0, 1, -1);
  is(4, 3, 4, -1);
}

}  // namespace collnet_tests
