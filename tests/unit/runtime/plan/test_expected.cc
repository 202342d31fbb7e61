// The time that an operation should take: the same for a plan that is shown and for one that runs,
// by the model where the machine is known, limited by the network's rate between hosts.
#include <cstring>

#include "runtime/plan/comm_shape.h"
#include "runtime/plan/rank_facts.h"
#include "tests/unit/runtime/plan/plan_shapes.h"

namespace plan_expected_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Expected expected(const CommShape& shape, Collective collective, uint64_t count) {
  const auto chosen = choose_collective({.collective = collective, .count = count}, shape, {});
  REQUIRE(chosen.ok());
  return chosen->expected;
}

// One rank on each of `nranks` hosts.
CommShape over_network(int nranks, double gbps, bool rdma = false) {
  CommShape shape = shape_of(0, nranks);
  shape.all_on_one_host = false;
  shape.path = {.used = true,
                .gbps = gbps,
                .ranks_per_host = 1,
                .rdma = rdma,
                .words = "eth0 of node03, 2 Gb/s"};
  return shape;
}

RankFacts facts_of(int rank, const char* host, const char* nic, float gbps, uint8_t nets = 0) {
  RankFacts facts{};
  facts.info.rank = rank;
  facts.info.nets = nets;
  std::strcpy(facts.info.host, host);
  add_network(facts, nic, double(gbps));
  return facts;
}

}  // namespace

TEST_CASE("what runs is expected to take what a plan shows") {
  CommShape shape = with_windows(shape_of(0, 4, 2));
  std::vector<float> in(1 << 20), out(1 << 20);
  for (const uint64_t count : {uint64_t{2}, uint64_t{1} << 10, uint64_t{1} << 20}) {
    const Operation op{.collective = Collective::all_reduce,
                       .input = in.data(),
                       .output = out.data(),
                       .count = count};
    const auto plan = make_plan({&op, 1}, shape, {});
    REQUIRE(plan.ok());
    const Expected shown = expected(shape, Collective::all_reduce, count);
    CHECK(plan->ops[0].expected.us == shown.us);
    CHECK(plan->ops[0].expected.us == plan->ops[0].expected_us);
    CHECK(plan->ops[0].expected.limited_by == shown.limited_by);
    CHECK_FALSE(shown.limited_by.empty());
  }
}

TEST_CASE("the model knows servers whose memory is in the table; of others it is a bound") {
  CommShape shape = with_windows(shape_of(0, 4));
  CHECK_FALSE(expected(shape, Collective::all_reduce, 64).modelled);
  CHECK(std::string(expected(shape, Collective::all_reduce, 64).source()) == "bound");
  shape.local.memory_gbps = 204.8;
  CHECK(expected(shape, Collective::all_reduce, 64).modelled);
  CommShape hosts = over_network(4, 0);
  hosts.local.memory_gbps = 204.8;
  CHECK_FALSE(expected(hosts, Collective::all_reduce, 64).modelled);
  CHECK(expected(shape_of(0, 1), Collective::all_reduce, 64).modelled);
}

TEST_CASE("over a network whose speed nobody knows it is an assumption, and says of what") {
  CommShape hosts = over_network(4, 0);
  hosts.path.words = "eth0 of node03";
  CHECK(std::string(expected(hosts, Collective::all_reduce, 64).source()) == "assumed");
  CHECK(expected(hosts, Collective::all_reduce, 64).unknown == "the speed of eth0 of node03");
  hosts.path.words.clear();
  CHECK(expected(hosts, Collective::all_reduce, 64).unknown ==
        "the speed of the network between hosts");
  CHECK(std::string(expected(over_network(4, 0.25), Collective::all_reduce, 64).source()) ==
        "bound");
  CHECK(expected(shape_of(0, 4), Collective::all_reduce, 64).unknown.empty());
  CHECK(expected(hosts, Collective::all_reduce, 64).host.block_us == 0);
}

TEST_CASE("between hosts the narrowest NIC limits, and is named") {
  constexpr uint64_t kCount = 4 << 20;  // 16 MiB of floats
  const Expected unknown = expected(over_network(4, 0), Collective::all_reduce, kCount);
  CHECK(unknown.limited_by == "sockets between hosts");
  const Expected slow = expected(over_network(4, 0.25), Collective::all_reduce, kCount);
  CHECK(slow.limited_by == "eth0 of node03, 2 Gb/s");
  // A ring moves 1.5 times the bytes at 0.25 GB/s; its hops are short beside that.
  const double bytes_us = 1.5 * 4 * kCount / 250.0;
  CHECK(slow.us > bytes_us);
  CHECK(slow.us < 1.01 * bytes_us);
  // A rate that sockets cannot fill limits nothing.
  CHECK(expected(over_network(4, 12.5), Collective::all_reduce, kCount).us == unknown.us);
  // RDMA does without the work of sockets.
  CHECK(expected(over_network(4, 12.5, true), Collective::all_reduce, kCount).us < unknown.us / 3);
  CHECK(expected(over_network(4, 12.5, true), Collective::all_reduce, 2).us <
        expected(over_network(4, 12.5), Collective::all_reduce, 2).us);
}

TEST_CASE("ranks of a host share its NIC where all of them send to other hosts") {
  CommShape shape = over_network(8, 0.25);
  const double alone = expected(shape, Collective::all_to_all, 1 << 20).us;
  shape.path.ranks_per_host = 4;
  CHECK(expected(shape, Collective::all_to_all, 1 << 20).us > 2 * alone);
}

TEST_CASE("the path between hosts is that of the host with the least") {
  const std::vector<RankFacts> facts = {
      facts_of(0, "node01", "mlx5_0", 25), facts_of(1, "node01", "mlx5_0", 25),
      facts_of(2, "node02", "mlx5_1", 12.5F), facts_of(3, "node03", "", 0)};
  const HostGroups hosts = {{0, 1}, {2}, {3}};
  const NetworkPath path = network_path(facts, hosts, {});
  CHECK(path.used);
  CHECK(path.gbps == 12.5);
  CHECK(path.words == "mlx5_1 of node02, 100 Gb/s");
  CHECK(path.ranks_per_host == 2);
  CHECK_FALSE(path.rdma);
  const std::vector<RankFacts> mute = {facts_of(0, "node01", "", 0),
                                       facts_of(1, "node02", "ens3", 0)};
  CHECK(network_path(mute, {{0}, {1}}, {}).gbps == 0);
  CHECK(network_path(mute, {{0}, {1}}, {}).words == "ens3 of node02");
  CHECK_FALSE(network_path(facts, {{0, 1, 2, 3}}, {}).used);
  Settings forced;
  forced.transport = "net";
  CHECK(network_path(facts, {{0, 1, 2, 3}}, forced).used);
  // Processes whose memory is apart.
  Settings apart;
  apart.shm_disabled = true;
  std::vector<RankFacts> local = facts;
  for (RankFacts& each : local) each.info.shm_device = 5;
  CHECK_FALSE(network_path(local, {{0, 1, 2, 3}}, apart).used);  // of one process
  local[3].info.process_hash = 7;
  CHECK(network_path(local, {{0, 1, 2, 3}}, apart).used);
  CHECK_FALSE(network_path(local, {{0, 1, 2, 3}}, {}).used);
  local[3].info.shm_device = 99;
  CHECK(network_path(local, {{0, 1, 2, 3}}, {}).used);
}

TEST_CASE("there is a channel for each interface that all ranks have") {
  std::vector<RankFacts> facts = {facts_of(0, "a", "eth0", 2), facts_of(1, "b", "eth0", 2)};
  for (RankFacts& each : facts) each.cores = 1;
  facts[0].info.host_hash = 1;
  facts[1].info.host_hash = 2;
  const auto channels = [&](int first, int second, int most = 0) {
    facts[0].socket_interfaces = uint8_t(first);
    facts[1].socket_interfaces = uint8_t(second);
    Settings settings;
    settings.max_channels = most;
    const CommShape shape =
        make_shape(0, facts, group_by_host(std::vector<uint64_t>{1, 2}), settings);
    return shape.default_channels;
  };
  CHECK(channels(1, 1) == 1);
  CHECK(channels(3, 3) == 3);
  CHECK(channels(6, 6) == 6);
  CHECK(channels(3, 2) == 2);
  CHECK(channels(0, 3) == 1);  // one rank has another network
  CHECK(channels(6, 6, 4) == 4);
}

TEST_CASE("channels share the network, and each has one interface of it") {
  const auto us = [](int interfaces, int channels) {
    CommShape shape = over_network(2, 0.2);
    shape.path.interfaces = interfaces;
    return predict_us({.collective = Collective::all_reduce,
                       .algorithm = kernels::AlgorithmId::ring,
                       .protocol = Protocol::simple,
                       .bytes = 100 << 20,
                       .chunk_bytes = 1 << 16,
                       .channels = channels},
                      shape);
  };
  CHECK(us(1, 2) == Approx(us(1, 1)).epsilon(0.01));
  CHECK(us(2, 2) == Approx(us(1, 1)).epsilon(0.01));
  CHECK(us(2, 1) == Approx(2 * us(2, 2)).epsilon(0.01));
}

}  // namespace plan_expected_tests
