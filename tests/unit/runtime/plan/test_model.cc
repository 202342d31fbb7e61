// The model of GPU ranks: times by hand from the constants' sources (written out again here), and
// the choice against trying everything.
#include "runtime/plan/model.h"

#include <cmath>

#include "kernels/algo/algorithms.h"
#include "runtime/plan/cost_table.h"
#include "tests/catch.h"

namespace plan_model_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;
using topology::CpuMaker;
using topology::PathType;
using topology::Pattern;

namespace {

// Eight A100 behind an NVSwitch: 12 channels of 20 GB/s.
ModelInput one_node() {
  ModelInput in;
  in.ranks = in.largest_node = 8;
  in.channels = in.full_channels = 24;
  in.min_sm = in.max_sm = 80;
  in.cpu = CpuMaker::amd;
  in.tree_pattern = Pattern::balanced_tree;
  in.ring = {.channels = 12,
             .bw_intra = 20,
             .bw_inter = 20,
             .type_intra = PathType::nvl,
             .type_inter = PathType::pix,
             .busiest_link = "GPU/0 -> NVS/0"};
  in.tree = in.ring;
  return in;
}

// Four nodes of eight H100 with eight 400 Gb/s NICs: 8 channels of 48 GB/s.
ModelInput four_nodes() {
  ModelInput in = one_node();
  in.nodes = 4;
  in.ranks = 32;
  in.min_sm = in.max_sm = 90;
  in.cpu = CpuMaker::intel;
  in.channels = in.full_channels = 16;
  in.ring.channels = in.tree.channels = 8;
  in.ring.bw_intra = in.ring.bw_inter = 48;
  in.tree.bw_intra = 60;
  in.tree.bw_inter = 48;
  return in;
}

double us(const ModelInput& in, AlgorithmId algorithm, Protocol protocol, uint64_t bytes,
          Collective collective = Collective::all_reduce) {
  INFO(unavailable(in, algorithm, protocol, collective));
  REQUIRE(unavailable(in, algorithm, protocol, collective).empty());
  const Estimate made = estimate(in, algorithm, protocol, collective, bytes);
  CHECK(made.us >= made.latency_us);
  CHECK_FALSE(made.limited_by.empty());
  return made.us;
}

constexpr uint64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("all-reduce on one node, by hand", "[model]") {
  const ModelInput in = one_node();
  const double bytes = 128 * kMiB;
  // Ring: 14 hops; 12 x 20 = 240 GB/s on each link, which carries 14/8 of the bytes.
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 128 * kMiB) ==
        Approx(8.4 + 14 * 3.4 + bytes / 1000 / (240 * 8.0 / 14)));
  // LL: half of 240 is more than the 87.7 GB/s that LL moves on Ampere.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 128 * kMiB) ==
        Approx(6.6 + 14 * 0.6 + bytes / 1000 / (87.7 * 8.0 / 14)));
  // LL128: 0.92 x 240 = 220.8, below 12 x 20.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll128, 128 * kMiB) ==
        Approx(14 + 14 * 1.9 + bytes / 1000 / (220.8 * 8.0 / 14)));
  // Tree: 7 hops up and 7 down; 0.92 x 240 = 220.8, below 12 x 24; half for the two ways; 0.9 of it
  // at 128 MiB (2^27 / 64 = 2^21).
  CHECK(us(in, AlgorithmId::tree, Protocol::simple, 128 * kMiB) ==
        Approx(8.4 + 14 * 4.0 + bytes / 1000 / (220.8 / 2 * 0.9)));
  // LL: / 3.8 = 58.1, below 87.7; all of it at 128 MiB.
  CHECK(us(in, AlgorithmId::tree, Protocol::ll, 128 * kMiB) ==
        Approx(6.8 + 14 * 0.6 + bytes / 1000 / (220.8 / 3.8 / 2)));
  // LL128: x 7/9 = 171.7; all of it at 128 MiB.
  CHECK(us(in, AlgorithmId::tree, Protocol::ll128, 128 * kMiB) ==
        Approx(14 + 14 * 1.25 + bytes / 1000 / (220.8 * 7 / 9 / 2)));
  // At 512 KiB (2^19 / 64 = 2^13) Simple trees have half, LL 0.4, LL128 0.6.
  CHECK(us(in, AlgorithmId::tree, Protocol::simple, kMiB / 2) ==
        Approx(8.4 + 14 * 4.0 + 524288 / 1000.0 / (220.8 / 2 * 0.5)));
  CHECK(us(in, AlgorithmId::tree, Protocol::ll, kMiB / 2) ==
        Approx(6.8 + 14 * 0.6 + 524288 / 1000.0 / (220.8 / 3.8 / 2 * 0.4)));
  CHECK(us(in, AlgorithmId::tree, Protocol::ll128, kMiB / 2) ==
        Approx(14 + 14 * 1.25 + 524288 / 1000.0 / (220.8 * 7 / 9 / 2 * 0.6)));
  // Nothing to move: the latency alone.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 0) == Approx(15));
}

TEST_CASE("all-reduce between nodes, by hand", "[model]") {
  ModelInput in = four_nodes();
  const double bytes = 64 * kMiB;
  // Ring of 32: 62 hops, of which 2 x 3 leave a node (14 us). The others cost what NVLink does, but
  // at least 3 x 1 us for the host's part: 3.4. Plateau x 1.4: 64 MiB / (16 x 32) is above 64 B.
  const double hops = 56 * 3.4 + 6 * 14;
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 64 * kMiB) ==
        Approx((8.4 + hops) * 1.4 + bytes / 1000 / (8 * 48 * 32.0 / 62)));
  // 16 x 32 x 64 = 32768 bytes: the plateau begins.
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 32767) ==
        Approx(8.4 + hops + 32767 / 1000.0 / (8 * 48 * 32.0 / 62)));
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 32768) ==
        Approx((8.4 + hops) * 1.4 + 32768 / 1000.0 / (8 * 48 * 32.0 / 62)));
  // LL: the host's 1 us is more than NVLink's 0.6; 20.4 GB/s at most on 3 nodes and more.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 64 * kMiB) ==
        Approx(6.6 + 56 * 1.0 + 6 * 2.7 + bytes / 1000 / (20.4 * 32.0 / 62)));
  // AMD CPUs: 2 us a step (6 with Simple), 19 GB/s of LL.
  in.cpu = CpuMaker::amd;
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 64 * kMiB) ==
        Approx((8.4 + 56 * 6.0 + 6 * 14) * 1.4 + bytes / 1000 / (8 * 48 * 32.0 / 62)));
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 64 * kMiB) ==
        Approx(6.6 + 56 * 2.0 + 6 * 2.7 + bytes / 1000 / (19 * 32.0 / 62)));
  in.cpu = CpuMaker::intel;
  // LL128: 0.92 x 384 = 353.3, but 8 x 36.7 = 293.6 at most.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll128, 64 * kMiB) ==
        Approx(14 + 56 * 1.9 + 6 * 4.0 + bytes / 1000 / (293.6 * 32.0 / 62)));
  // Tree: 7 hops inside and log2 4 = 2 between, each way. 48 x 8 x 0.92 = 353.3, but 8 x 36 = 288
  // at most; half; 0.8 at 64 MiB (2^26 / 64 = 2^20).
  CHECK(us(in, AlgorithmId::tree, Protocol::simple, 64 * kMiB) ==
        Approx(8.4 + 14 * 4.0 + 4 * 14 + bytes / 1000 / (288 / 2.0 * 0.8)));
  // A plain tree has one GPU for all traffic: x 0.85.
  in.tree_pattern = Pattern::tree;
  CHECK(us(in, AlgorithmId::tree, Protocol::simple, 64 * kMiB) ==
        Approx(8.4 + 14 * 4.0 + 4 * 14 + bytes / 1000 / (288 / 2.0 * 0.8 * 0.85)));
  in.tree_pattern = Pattern::balanced_tree;
  // LL128: 288 x 120/128 = 270, but 8 x 29 = 232 on 3 nodes and more; 0.9 at 64 MiB.
  CHECK(us(in, AlgorithmId::tree, Protocol::ll128, 64 * kMiB) ==
        Approx(14 + 14 * 1.25 + 4 * 8.5 + bytes / 1000 / (232 / 2.0 * 0.9)));
  // Five nodes: three levels, not the two of a rounded-down logarithm.
  in.nodes = 5;
  in.ranks = 40;
  CHECK(us(in, AlgorithmId::tree, Protocol::ll, 0) == Approx(6.8 + 14 * 0.6 + 6 * 5.0));
  // Two nodes: a tree's link carries one way each, so it counts by the 60 GB/s inside: 8 x 60 x
  // 0.92 = 441.6, but 8 x 41.4 = 331.2 at most.
  in.nodes = 2;
  in.ranks = 16;
  CHECK(us(in, AlgorithmId::tree, Protocol::simple, 64 * kMiB) ==
        Approx(8.4 + 14 * 4.0 + 2 * 14 + bytes / 1000 / (331.2 / 2 * 0.8)));
  // But never by more than twice the network's: 8 x 2 x 10 x 0.92.
  ModelInput narrow = in;
  narrow.tree.bw_inter = 10;
  CHECK(us(narrow, AlgorithmId::tree, Protocol::simple, 64 * kMiB) ==
        Approx(8.4 + 14 * 4.0 + 2 * 14 + bytes / 1000 / (147.2 / 2 * 0.8)));
  // The network device's own latency; Simple flushes too.
  in.ring.latency_inter_us = 2;
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 0) == Approx(6.6 + 28 * 1.0 + 2 * (2.7 + 2)));
  CHECK(us(in, AlgorithmId::ring, Protocol::simple, 0) == Approx(8.4 + 28 * 3.4 + 2 * (14 + 4)));
  // One GPU a node: nothing hides the network, a hop costs what a tree's does (LL 5 us).
  in.ring.latency_inter_us = 0;
  in.ranks = 2;
  in.largest_node = 1;
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 0) == Approx(6.6 + 2 * 5.0));
}

TEST_CASE("other collectives, by hand", "[model]") {
  ModelInput in = one_node();
  const double bytes = 8 * kMiB;
  // n-1 hops; each link carries (n-1)/n of all bytes.
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter})
    CHECK(us(in, AlgorithmId::ring, Protocol::simple, 8 * kMiB, c) ==
          Approx(8.4 + 7 * 3.4 + bytes / 1000 / (240 * 8.0 / 7)));
  for (const Collective c : {Collective::broadcast, Collective::reduce})
    CHECK(us(in, AlgorithmId::ring, Protocol::simple, 8 * kMiB, c) ==
          Approx(8.4 + 7 * 3.4 + bytes / 1000 / 240));
  // 7 messages on 24 channels: one round; a GPU keeps 1/8 of its data.
  for (const Collective c : {Collective::all_to_all, Collective::gather, Collective::scatter})
    CHECK(us(in, AlgorithmId::pairwise, Protocol::simple, 8 * kMiB, c) ==
          Approx(8.4 + 3.4 + bytes / 1000 / 240 * 7 / 8));
  CHECK(us(in, AlgorithmId::pairwise, Protocol::simple, 8 * kMiB, Collective::send_recv) ==
        Approx(8.4 + 3.4 + bytes / 1000 / 240));
  // Between four nodes: 24 of 32 blocks leave by an eighth of 8 x 48 GB/s; 31 messages on 16
  // channels are two rounds.
  in = four_nodes();
  CHECK(us(in, AlgorithmId::pairwise, Protocol::simple, 8 * kMiB, Collective::all_to_all) ==
        Approx(8.4 + 2 * 14 + bytes / 1000 / 48 * 24 / 32));
  CHECK(us(in, AlgorithmId::pairwise, Protocol::simple, 8 * kMiB, Collective::send_recv) ==
        Approx(8.4 + 14 + bytes / 1000 / 48));
  // Broadcast: 31 hops, 3 of them between nodes.
  CHECK(us(in, AlgorithmId::ring, Protocol::ll, 0, Collective::broadcast) ==
        Approx(6.6 + 28 * 1.0 + 3 * 2.7));
}

TEST_CASE("the table that NCCL 2.28.9 prints for two H200 on NVSwitches (NVLS off)", "[model]") {
  // Its log: "Pattern 4, ... nChannels 12, bw 30/30, type NVL", "Pattern 1, ... nChannels 12, bw
  // 60/60", 24 channels; latency in us and GB/s, to a tenth.
  ModelInput in = one_node();
  in.ranks = in.largest_node = 2;
  in.min_sm = in.max_sm = 90;
  in.ring.bw_intra = in.ring.bw_inter = 30;
  in.tree.bw_intra = in.tree.bw_inter = 60;
  struct Printed {
    Collective collective;
    AlgorithmId algorithm;
    Protocol protocol;
    double latency_us, gbps;
  };
  const AlgorithmId ring = AlgorithmId::ring, tree = AlgorithmId::tree;
  const Protocol ll = Protocol::ll, ll128 = Protocol::ll128, simple = Protocol::simple;
  for (const Printed& row : {Printed{Collective::all_reduce, tree, ll, 8.0, 61.1},
                             {Collective::all_reduce, tree, ll128, 16.5, 180.6},
                             {Collective::all_reduce, tree, simple, 16.4, 232.2},
                             {Collective::all_reduce, ring, ll, 7.8, 141.0},
                             {Collective::all_reduce, ring, ll128, 17.8, 331.2},
                             {Collective::all_reduce, ring, simple, 15.2, 360.0},
                             {Collective::all_gather, ring, ll, 7.2, 282.0},
                             {Collective::all_gather, ring, ll128, 15.9, 662.4},
                             {Collective::reduce_scatter, ring, simple, 11.8, 720.0},
                             {Collective::broadcast, ring, ll, 7.2, 141.0},
                             {Collective::broadcast, ring, ll128, 15.9, 331.2},
                             {Collective::reduce, ring, simple, 11.8, 360.0}}) {
    INFO(name_of(row.collective) << " " << name_of(row.algorithm) << " " << name_of(row.protocol));
    // 512 MiB and more: no correction by size.
    const Estimate made =
        estimate(in, row.algorithm, row.protocol, row.collective, uint64_t{1} << 30);
    CHECK(std::abs(made.latency_us - row.latency_us) < 0.0501);
    CHECK(std::abs(made.gbps - row.gbps) < 0.0501);
  }
  // "AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}"
  const auto choice = choose(in, {}, Collective::all_reduce, 4 * kMiB);
  REQUIRE(choice.ok());
  CHECK(choice->algorithm == ring);
  CHECK(choice->protocol == simple);
  CHECK(choice->channels == 24);
}

TEST_CASE("every row of constants that can be asked for is there", "[model]") {
  for (const int sm : {60, 70, 80, 90, 100, 120})
    for (const int nodes : {1, 2, 3, 4, 100}) {
      for (const CapId cap :
           {CapId::ring_ll128_channel, CapId::tree_ll128_channel, CapId::tree_channel})
        CHECK(cap_gbps(cap, generation_of(sm), nodes) > 0);
      if (nodes > 1) CHECK(ll_cap_between_nodes(nodes % 2 == 0, nodes) > 0);
    }
  for (const int sm : {60, 80, 90, 100}) CHECK(cap_gbps(CapId::ll_total, generation_of(sm), 1) > 0);
  CHECK(generation_of(0) == Generation::volta);
  CHECK(generation_of(89) == Generation::ampere);
  CHECK(generation_of(103) == Generation::blackwell);
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    CHECK(threads_of(Protocol(p)).most % kWarp == 0);
    for (int shift = 0; shift < 64; ++shift) {
      CHECK(tree_share(Protocol(p), uint64_t{1} << shift) >= 0.4);
      CHECK(tree_share(Protocol(p), uint64_t{1} << shift) <= 1);
    }
  }
}

TEST_CASE("what limits is said", "[model]") {
  const ModelInput in = one_node();
  const auto limit = [&](const ModelInput& input, Protocol protocol, uint64_t bytes) {
    return estimate(input, AlgorithmId::ring, protocol, Collective::all_reduce, bytes).limited_by;
  };
  CHECK(limit(in, Protocol::simple, 128 * kMiB) == "bandwidth: 12 x 20 GB/s, by GPU/0 -> NVS/0");
  CHECK(limit(in, Protocol::ll, 128 * kMiB) == "ll moves at most 87.7 GB/s on one node");
  CHECK(limit(in, Protocol::ll128, 128 * kMiB) ==
        "bandwidth: 12 x 20 GB/s, by GPU/0 -> NVS/0, x 0.92 by ll128");
  CHECK(limit(in, Protocol::simple, 8) == "latency: 14 hops in the node of 3.4 us");
  CHECK(limit(four_nodes(), Protocol::simple, 8) ==
        "latency: 56 hops in the node of 3.4 us, 6 hops between nodes of 14 us");
  ModelInput few = in;
  few.channels = 6;
  CHECK(limit(few, Protocol::simple, 128 * kMiB) == "channels: 6 of 24 in use");
  // A quarter of the channels, a quarter of the bandwidth.
  CHECK(estimate(few, AlgorithmId::ring, Protocol::simple, Collective::all_reduce, kMiB).gbps ==
        Approx(240 * 8.0 / 14 / 4));
}

TEST_CASE("what is not offered says why", "[model]") {
  const auto why = [](const ModelInput& in, AlgorithmId a, Protocol p, Collective c) {
    return unavailable(in, a, p, c);
  };
  const Collective sum = Collective::all_reduce;
  ModelInput in = one_node();
  CHECK(why(in, AlgorithmId::tree, Protocol::ll, Collective::all_gather) ==
        "tree does not support allgather");
  CHECK(why(in, AlgorithmId::doubling, Protocol::ll, sum) == "doubling has no model on GPU ranks");
  CHECK(why(in, AlgorithmId::pairwise, Protocol::ll128, Collective::all_to_all) ==
        "pairwise does not support ll128");
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) == "");
  in.min_sm = 60;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) == "ll128 needs SM 70, not 60");
  in.min_sm = 75;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) ==
        "ll128 needs equal GPUs, not SM 75 and 80");
  in = one_node();
  in.ring.type_intra = PathType::phb;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) ==
        "ll128 needs NVLink between GPUs, not PHB");
  in = one_node();
  in.nodes = 2;
  in.ring.type_inter = PathType::pxn;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) ==
        "ll128 needs PXB to the network, not PXN");
  in.min_sm = in.max_sm = 90;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) == "");
  in.tree.type_inter = PathType::p2c;
  CHECK(
      why(in, AlgorithmId::ring, Protocol::ll128, sum).starts_with("ll128 does not go over P2C: "));
  in.through_host = true;
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) ==
        "ll128 needs P2P between the GPUs of a host");
  in.through_host = false;
  in.no_network_lines = "the network is made of string";
  CHECK(why(in, AlgorithmId::ring, Protocol::ll128, sum) == in.no_network_lines);
  CHECK(why(in, AlgorithmId::ring, Protocol::simple, sum) == "");
  in.ranks = in.nodes = 1;
  CHECK(why(in, AlgorithmId::tree, Protocol::simple, sum) == "tree needs two ranks");
}

TEST_CASE("the choice is the least of all times, for every size and collective", "[model]") {
  for (const ModelInput& in : {one_node(), four_nodes()})
    for (int c = 0; c < kernels::kCollectiveCount; ++c)
      for (uint64_t bytes = 1; bytes <= uint64_t{8} << 30; bytes *= 3) {
        const auto choice = choose(in, {}, Collective(c), bytes);
        REQUIRE(choice.ok());
        double least = INFINITY;
        for (int a = 0; a < kernels::kAlgorithmCount; ++a)
          for (int p = 0; p < kernels::kProtocolCount; ++p) {
            if (kernels::find_algorithm(kernels::name_of(AlgorithmId(a))) == nullptr) continue;
            if (!unavailable(in, AlgorithmId(a), Protocol(p), Collective(c)).empty()) continue;
            least =
                std::min(least, estimate(in, AlgorithmId(a), Protocol(p), Collective(c), bytes).us);
          }
        REQUIRE(choice->expected.us == least);
        REQUIRE(choice->threads >= 96);
        REQUIRE(choice->threads <= 640);
        REQUIRE(choice->channels >= 1);
        REQUIRE(choice->channels <= in.channels);
        REQUIRE_FALSE(choice->why.empty());
      }
}

TEST_CASE("small is LL, large is Simple, and choices are honoured", "[model]") {
  const ModelInput in = one_node();
  const auto small = choose(in, {}, Collective::all_reduce, 8);
  CHECK(small->protocol == Protocol::ll);
  // LL on one node: ring 15 us, tree 6.8 + 8.4 = 15.2 us.
  CHECK(small->algorithm == AlgorithmId::ring);
  CHECK(small->why == "ring ll; next tree ll: 15.2 us (+1.33 %)");
  const auto large = choose(in, {}, Collective::all_reduce, uint64_t{1} << 30);
  CHECK(large->algorithm == AlgorithmId::ring);
  CHECK(large->protocol == Protocol::simple);
  Choices choice = *parse_choices("tree", "simple", 0);
  CHECK(choose(in, choice, Collective::all_reduce, 8)->algorithm == AlgorithmId::tree);
  CHECK(choose(in, choice, Collective::all_reduce, 8)->why ==
        "tree simple: nothing else that supports it was allowed");
  const auto none = choose(in, choice, Collective::all_gather, 8);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::usage);
  CHECK(none.error().message ==
        "no algorithm is left for allgather (algorithm 'tree', protocol 'simple'): tree does not "
        "support "
        "allgather");
  choice = *parse_choices("doubling", "", 0);
  CHECK(choose(in, choice, Collective::all_reduce, 8).error().message ==
        "no algorithm is left for allreduce (algorithm 'doubling', any protocol): doubling has no "
        "model "
        "on GPU ranks");
}

TEST_CASE("channels and threads, by hand", "[model]") {
  const ModelInput in = one_node();
  const auto sizes = [&](const char* algo, const char* proto, uint64_t bytes, int channels = 0) {
    const auto choice =
        choose(in, *parse_choices(algo, proto, channels), Collective::all_reduce, bytes);
    REQUIRE(choice.ok());
    return std::pair{choice->channels, choice->threads};
  };
  // Ring Simple: 512 threads of 64 bytes are 32 KiB a channel; one more warp for the counters.
  CHECK(sizes("ring", "simple", 24 * 32768) == std::pair{24, 544});
  CHECK(sizes("ring", "simple", 24 * 32768 - 1) == std::pair{23, 544});
  CHECK(sizes("ring", "simple", 65536) == std::pair{2, 544});
  // One channel, then fewer threads: 128 x 64 = 8 KiB.
  CHECK(sizes("ring", "simple", 8192) == std::pair{1, 160});
  // 128 is halved to 64, which no longer divides by 128; three warps at least.
  CHECK(sizes("ring", "simple", 8) == std::pair{1, 96});
  // LL rings: 8 bytes a rank and thread: 512 x 64.
  CHECK(sizes("ring", "ll", 3 * 32768) == std::pair{3, 512});
  CHECK(sizes("ring", "ll", 8) == std::pair{1, 96});
  // LL128: 640 x 8 bytes. 640 is halved to 320, which 128 does not divide.
  CHECK(sizes("ring", "ll128", 10 * 5120) == std::pair{10, 640});
  CHECK(sizes("ring", "ll128", 8) == std::pair{1, 320});
  // Trees have all threads; 512 x 64 bytes a channel.
  CHECK(sizes("tree", "simple", 5 * 32768) == std::pair{5, 640});
  CHECK(sizes("tree", "ll", 5 * 4096) == std::pair{5, 640});
  // As many channels as are asked for, whatever the size (the input has them all).
  CHECK(sizes("ring", "simple", 8, 24) == std::pair{24, 96});
  // A ring of at most 12 GB/s needs half the threads.
  ModelInput slow = in;
  slow.ring.channels = 1;
  slow.ring.bw_intra = 12;
  const auto choice =
      choose(slow, *parse_choices("ring", "simple", 0), Collective::all_reduce, kMiB * 64);
  CHECK(choice->threads == 288);
}

}  // namespace plan_model_tests
