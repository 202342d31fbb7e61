// The GPU's block verbs, through the launcher of the product: n ranks are blocks of one launch on
// one device. Every algorithm, protocol, collective, type and operation, odd sizes, unaligned
// buffers, few slots, flags about to wrap, works of several kinds in one launch, a rank that never
// comes, and the torn-store test; every element is compared by equality with what the host works
// out for itself. Exit 77: no GPU here; 1: something is wrong.
#include <chrono>

#include "kernels/cuda/launcher/launcher.h"
#include "tests/gpu/works_checks.h"

using namespace gpu_tests;

namespace {

// One rank never comes: the others end in reports, at least one a timeout that names it.
void stalled(int nranks, AlgorithmId id, Protocol protocol,
             Collective collective = Collective::all_reduce, uint64_t count = 40000) {
  ++cases;
  World world({.nranks = nranks, .slot_count = 4});
  const int missing = nranks - 1;
  buffers().clear();
  const Case c{.algorithm = id,
               .collective = collective,
               .protocol = protocol,
               .count = count,
               .chunk_bytes = chunk_bytes(world, algorithm(id), 2)};
  Placed placed(buffers(), c, nranks);
  buffers().upload();
  std::vector<Work> works;
  HostSide host;
  for (int r = 0; r < missing; ++r) {
    works.push_back(placed.work(r, 0, 1));
    host.orders.push_back(placed.order(r));
  }
  const std::string what = describe(c, -1, nranks) + " without rank " + std::to_string(missing);
  if (!world.run(works, 192, 300'000'000, host)) return fail(what);
  bool late = false, named = false;
  for (int r = 0; r < missing; ++r) {
    const Report& report = world.report(r, 0);
    if (report.code != ReportCode::timeout && report.code != ReportCode::aborted)
      fail(what + ": rank " + std::to_string(r) + " did not abort");
    if (report.rank != r || report.channel != r || report.op_count != 7 ||
        report.protocol != protocol || report.algorithm != id)
      fail(what + ": rank " + std::to_string(r) + "'s report is of something else");
    late |= report.code == ReportCode::timeout;
    named |= report.peer == missing;
  }
  std::string said;
  for (int r = 0; r < missing; ++r)
    said += " rank " + std::to_string(r) + " (code " +
            std::to_string(int(world.report(r, 0).code)) + ") waits for " +
            std::to_string(world.report(r, 0).peer);
  if (!late || !named || !world.aborted())
    fail(what + ": no report names the missing rank:" + said);
}

// Lines within one device arrive whole; a writer that never comes is noticed.
void torn_store() {
  const auto& launcher = collctl::kernels::cuda::launcher();
  constexpr uint32_t kLines = 4096, kRounds = 2000;
  uint8_t* lines = nullptr;
  uint32_t* words = nullptr;  // torn, abort word
  cuda_ok(cudaMalloc(&lines, kLines * 128), "torn-store lines");
  cuda_ok(cudaHostAlloc(&words, 2 * sizeof(uint32_t), cudaHostAllocMapped), "torn-store words");
  cudaStream_t reader, writer;
  cuda_ok(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking), "stream");
  cuda_ok(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking), "stream");
  for (const bool writes : {true, false}) {
    ++cases;
    words[0] = words[1] = 0;
    cuda_ok(cudaMemset(lines, 0, kLines * 128), "torn-store lines");
    cuda_ok(cudaDeviceSynchronize(), "torn-store test");
    cuda_ok(cudaError_t(launcher.torn_store_read(lines, kLines, kRounds, &words[0], &words[1],
                                                 writes ? kPatience : 200'000'000, reader)),
            "torn_store_read");
    if (writes)
      cuda_ok(cudaError_t(launcher.torn_store_write(lines, kLines, kRounds, writer)),
              "torn_store_write");
    cuda_ok(cudaDeviceSynchronize(), "torn-store test");
    std::printf("torn-store test %s writer: %u\n", writes ? "with" : "without", words[0]);
    if (writes && words[0] != 0) fail("a line was torn inside one device");
    if (!writes && words[0] != collctl::kernels::cuda::kTornStoreAborted)
      fail("the torn-store reader did not say that nobody wrote");
  }
  cudaStreamDestroy(reader), cudaStreamDestroy(writer);
  cudaFree(lines), cudaFreeHost(words);
}

// Microseconds of a launch that follows others, two ranks on one device: what a work costs besides
// its data. Asserts nothing.
void time_works() {
  World world({.nranks = 2, .slot_count = 8, .slot_data_bytes = 240 * 512});
  const auto measure = [&](const char* name, Case c, int threads, bool knows = true) {
    buffers().clear();
    c.chunk_bytes = world.shape.slot_data_bytes;
    Placed placed(buffers(), c, 2);
    buffers().upload();
    const std::vector<Work> works{placed.work(0, 0, 1), placed.work(1, 0, 1)};
    std::vector<PairStep> rounds = placed.rounds(0);
    rounds.insert(rounds.end(), placed.rounds(1).begin(), placed.rounds(1).end());
    HostSide host{.rounds = rounds.data()};
    if (knows) host.orders = {placed.order(0), placed.order(1)};
    constexpr int kLaunches = 2000;
    auto start = std::chrono::steady_clock::now();
    for (int i = -200; i < kLaunches; ++i) {
      if (i == 0) {
        cuda_ok(cudaDeviceSynchronize(), name);
        start = std::chrono::steady_clock::now();
      }
      if (!world.launch(works, threads, kPatience, host)) return fail(name);
    }
    cuda_ok(cudaDeviceSynchronize(), name);
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
    std::printf("%-28s %3d threads %8.2f us\n", name, threads, us.count() / kLaunches);
  };
  for (const int threads : {96, 512}) {
    measure("nothing to do", {.count = 0}, threads);
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      const std::string name = name_of(p);
      measure((name + " sendrecv 8 B").c_str(),
              {.algorithm = AlgorithmId::pairwise,
               .collective = Collective::send_recv,
               .protocol = p,
               .count = 2},
              threads);
      measure((name + " doubling 1 KiB").c_str(),
              {.algorithm = AlgorithmId::doubling, .protocol = p, .count = 256}, threads);
      measure((name + " ring 1 KiB").c_str(), {.protocol = p, .count = 256}, threads);
      if (p == Protocol::ll)
        measure("LL ring 1 KiB by the verbs", {.protocol = p, .count = 256}, threads, false);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device here\n");
    return 77;
  }
  const std::string only = argc > 1 ? argv[1] : "";  // one part, as for compute-sanitizer
  cudaDeviceProp p;
  cuda_ok(cudaGetDeviceProperties(&p, 0), "properties");
  const int capability = p.major * 10 + p.minor;
  const auto start = std::chrono::steady_clock::now();
  const auto part = [&](const std::string& name, auto&& body) {
    if (!only.empty() && name.rfind(only, 0) != 0) return;
    const int before = cases;
    body();
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-12s %5d cases, %d failures, %.1f s\n", name.c_str(), cases - before, failures,
                s);
    std::fflush(stdout);
  };
  for (const int n : {1, 2, 3, 4, 7, 8})
    part("algorithms-" + std::to_string(n), [&] { every_algorithm(n); });
  for (const int n : {2, 3, 8})
    part("types-" + std::to_string(n), [&] { every_type(n, capability); });
  for (const int n : {2, 4}) part("large-" + std::to_string(n), [&] { large(n); });
  for (const int n : {2, 3, 5}) part("messages-" + std::to_string(n), [&] { messages(n); });
  part("message-types", [] { message_types(3); });
  part("wrap", [] { flags_wrap(); });
  for (const int n : {2, 4}) part("mixed-" + std::to_string(n), [&] { mixed(n); });
  part("stall", [] {
    for (const AlgorithmId id :
         {AlgorithmId::ring, AlgorithmId::tree, AlgorithmId::tree_split, AlgorithmId::doubling})
      for (int proto = 0; proto < kProtocolCount; ++proto) stalled(4, id, Protocol(proto));
    // By moves, where the host knows them.
    for (const AlgorithmId id : {AlgorithmId::ring, AlgorithmId::tree, AlgorithmId::doubling})
      stalled(4, id, Protocol::ll, Collective::all_reduce, 200);
    stalled(4, AlgorithmId::one_shot, Protocol::simple);
    for (int proto = 0; proto < kProtocolCount; ++proto)
      stalled(4, AlgorithmId::pairwise, Protocol(proto), Collective::all_to_all);
  });
  part("torn-store test", [] { torn_store(); });
  part("time", [] { time_works(); });
  for (const std::string& what : first_failures) std::printf("FAILED %s\n", what.c_str());
  std::printf("%s: %d cases, %d failures\n", p.name, cases, failures);
  return failures == 0 ? 0 : 1;
}
