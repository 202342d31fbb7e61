// Where CPU ranks sit, and what the cost model makes of it.
#include <numeric>

#include "base/processors.h"
#include "kernels/algo/ids.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/cpu_places.h"
#include "runtime/plan/rank_facts.h"
#include "tests/catch.h"

namespace collctl::runtime::plan_cpu_places_tests {
namespace {

// Two sockets, each one NUMA node with two caches of four processors: 0-3 4-7 | 8-11 12-15.
base::Processors two_sockets() {
  base::Processors machine;
  machine.model = {.vendor = "GenuineIntel", .name = "", .family = 6, .model = 0x8F};
  machine.cache_bytes = uint64_t{32} << 20;
  machine.packages = 2;
  machine.nodes.resize(2);
  for (int id = 0; id < 16; ++id) {
    machine.online.push_back(
        {.id = id, .package = id / 8, .core = id, .numa = id / 8, .cache_domain = id / 4 * 4});
    machine.nodes[size_t(id / 8)].processors.push_back(id);
  }
  return machine;
}

std::vector<CpuPlace> bound_to(const std::vector<int>& processors) {
  const base::Processors machine = two_sockets();
  std::vector<CpuPlace> places;
  for (const int id : processors) places.push_back(cpu_place(machine, std::vector<int>{id}));
  return places;
}

HostGroups one_host(size_t ranks) {
  HostGroups hosts(1);
  hosts[0].resize(ranks);
  std::iota(hosts[0].begin(), hosts[0].end(), 0);
  return hosts;
}

}  // namespace

TEST_CASE("a rank's place follows from the processors it may run on") {
  const base::Processors machine = two_sockets();
  const CpuPlace bound = cpu_place(machine, std::vector<int>{13});
  CHECK(bound.package == 1);
  CHECK(bound.numa == 1);
  CHECK(bound.cache == 12);
  CHECK(Nearness(bound.span) == Nearness::cache);
  CHECK(bound.cache_kib == 32 << 10);
  CHECK(bound.memory_gbps == 307.2F);  // eight channels of DDR5-4800: 8 x 8 B x 4.8e9
  CHECK(bound.socket_gbps == 22.F);    // Sapphire Rapids
  CHECK(Nearness(cpu_place(machine, std::vector<int>{0, 3}).span) == Nearness::cache);
  CHECK(Nearness(cpu_place(machine, std::vector<int>{0, 4}).span) == Nearness::socket);
  CHECK(Nearness(cpu_place(machine, std::vector<int>{0, 15}).span) == Nearness::host);
  CHECK(cpu_place(machine, std::vector<int>{99}).cache_kib == 0);
}

TEST_CASE("the farthest of both ranks' processors says how near they are") {
  const auto p = bound_to({0, 1, 4, 8});
  CHECK(nearness(p[0], p[1]) == Nearness::cache);
  CHECK(nearness(p[0], p[2]) == Nearness::socket);
  CHECK(nearness(p[0], p[3]) == Nearness::host);
  const CpuPlace anywhere = cpu_place(two_sockets(), std::vector<int>{0, 1, 12});
  CHECK(nearness(anywhere, p[1]) == Nearness::host);
}

TEST_CASE("rings keep near ranks together whatever their numbers") {
  // An engine that deals ranks to the sockets in turn.
  const auto places = bound_to({0, 8, 1, 9, 4, 12});
  const HostGroups near = by_nearness(one_host(6), places);
  CHECK(near[0] == std::vector<int32_t>{0, 2, 4, 1, 3, 5});
  const LocalLinks links = local_links(near, places);
  CHECK(links.crossings == 1);  // there and back: one edge in each direction
  CHECK(links.ranks_per_node == 3);
  CHECK(Nearness(links.farthest) == Nearness::host);
  CHECK(links.cache_bytes == size_t{16} << 20);  // two ranks on one cache of 32 MiB
  // In rank order every edge would cross: three in each direction.
  CHECK(local_links(one_host(6), places).crossings == 3);
}

TEST_CASE("the worst host counts, and what no rank knows stays unknown") {
  auto places = bound_to({0, 1, 0, 8});
  const HostGroups hosts{{0, 1}, {2, 3}};
  CHECK(local_links(hosts, places).crossings == 1);
  for (CpuPlace& place : places) place.memory_gbps = 0;
  CHECK(local_links(hosts, places).memory_gbps == 0);
  places[2].memory_gbps = 100;
  CHECK(local_links(hosts, places).memory_gbps == 100);
}

TEST_CASE("a place from the network is made safe") {
  CpuPlace place{};
  place.span = 200;
  place.memory_gbps = std::numeric_limits<float>::quiet_NaN();
  place.socket_gbps = -4;
  sanitize(place);
  CHECK(Nearness(place.span) == Nearness::host);
  CHECK(place.memory_gbps == 0);
  CHECK(place.socket_gbps == 0);
}

TEST_CASE("ranks that are bound to cores of their own share none") {
  std::vector<RankFacts> all_facts(4, RankFacts{});
  const HostGroups hosts{{0, 1, 2, 3}};
  const auto bind = [&](size_t rank, int first, int last) {
    all_facts[rank].core_bits[0] = (uint64_t{2} << last) - (uint64_t{1} << first);
    all_facts[rank].cores = last - first + 1;
    all_facts[rank].sharing_ranks = 4;
  };
  for (size_t r = 0; r < 4; ++r) bind(r, 0, 1);
  CHECK(crowding_of(all_facts, hosts).ranks_per_core == 2);
  for (size_t r = 0; r < 4; ++r) bind(r, int(2 * r), int(2 * r) + 1);
  CHECK(crowding_of(all_facts, hosts).ranks_per_core == 1 - 0.5);
  CHECK(crowding_of(all_facts, hosts).cores_per_rank == 2);
  for (const int r : hosts[0]) CHECK(has_own_cores(all_facts, hosts[0], r));
  bind(3, 0, 0);  // one strays onto the first one's core
  CHECK_FALSE(has_own_cores(all_facts, hosts[0], 0));
  CHECK(has_own_cores(all_facts, hosts[0], 1));
  CHECK(crowding_of(all_facts, hosts).ranks_per_core == 2);
  all_facts[1].core_bits[0] = 0;  // not known: anywhere
  CHECK_FALSE(has_own_cores(all_facts, hosts[0], 2));
  // Threads of a core are often numbered far apart: what lies between is somebody else's.
  for (size_t r = 0; r < 4; ++r) all_facts[r].core_bits[0] = uint64_t{0x1001} << r;
  for (const int r : hosts[0]) CHECK(has_own_cores(all_facts, hosts[0], r));
  // Ranks of other groups are there as well (Communicator::split).
  CHECK(core_ranks(all_facts, hosts[0], 2) == 1);
  all_facts[2].core_ranks = 6;
  CHECK(core_ranks(all_facts, hosts[0], 2) == 6);
  CHECK_FALSE(has_own_cores(all_facts, hosts[0], 2));
  CHECK(crowding_of(all_facts, hosts).ranks_per_core == 3);
}

TEST_CASE("far cores, crowded sockets and memory make an all-reduce dearer") {
  CommShape shape;
  shape.nranks = 8;
  shape.tree_depth = 3;
  const auto us = [&](uint64_t bytes, kernels::Protocol protocol) {
    return predict_us({.collective = kernels::Collective::all_reduce,
                       .algorithm = kernels::AlgorithmId::ring,
                       .protocol = protocol,
                       .bytes = bytes,
                       .chunk_bytes = 1 << 16,
                       .channels = 1},
                      shape);
  };
  // 14 steps; a hop of LL: 0.01 us of work and four lines of 25 ns; 2 x 7/8 x 8 bytes are nothing.
  CHECK(us(8, kernels::Protocol::ll) == Approx(0.1 + 14 * 0.11).epsilon(0.01));
  shape.local.farthest = uint8_t(Nearness::host);  // 200 ns a line
  CHECK(us(8, kernels::Protocol::ll) == Approx(0.1 + 14 * 0.81).epsilon(0.01));
  // 16 MiB over one link of 4 GB/s in place of 7: 2 x 7/8 x 16 MiB / 4e3 bytes per us.
  const uint64_t big = 16 << 20;
  shape.local.crossings = 1;
  shape.local.socket_gbps = 4;
  const double moved = 1.75 * double(big);
  CHECK(us(big, kernels::Protocol::simple) == Approx(0.1 + 14 * 0.87 + moved / 4e3).epsilon(0.001));
  // Eight ranks on one memory of 24 GB/s, three touches a byte: 1 GB/s each.
  shape.local.memory_gbps = 24;
  shape.local.ranks_per_node = 8;
  shape.local.cache_bytes = 1 << 20;
  CHECK(us(big, kernels::Protocol::simple) == Approx(0.1 + 14 * 0.87 + moved / 1e3).epsilon(0.001));
  // Data that fits the caches does not go to memory.
  const double small = 1.75 * (256 << 10);
  CHECK(us(256 << 10, kernels::Protocol::simple) ==
        Approx(0.1 + 14 * 0.87 + small / 4e3).epsilon(0.001));
}

}  // namespace collctl::runtime::plan_cpu_places_tests
