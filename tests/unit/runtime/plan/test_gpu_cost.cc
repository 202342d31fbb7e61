// The times that the planner of GPU ranks compares, worked out by hand.
#include "runtime/plan/gpu_cost.h"

#include "base/format.h"

#include "kernels/algo/algorithms.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/model.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/planner.h"
#include "tests/unit/runtime/gpu_job.h"

namespace plan_gpu_cost_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::Protocol;

TEST_CASE("times of window kernels, by hand", "[gpu][model]") {
  const auto us = [](AlgorithmId algorithm, Protocol protocol, int n, uint64_t bytes) {
    return predict_window_kernel({Collective::all_reduce, algorithm, protocol, n, bytes}).us;
  };
  // 1.2 us of launch, 2 us, and 2 x 64 KiB at 225 GB/s.
  CHECK(us(AlgorithmId::one_shot, Protocol::ll, 2, 64 << 10) == Approx(3.2 + 2 * 65536 / 225e3));
  // 3.5 us and two further ranks of 0.3 us; 128/120 x 2 x 3/4 x 4 MiB at 348 GB/s.
  CHECK(us(AlgorithmId::two_shot, Protocol::ll128, 4, 4 << 20) ==
        Approx(1.2 + 3.5 + 0.6 + 1.6 * 4194304 / 348e3));
  // 3/2 x 64 MiB: 16 MiB at 355 GB/s, 80 MiB at 367.
  CHECK(us(AlgorithmId::two_shot, Protocol::simple, 4, 64 << 20) ==
        Approx(1.2 + 10.3 + 0.6 + 16777216 / 355e3 + 83886080 / 367e3));
  // 128/120 x 2 MiB at 300 GB/s where they are added up, else at 355; an all-to-all's own 2 MiB are
  // loaded at 4400.
  const auto lines_us = [&](Collective c) {
    return predict_window_kernel({c, AlgorithmId::one_shot, Protocol::ll128, 2, 2 << 20}).us;
  };
  const double wire = 2097152 * 128.0 / 120;
  CHECK(lines_us(Collective::reduce_scatter) == Approx(1.2 + 2.6 + wire / 300e3));
  CHECK(lines_us(Collective::all_gather) == Approx(1.2 + 2.6 + wire / 355e3));
  CHECK(lines_us(Collective::all_to_all) == Approx(1.2 + 2.6 + wire / 355e3 + 2097152 / 4400e3));
  // A root: 0.3 us more; it sends 1 MiB once, which the others hand on in 4 us.
  CHECK(predict_window_kernel(
            {Collective::broadcast, AlgorithmId::one_shot, Protocol::simple, 4, 1 << 20})
            .us == Approx(1.2 + 7.0 + 0.3 + 0.3 + 4 + 1048576 / 328e3));
}

TEST_CASE("windows take what the paths of the machine at hand allow", "[gpu][model]") {
  const auto us = [](AlgorithmId algorithm, Protocol protocol, uint64_t bytes, GpuPath path) {
    return predict_window_kernel({Collective::all_reduce, algorithm, protocol, 2, bytes, path}).us;
  };
  constexpr uint64_t kBytes = uint64_t{1} << 30;
  // Twice the links: the rest of the bytes at 720, not at 2 x 367 GB/s.
  CHECK(us(AlgorithmId::one_shot, Protocol::simple, kBytes, {.gbps = 720}) ==
        Approx(1.2 + 7.0 + 16777216 / 656e3 + (kBytes - 16777216) / 720e3));
  // PCIe: a crossing more, and LL at 225 / 360 of the path.
  CHECK(us(AlgorithmId::one_shot, Protocol::ll, 64 << 10, {.gbps = 36, .pcie = true}) ==
        Approx(1.2 + 2 + 2 + 2 * 65536 / 22.5e3));
  // Host memory: what was measured there over 48 GB/s, by the GPUs' share of that.
  CHECK(us(AlgorithmId::one_shot, Protocol::ll, 64 << 10, {.gbps = 48, .pinned = true}) ==
        Approx(1.2 + 3.5 + 2 * 65536 / 31e3));
  CHECK(us(AlgorithmId::one_shot, Protocol::ll, 64 << 10, {.gbps = 12, .pinned = true}) ==
        Approx(1.2 + 3.5 + 2 * 65536 / (31e3 / 4)));
  CHECK(predict_direct({Collective::all_gather,
                        AlgorithmId::one_shot,
                        Protocol::simple,
                        2,
                        kBytes,
                        {.gbps = 720}})
            .us == Approx(1.2 + 9 + kBytes / 720e3));
  const ModelInput h100 = *gpu_job(8).shapes()[0].model;
  CHECK(path_of_windows(h100, false).gbps == 360);
  CHECK_FALSE(path_of_windows(h100, false).pcie);
}

TEST_CASE("windows take what was measured of the machine at hand", "[gpu][model]") {
  GpuPath path{.gbps = 24, .pcie = true};
  // All-reduces of 64 KiB and 8 MiB in 14 and 414 us: 400 us for the bytes between.
  set_measured(path.measured, 2, 14, 414);
  const double gbps = ((8 << 20) - (64 << 10)) / 400e3, base = 14 - 65536 / (gbps * 1e3);
  CHECK(path.measured.gbps[2] == Approx(gbps));
  CHECK(path.measured.base_us[2] == Approx(base));
  const auto us = [&](AlgorithmId algorithm, int n, uint64_t bytes) {
    return predict_window_kernel(
               {Collective::all_reduce, algorithm, Protocol::simple, n, bytes, path})
        .us;
  };
  CHECK(us(AlgorithmId::one_shot, 2, 8 << 20) == Approx(415.2));
  // A further rank takes more in the same ratio, 1.5 us where the base is 7; together they have the
  // path's bandwidth.
  path.gbps = 16;
  CHECK(us(AlgorithmId::one_shot, 3, 8 << 20) ==
        Approx(1.2 + base * (1 + 1.5 / 7) + 2 * (8 << 20) / (16e3 * 367 / 360)));
  // Values not measured come from the table: a crossing of PCIe more.
  CHECK(us(AlgorithmId::two_shot, 2, 0) == Approx(1.2 + 10.3 + 2));
  // Sizes beyond 16 MiB are faster as in the table, where it is 367 after 328.
  path.gbps = 24;
  constexpr double kFirst = 16 << 20;
  CHECK(us(AlgorithmId::one_shot, 2, 64 << 20) ==
        Approx(1.2 + base + kFirst / (gbps * 1e3) + 3 * kFirst / (gbps * 367 / 328 * 1e3)));
  // Direct stores reach as much of the table's 367 as staged ones.
  CHECK(predict_direct(
            {Collective::all_gather, AlgorithmId::one_shot, Protocol::simple, 2, 8 << 20, path})
            .us == Approx(1.2 + 9 + base - 7 + (8 << 20) / (gbps * 367 / 328 * 1e3)));
  // Times that cannot be are none.
  GpuCalibration none;
  set_measured(none, 0, 5, 5);
  set_measured(none, 1, 6, 0.5);
  CHECK_FALSE(none.measured());
}

TEST_CASE("the host's pace is no part of an operation's time, but of what is expected",
          "[gpu][model]") {
  GpuPath path;
  const auto us = [&] {
    return predict_window_kernel(
               {Collective::all_reduce, AlgorithmId::one_shot, Protocol::simple, 2, 0, path})
        .us;
  };
  path.measured.launch_us = 3;
  CHECK(us() == Approx(1.2 + 7.0));
  path.measured.launch_us = 0.5F;
  CHECK(us() == Approx(0.5 + 7.0));
  // The smallest operation that was measured, on a stream.
  CHECK(host_time(path.measured).launch_us == 4);
  path.measured.base_us[0] = 5;
  CHECK(host_time(path.measured).launch_us == 5.5);
  CHECK(host_time({}).launch_us == 4);
  CHECK(host_time({}).block_us == 11);

  const auto expected = [](Collective c, uint64_t count, DataType type) {
    const Operation op{.collective = c, .count = count, .type = type};
    const auto chosen = choose_collective(op, gpu_job(8).shapes()[0], {});
    REQUIRE(chosen.ok());
    return chosen->expected;
  };
  // A barrier is an all-reduce of one number, in one launch that nobody waits for.
  const Expected barrier = expected(Collective::barrier, 1, DataType::int32);
  CHECK(barrier.us == Approx(expected(Collective::all_reduce, 1, DataType::int32).us));
  CHECK(barrier.host.launch_us == 4);
  CHECK(barrier.host.block_us == 11);
}

namespace {

void forget_speeds(std::vector<topology::Pci>& devices) {
  for (topology::Pci& pci : devices) {
    for (topology::Nic& nic : pci.nics)
      for (topology::Net& net : nic.nets) net.speed_mbps.reset();
    forget_speeds(pci.children);
  }
}

}  // namespace

TEST_CASE("a path of GPUs whose bandwidth nobody knows is an assumption", "[gpu][model]") {
  const auto expected = [](const CommShape& shape) {
    const auto chosen =
        choose_collective({.collective = Collective::all_reduce, .count = 1 << 20}, shape, {});
    REQUIRE(chosen.ok());
    return chosen->expected;
  };
  // By network devices that do not say how fast they are.
  ::GpuPlanJob job = gpu_job(16);
  CHECK(std::string(expected(job.shapes()[0]).source()) == "model");
  CHECK(expected(job.shapes()[0]).unknown.empty());
  for (topology::Cpu& cpu : job.system.cpus) forget_speeds(cpu.children);
  const Expected slow = expected(job.shapes()[9]);
  CHECK(std::string(slow.source()) == "assumed");
  CHECK(slow.unknown.starts_with("the speed of "));
  CHECK(slow.unknown.ends_with(" of host"));
  // On one host they are no part of NVLink's paths.
  job.host_of.assign(8, 0);
  job.bus_ids.resize(8);
  CHECK(expected(job.shapes()[0]).unknown.empty());

  // By sockets within a host, whatever its devices say; by RDMA what they say counts.
  job = gpu_job(2);
  job.search.rules.p2p = job.search.rules.shm = false;
  CHECK(expected(job.shapes()[0]).unknown == "what sockets carry between ranks of one host");
  job.gdr = true;
  CHECK(expected(job.shapes()[0]).unknown.empty());

  HostGpus hidden;
  hidden.why_not = "nothing shows itself";
  std::vector<Bytes> blobs(2);
  blobs[0] = hidden.encode();
  const auto shape = make_gpu_shape(0, job.all_facts(), job.hosts(), blobs, job.settings);
  REQUIRE(shape.ok());
  CHECK(std::string(expected(*shape).source()) == "assumed");

  // Windows that were measured are known.
  CommShape known = *shape;
  ModelInput model = *known.model;
  model.windows.base_us[0] = model.windows.gbps[0] = 1;
  known.model = std::make_shared<const ModelInput>(model);
  CHECK(detail::expected_of({.us = 5}, true, known).unknown.empty());
  CHECK_FALSE(detail::expected_of({.us = 5}, false, known).unknown.empty());
  known.nranks = 1;
  CHECK(detail::expected_of({.us = 5}, false, known).unknown.empty());
}

TEST_CASE("the tables are of H100 and H200 over NVLink", "[gpu][model]") {
  const auto model_of = [](int sm) {
    GpuPlanJob job = gpu_job(8);
    job.compute_capability = sm;
    ModelInput model = *job.shapes()[0].model;
    model.min_sm = model.max_sm = sm;
    return model;
  };
  CHECK(has_window_table(model_of(90), false));
  CHECK_FALSE(has_window_table(model_of(100), false));
  ModelInput other = model_of(90);
  other.ring.bw_intra /= 2;
  CHECK_FALSE(has_window_table(other, false));
  other = model_of(90);
  other.ring.type_intra = topology::PathType::phb;
  CHECK_FALSE(has_window_table(other, false));
  CHECK_FALSE(has_window_table(other, true));  // 8 GPUs on two sockets: they share what joins them
  other.host_gbps = 48;
  CHECK(has_window_table(other, true));
  other.known = false;
  CHECK_FALSE(has_window_table(other, true));

  base::Processors processors;
  processors.model.name = "A processor";
  const std::string signature = window_signature(model_of(90), false, processors);
  CHECK(signature == machine_signature(processors) + "; GPUs 10de2330 of SM 90, NVL at 360 GB/s");
  CHECK(window_signature(model_of(90), true, processors) ==
        machine_signature(processors) + "; GPUs 10de2330 of SM 90, through host memory at " +
            format("{:.4g} GB/s", path_of_windows(model_of(90), true).gbps));
}

// The times of an H200's kernels by the table, as if they had been measured: nothing changes.
TEST_CASE("a calibration that says what the tables say leaves every choice", "[gpu][model]") {
  for (const int ranks : {2, 4, 8}) {
    const GpuPlanJob job = gpu_job(ranks);
    CommShape shape = job.shapes()[0];
    shape.gpu_window = true;
    shape.ll128_passed = true;
    shape.window_serves = [](Collective c, AlgorithmId, Protocol, DataType, RedOp, int, uint64_t) {
      return c != Collective::send_recv;
    };
    CommShape measured = shape;
    ModelInput model = *shape.model;
    for (size_t i = 0; i < kCalibratedKernels.size(); ++i) {
      const CalibratedKernel& kernel = kCalibratedKernels[i];
      const auto us = [&](uint64_t bytes) {
        return predict_window_kernel(
                   {Collective::all_reduce, kernel.algorithm, kernel.protocol, 2, bytes})
            .us;
      };
      set_measured(model.windows, i, us(kernel.small) - 1.2, us(kernel.large) - 1.2);
    }
    REQUIRE(model.windows.measured());
    measured.model = std::make_shared<const ModelInput>(model);
    int compared = 0;
    for (int c = 0; c < kernels::kCollectiveCount; ++c)
      for (uint64_t bytes = 8; bytes <= uint64_t{16} << 20; bytes *= 2) {
        Operation op;
        op.collective = Collective(c);
        op.count = bytes / 4;
        if (op.collective == Collective::send_recv) continue;
        const auto usual = choose_collective(op, shape, {}),
                   now = choose_collective(op, measured, {});
        REQUIRE(usual.ok());
        REQUIRE(now.ok());
        INFO(name_of(op.collective) << " of " << bytes << " on " << ranks);
        CHECK(now->algorithm == usual->algorithm);
        CHECK(now->protocol == usual->protocol);
        CHECK(now->expected.us == Approx(usual->expected.us).epsilon(0.02));
        ++compared;
      }
    CHECK(compared == 9 * 22);
  }
}

TEST_CASE("times of trees and doubling follow from the model", "[gpu][model]") {
  const auto shapes = gpu_job(8).shapes();
  const ModelInput& model = *shapes[0].model;
  const auto query = [](AlgorithmId algorithm, uint64_t bytes) {
    return GpuQuery{Collective::all_reduce, algorithm, Protocol::simple, 8, bytes};
  };
  const uint64_t bytes = 64 << 20;
  const Estimate tree =
      estimate(model, AlgorithmId::tree, Protocol::simple, Collective::all_reduce, bytes);
  // NVLink is reached to 0.84; the tree's bytes go up, then down.
  const double bytes_us = (tree.us - tree.latency_us) / 0.84;
  CHECK(predict_fifos(model, query(AlgorithmId::tree_split, bytes)).us ==
        Approx(tree.latency_us + bytes_us));
  CHECK(predict_fifos(model, query(AlgorithmId::tree, bytes)).us ==
        Approx(tree.latency_us + 1.5 * bytes_us));
  // Three messages one after the other, one launch: 8.4 us (NCCL 2.30's base of Simple), a hop of
  // 3.4 us over NVLink each; the bytes thrice and a fifth more.
  const Estimate message =
      estimate(model, AlgorithmId::pairwise, Protocol::simple, Collective::send_recv, bytes);
  CHECK(message.latency_us == Approx(8.4 + 3.4));
  CHECK(predict_fifos(model, query(AlgorithmId::doubling, bytes)).us ==
        Approx(8.4 + 3 * 3.4 + 3 * 1.2 * (message.us - message.latency_us) / 0.84));
  CHECK(moved_bytes(Collective::all_gather, 8, 100) == 800);
  CHECK(moved_bytes(Collective::broadcast, 8, 100) == 100);
}

TEST_CASE("without P2P a hop through the host's memory counts", "[gpu][model]") {
  ModelInput model = *gpu_job(8).shapes()[0].model;
  const auto us = [&](Protocol protocol, uint64_t bytes) {
    return predict_fifos(model, {Collective::all_reduce, AlgorithmId::ring, protocol, 8, bytes}).us;
  };
  const double direct = us(Protocol::ll, 0), bytes_us = us(Protocol::simple, uint64_t{1} << 32);
  model.through_host = true;
  model.ring.type_intra = model.tree.type_intra = topology::PathType::phb;
  // 14 hops of 4.5 us.
  CHECK(us(Protocol::ll, 0) == Approx(9.8 + 14 * 4.5));
  CHECK(us(Protocol::ll, 0) > direct);
  // The begin of the bytes alone: of 4 GiB less than a hundredth.
  CHECK(us(Protocol::simple, uint64_t{1} << 32) == Approx(bytes_us * 0.84).epsilon(0.01));
}

TEST_CASE("between nodes through host memory LL is for what is smallest", "[gpu][model]") {
  ::GpuPlanJob job = gpu_job(16);
  job.gdr = false;
  const ModelInput model = *job.shapes()[0].model;
  REQUIRE(model.staged);
  const auto us = [&](Protocol protocol, uint64_t bytes) {
    return predict_fifos(model, {Collective::all_reduce, AlgorithmId::ring, protocol, 16, bytes})
        .us;
  };
  CHECK(us(Protocol::ll, 4 << 10) < us(Protocol::simple, 4 << 10));
  for (const uint64_t bytes : {(4 << 10) + 4, 64 << 10, 16 << 20})
    CHECK(us(Protocol::ll, bytes) == Approx(us(Protocol::simple, bytes) + 1));
  job.gdr = true;
  CHECK_FALSE(job.shapes()[0].model->staged);
}

TEST_CASE("between nodes through host memory channels follow the message", "[gpu][model]") {
  constexpr uint64_t kKiB = 1 << 10;
  const std::pair<uint64_t, int> channels[] = {{0, 1},          {64 * kKiB, 1},   {127 * kKiB, 1},
                                               {128 * kKiB, 2}, {256 * kKiB, 4},  {512 * kKiB, 4},
                                               {768 * kKiB, 6}, {1024 * kKiB, 8}, {1 << 30, 8}};
  for (const auto& [bytes, wanted] : channels) {
    CAPTURE(bytes);
    CHECK(detail::staged_channels(bytes, 8) == wanted);
    CHECK(detail::staged_channels(bytes, 2) == std::min(wanted, 2));
  }
  ::GpuPlanJob job = gpu_job(2);
  job.search.rules.p2p = job.search.rules.shm = false;
  job.settings.slot_bytes[2] = 1 << 19;
  const CommShape shape = job.shapes()[0];
  REQUIRE(shape.model->staged);
  const auto planned = [&](Collective c, uint64_t bytes) {
    Operation op;
    op.collective = c;
    op.input = reinterpret_cast<const void*>(uintptr_t{1} << 40);  // made up
    op.output = reinterpret_cast<void*>(uintptr_t{2} << 40);
    op.count = bytes / 4;
    op.peer = 1;
    auto plan = make_plan({&op, 1}, shape, {});
    if (!plan.ok()) FAIL(plan.error().chain());
    return std::pair(plan->ops[0].algorithm, plan->ops[0].channels);
  };
  CHECK(planned(Collective::all_gather, 64 * kKiB).second == 1);
  CHECK(planned(Collective::all_gather, 256 * kKiB).second == 4);
  CHECK(planned(Collective::all_reduce, 256 * kKiB) == std::pair(AlgorithmId::doubling, 4));
  // More than the slots hold.
  CHECK(planned(Collective::all_reduce, 64 << 20) == std::pair(AlgorithmId::ring, 8));
}

TEST_CASE("between many nodes rooted trees, Bruck and halving take log2 n messages",
          "[gpu][model]") {
  const auto shapes = gpu_job(8).shapes();
  ModelInput model = *shapes[0].model;
  const auto bytes_us = [&](uint64_t bytes) {
    const Estimate message =
        estimate(model, AlgorithmId::pairwise, Protocol::simple, Collective::send_recv, bytes);
    return (message.us - message.latency_us) / 0.84;
  };
  const auto us = [&](Collective c, AlgorithmId algorithm, uint64_t bytes) {
    return predict_fifos(model, {c, algorithm, Protocol::simple, 8, bytes}).us;
  };
  // Three hops of 3.4 us over NVLink and one launch; all bytes twice at an inner rank.
  CHECK(us(Collective::broadcast, AlgorithmId::rooted_tree, 1 << 20) ==
        Approx(8.4 + 3 * 3.4 + 2 * bytes_us(1 << 20)));
  CHECK(us(Collective::reduce, AlgorithmId::rooted_tree, 1 << 20) ==
        Approx(8.4 + 3 * 3.4 + 2 * 1.2 * bytes_us(1 << 20)));
  // One channel of so many, and what comes in is read again.
  const double narrow = 1.2 * std::min(model.channels, model.full_channels);
  CHECK(us(Collective::all_gather, AlgorithmId::bruck, 1 << 10) ==
        Approx(8.4 + 3 * 3.4 + narrow * bytes_us(8 << 10)));
  CHECK(us(Collective::reduce_scatter, AlgorithmId::halving, 1 << 10) ==
        Approx(8.4 + 3 * 3.4 + 1.2 * narrow * bytes_us(8 << 10)));
}

TEST_CASE("8192 ranks: small operations do not go round a ring", "[gpu][model]") {
  ModelInput model = *gpu_job(8).shapes()[0].model;
  model.nodes = 1024;
  model.ranks = 8192;
  const auto best = [&](Collective c, uint64_t bytes) {
    std::pair<double, AlgorithmId> least{1e30, AlgorithmId::ring};
    for (const AlgorithmId id : {AlgorithmId::ring, AlgorithmId::rooted_tree, AlgorithmId::bruck,
                                 AlgorithmId::halving, AlgorithmId::pairwise})
      for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
        const GpuQuery query{c, id, protocol, 8192, bytes};
        if (!serves(kernels::algorithm(id), c) || !fifos_unavailable(model, query).empty())
          continue;
        least = std::min(least, {predict_fifos(model, query).us, id});
      }
    return least;
  };
  for (const Collective c : {Collective::broadcast, Collective::reduce}) {
    CHECK(best(c, 64 << 10).first < 1000);
    CHECK(best(c, 64 << 10).second == AlgorithmId::rooted_tree);
  }
  CHECK(best(Collective::all_gather, 8).first < 2000);
  CHECK(best(Collective::all_gather, 8).second == AlgorithmId::bruck);
  CHECK(best(Collective::reduce_scatter, 8).first < 2000);
  CHECK(best(Collective::reduce_scatter, 8).second == AlgorithmId::halving);
  // Where bandwidth rules the ring stays.
  CHECK(best(Collective::broadcast, uint64_t{16} << 30).second == AlgorithmId::ring);
  CHECK(best(Collective::all_gather, 16 << 20).second == AlgorithmId::ring);
  CHECK(best(Collective::reduce_scatter, 16 << 20).second == AlgorithmId::ring);
}

}  // namespace plan_gpu_cost_tests
