// The GPU's block verbs, through the launcher of the product: n ranks are blocks of one launch on
// one device. Every algorithm, protocol, collective, type and operation, odd sizes, unaligned
// buffers, few slots, flags about to wrap, works of several kinds in one launch, a rank that never
// comes, and the torn-line test; every element is compared by equality with what the host works out
// for itself. Exit 77: no GPU here; 1: something is wrong.
#include <chrono>
#include <memory>

#include "kernels/algo/dispatch.h"
#include "kernels/algorithms.h"
#include "tests/gpu/world.h"

using cpu_tests::Case;
using cpu_tests::describe;
using cpu_tests::Operation;
using namespace gpu_tests;

namespace {

constexpr int64_t kPatience = 10'000'000'000;

int failures = 0;
int cases = 0;

std::vector<std::string> first_failures;  // printed at the end

void fail(const std::string& what) {
  if (++failures <= 30) first_failures.push_back(what);
}

// The operations of all ranks in device memory.
class Placed {
 public:
  Placed(DeviceArena& arena, const Case& c, int nranks) : arena_(arena), case_(c) {
    for (int r = 0; r < nranks; ++r) {
      ranks_.push_back(std::make_unique<Operation>(c, r, nranks));
      Operation& op = *ranks_.back();
      memory_.push_back(arena.put(op.memory()));
      input_.push_back(arena.put(op.input_memory()));
      order_.push_back(arena.put(op.order()));
      std::vector<PairStep> pairs = op.pairs();
      for (PairStep& p : pairs) {
        p.send = there(r, p.send);
        p.recv = const_cast<void*>(there(r, p.recv));
      }
      pairs_.push_back(arena.put(pairs));
      rounds_.push_back(std::move(pairs));
    }
  }
  // The rounds of a work, with the device's addresses.
  const std::vector<PairStep>& rounds(int rank) const { return rounds_[size_t(rank)]; }
  Work work(int rank, int channel, int channels) const {
    Work w = ranks_[size_t(rank)]->work(channel, channels);
    w.input = there(rank, w.input);
    w.output = const_cast<void*>(there(rank, w.output));
    w.ring.order = order_[size_t(rank)];
    w.pairs = pairs_[size_t(rank)];
    return w;
  }
  // After a download of the arena.
  void check() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<uint8_t>& memory = ranks_[r]->memory();
      std::memcpy(memory.data(), arena_.host(memory_[r]), memory.size());
      const std::string wrong = ranks_[r]->check();
      if (!wrong.empty()) fail(wrong);
    }
  }

 private:
  // Where something of the rank's memory lies on the device. Its end counts as inside.
  const void* there(int rank, const void* p) const {
    Operation& op = *ranks_[size_t(rank)];
    const auto* at = static_cast<const uint8_t*>(p);
    const auto inside = [&](const std::vector<uint8_t>& m) {
      return !m.empty() && at >= m.data() && at <= m.data() + m.size();
    };
    if (inside(op.memory())) return memory_[size_t(rank)] + (at - op.memory().data());
    if (inside(op.input_memory())) return input_[size_t(rank)] + (at - op.input_memory().data());
    return nullptr;
  }

  DeviceArena& arena_;
  const Case case_;
  std::vector<std::unique_ptr<Operation>> ranks_;
  std::vector<uint8_t*> memory_, input_;
  std::vector<int32_t*> order_;
  std::vector<PairStep*> pairs_;
  std::vector<std::vector<PairStep>> rounds_;
};

DeviceArena& buffers() {
  static DeviceArena arena(size_t(512) << 20);
  return arena;
}

bool expect_no_report(const World& world, const std::string& what) {
  for (int r = 0; r < world.shape.nranks; ++r)
    for (int c = 0; c < world.shape.channels; ++c) {
      const Report& report = world.report(r, c);
      if (report.code == ReportCode::none) continue;
      fail(what + ": rank " + std::to_string(r) + " channel " + std::to_string(c) +
           " gave up: code " + std::to_string(int(report.code)) + " waiting for rank " +
           std::to_string(report.peer) + " step " + std::to_string(report.step));
      return false;
    }
  return true;
}

bool runs(World& world, const Case& c, int threads = 128, int channels = 0) {
  ++cases;
  if (channels == 0) channels = world.shape.channels;
  buffers().clear();
  Placed placed(buffers(), c, world.shape.nranks);
  buffers().upload();
  std::vector<Work> works;
  std::vector<PairStep> rounds;
  for (int r = 0; r < world.shape.nranks; ++r)
    for (int ch = 0; ch < channels; ++ch) {
      works.push_back(placed.work(r, ch, channels));
      rounds.insert(rounds.end(), placed.rounds(r).begin(), placed.rounds(r).end());
    }
  const std::string what = describe(c, -1, world.shape.nranks);
  // Messages with what the host knows, and without.
  if (!world.run(works, threads, kPatience, cases % 2 == 0 ? rounds.data() : nullptr)) {
    fail(what);
    return false;
  }
  if (!expect_no_report(world, what)) return false;
  buffers().download();
  placed.check();
  return true;
}

uint64_t chunk_bytes(const World& world, const AlgorithmRow& row, int slices) {
  if (row.window) return 0;
  const uint32_t most = most_slices(row, world.shape.slot_count);
  return uint64_t(std::min<uint32_t>(most, uint32_t(slices))) * world.shape.slot_data_bytes;
}

// A window holds a block of a piece for each rank, or one for all.
void fit_window(const World& world, const AlgorithmRow& row, Case& c) {
  if (row.window) c.chunk_bytes = world.shape.window_bytes / uint64_t(world.shape.nranks) / 16 * 16;
}

// Every algorithm, protocol and collective.
void every_way(int nranks) {
  for (const uint32_t slots : {2u, 8u}) {
    World world({.nranks = nranks, .channels = 2, .slot_count = slots});
    for (const AlgorithmRow& row : algorithms())
      for (int p = 0; p < kProtocolCount; ++p)
        for (int collective = 0; collective < kCollectiveCount; ++collective) {
          if (!serves(row, Protocol(p)) || !serves(row, Collective(collective))) continue;
          int turn = 0;
          for (const uint64_t count : {uint64_t(0), uint64_t(1), uint64_t(17), uint64_t(1003),
                                       uint64_t(9999), uint64_t(30000)}) {
            Case c{.algorithm = row.id,
                   .collective = Collective(collective),
                   .protocol = Protocol(p),
                   .count = count,
                   .root = (turn + 1) % nranks,
                   .in_place = turn % 2 == 1,
                   .misalign = turn % 3 == 2 ? size_t(4) : size_t(0),
                   .chunk_bytes = chunk_bytes(world, row, 1 + turn % 3)};
            fit_window(world, row, c);
            if (!runs(world, c, turn % 2 == 0 ? 96 : 256)) return;
            ++turn;
          }
        }
  }
}

// Every type and operation, aligned and not.
void every_type(int nranks, int capability) {
  World world({.nranks = nranks, .channels = 1, .slot_count = 4});
  const AlgorithmId ways[] = {AlgorithmId::ring,     AlgorithmId::tree,
                              AlgorithmId::doubling, AlgorithmId::tree_split,
                              AlgorithmId::one_shot, AlgorithmId::two_shot};
  for (int type = 0; type < kDataTypeCount; ++type) {
    if (!collctl::kernels::cuda::launcher().has_type(DataType(type), capability)) {
      std::printf("skipped: %s (not in this build's code for sm_%d)\n", name_of(DataType(type)),
                  capability);
      continue;
    }
    for (int op = 0; op < kRedOpCount; ++op)
      for (int p = 0; p < kProtocolCount; ++p)
        for (const AlgorithmId id : ways) {
          const AlgorithmRow& row = algorithm(id);
          if (!serves(row, Protocol(p))) continue;
          for (const size_t misalign : {size_t(0), size_t(element_size(DataType(type)))}) {
            Case c{.algorithm = id,
                   .collective = Collective::all_reduce,
                   .type = DataType(type),
                   .op = RedOp(op),
                   .protocol = Protocol(p),
                   .count = 1003,
                   .in_place = misalign == 0,
                   .misalign = misalign,
                   .chunk_bytes = chunk_bytes(world, row, 2)};
            fit_window(world, row, c);
            if (!runs(world, c)) return;
          }
        }
  }
}

// Messages: sizes round the ends of lines, packs, slices and warps' shares, at every address.
void messages(int nranks) {
  const Collective kinds[] = {Collective::send_recv, Collective::all_to_all, Collective::gather,
                              Collective::scatter};
  for (const uint32_t slots : {1u, 5u})
    for (int p = 0; p < kProtocolCount; ++p) {
      World world({.nranks = nranks, .channels = 3, .slot_count = slots});
      int turn = 0;
      for (const Collective collective : kinds)
        for (const uint64_t bytes : {1u, 7u, 8u, 9u, 15u, 16u, 119u, 120u, 121u, 479u, 481u, 1919u,
                                     1921u, 3839u, 3840u, 3841u, 7681u, 61441u}) {
          const int threads[] = {96, 128, 288, 512};
          ++turn;
          if (!runs(world,
                    {.algorithm = AlgorithmId::pairwise,
                     .collective = collective,
                     .type = DataType::int8,
                     .protocol = Protocol(p),
                     .count = bytes,
                     .root = turn % nranks,
                     .misalign = size_t(turn % 17),
                     .chunk_bytes = 3840 * (1 + uint64_t(turn) % slots)},
                    threads[turn % 4], 1 + turn % 3))
            return;
        }
    }
}

// Every type and every address in a pack.
void message_types(int nranks) {
  World world({.nranks = nranks, .slot_count = 4});
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int p = 0; p < kProtocolCount; ++p)
      for (size_t misalign = 0; misalign < 16; misalign += element_size(DataType(type)))
        if (!runs(world, {.algorithm = AlgorithmId::pairwise,
                          .collective = Collective::all_to_all,
                          .type = DataType(type),
                          .protocol = Protocol(p),
                          .count = 1003,
                          .misalign = misalign,
                          .chunk_bytes = 2 * 3840}))
          return;
}

// Slots of real size: the unrolled loops, many threads.
void large(int nranks) {
  World world({.nranks = nranks,
               .channels = 4,
               .slot_count = 8,
               .slot_data_bytes = 240 * 1024,
               .window_bytes = 512 << 10});
  for (const AlgorithmRow& row : algorithms())
    for (int p = 0; p < kProtocolCount; ++p)
      for (int collective = 0; collective < kCollectiveCount; ++collective) {
        if (!serves(row, Protocol(p)) || !serves(row, Collective(collective))) continue;
        for (const DataType type : {DataType::float32, DataType::int8}) {
          Case c{.algorithm = row.id,
                 .collective = Collective(collective),
                 .type = type,
                 .protocol = Protocol(p),
                 .count = 300001,
                 .root = nranks - 1,
                 .in_place = type == DataType::int8,
                 .chunk_bytes = chunk_bytes(world, row, 2)};
          fit_window(world, row, c);
          if (!runs(world, c, 512)) return;
        }
      }
}

// The 32-bit flags of LL wrap, and lines that a slice leaves unused must not be taken for new ones.
void flags_wrap() {
  for (const uint64_t period : {uint64_t(1) << 31, uint64_t(1) << 32}) {
    World world({.nranks = 3, .slot_count = 4, .first_step = period - 6});
    for (int i = 0; i < 12; ++i)
      runs(world, {.protocol = Protocol::ll,
                   .count = uint64_t(i % 2 == 0 ? 2000 : 5),
                   .chunk_bytes = 3840});
    World pairs({.nranks = 3, .slot_count = 4, .first_step = period - 6});
    for (int i = 0; i < 12; ++i)
      runs(pairs, {.algorithm = AlgorithmId::pairwise,
                   .collective = Collective::all_to_all,
                   .protocol = Protocol::ll,
                   .count = uint64_t(i % 2 == 0 ? 2000 : 5),
                   .chunk_bytes = 3840});
  }
}

// Several works of a channel, of several kinds, in one launch.
void mixed(int nranks) {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
    ++cases;
    World world({.nranks = nranks, .channels = 2, .slot_count = 4});
    buffers().clear();
    std::vector<Case> list;
    for (const auto& [id, collective, type, op] :
         {std::tuple{AlgorithmId::ring, Collective::all_reduce, DataType::int8, RedOp::max},
          std::tuple{AlgorithmId::tree_split, Collective::all_reduce, DataType::float16,
                     RedOp::sum},
          std::tuple{AlgorithmId::pairwise, Collective::all_to_all, DataType::float64, RedOp::sum},
          std::tuple{AlgorithmId::ring, Collective::all_gather, DataType::uint32, RedOp::sum}})
      list.push_back({.algorithm = id,
                      .collective = collective,
                      .type = type,
                      .op = op,
                      .protocol = protocol,
                      .count = 5003,
                      .chunk_bytes = chunk_bytes(world, algorithm(id), 2)});
    std::vector<std::unique_ptr<Placed>> placed;
    for (const Case& c : list) placed.push_back(std::make_unique<Placed>(buffers(), c, nranks));
    buffers().upload();
    std::vector<Work> works;
    for (size_t i = 0; i < list.size(); ++i)
      for (int r = 0; r < nranks; ++r)
        for (int ch = 0; ch < 2; ++ch) works.push_back(placed[i]->work(r, ch, 2));
    if (!world.run(works, 256, kPatience)) fail("mixed works");
    if (!expect_no_report(world, "mixed works")) continue;
    buffers().download();
    for (auto& p : placed) p->check();
  }
}

// One rank never comes: the others end in reports, at least one a timeout that names it.
void stalled(int nranks, AlgorithmId id, Protocol protocol,
             Collective collective = Collective::all_reduce) {
  ++cases;
  World world({.nranks = nranks, .slot_count = 4});
  const int missing = nranks - 1;
  buffers().clear();
  const Case c{.algorithm = id,
               .collective = collective,
               .protocol = protocol,
               .count = 40000,
               .chunk_bytes = chunk_bytes(world, algorithm(id), 2)};
  Placed placed(buffers(), c, nranks);
  buffers().upload();
  std::vector<Work> works;
  for (int r = 0; r < missing; ++r) works.push_back(placed.work(r, 0, 1));
  const std::string what = describe(c, -1, nranks) + " without rank " + std::to_string(missing);
  if (!world.run(works, 192, 300'000'000)) return fail(what);
  bool late = false, named = false;
  for (int r = 0; r < missing; ++r) {
    const Report& report = world.report(r, 0);
    if (report.code != ReportCode::timeout && report.code != ReportCode::aborted)
      fail(what + ": rank " + std::to_string(r) + " did not give up");
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
void litmus() {
  const auto& launcher = collctl::kernels::cuda::launcher();
  constexpr uint32_t kLines = 4096, kRounds = 2000;
  uint8_t* lines = nullptr;
  uint32_t* words = nullptr;  // torn, abort word
  cuda_ok(cudaMalloc(&lines, kLines * 128), "litmus lines");
  cuda_ok(cudaHostAlloc(&words, 2 * sizeof(uint32_t), cudaHostAllocMapped), "litmus words");
  cudaStream_t reader, writer;
  cuda_ok(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking), "stream");
  cuda_ok(cudaStreamCreateWithFlags(&writer, cudaStreamNonBlocking), "stream");
  for (const bool writes : {true, false}) {
    ++cases;
    words[0] = words[1] = 0;
    cuda_ok(cudaMemset(lines, 0, kLines * 128), "litmus lines");
    cuda_ok(cudaDeviceSynchronize(), "litmus");
    cuda_ok(cudaError_t(launcher.litmus_read(lines, kLines, kRounds, &words[0], &words[1],
                                             writes ? kPatience : 200'000'000, reader)),
            "litmus_read");
    if (writes)
      cuda_ok(cudaError_t(launcher.litmus_write(lines, kLines, kRounds, writer)), "litmus_write");
    cuda_ok(cudaDeviceSynchronize(), "litmus");
    std::printf("litmus %s writer: %u\n", writes ? "with" : "without", words[0]);
    if (writes && words[0] != 0) fail("a line was torn inside one device");
    if (!writes && words[0] != collctl::kernels::cuda::kLitmusGaveUp)
      fail("the litmus reader did not say that nobody wrote");
  }
  cudaStreamDestroy(reader), cudaStreamDestroy(writer);
  cudaFree(lines), cudaFreeHost(words);
}

// Microseconds of a launch that follows others, two ranks on one device: what a work costs besides
// its data. Asserts nothing.
void time_works() {
  World world({.nranks = 2, .slot_count = 8, .slot_data_bytes = 240 * 512});
  const auto measure = [&](const char* name, Case c, int threads) {
    buffers().clear();
    c.chunk_bytes = world.shape.slot_data_bytes;
    Placed placed(buffers(), c, 2);
    buffers().upload();
    const std::vector<Work> works{placed.work(0, 0, 1), placed.work(1, 0, 1)};
    std::vector<PairStep> rounds = placed.rounds(0);
    rounds.insert(rounds.end(), placed.rounds(1).begin(), placed.rounds(1).end());
    constexpr int kLaunches = 2000;
    auto start = std::chrono::steady_clock::now();
    for (int i = -200; i < kLaunches; ++i) {
      if (i == 0) {
        cuda_ok(cudaDeviceSynchronize(), name);
        start = std::chrono::steady_clock::now();
      }
      if (!world.launch(works, threads, kPatience, rounds.data())) return fail(name);
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
  for (const int n : {1, 2, 3, 4, 7, 8}) part("ways-" + std::to_string(n), [&] { every_way(n); });
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
    stalled(4, AlgorithmId::one_shot, Protocol::simple);
    for (int proto = 0; proto < kProtocolCount; ++proto)
      stalled(4, AlgorithmId::pairwise, Protocol(proto), Collective::all_to_all);
  });
  part("litmus", [] { litmus(); });
  part("time", [] { time_works(); });
  for (const std::string& what : first_failures) std::printf("FAILED %s\n", what.c_str());
  std::printf("%s: %d cases, %d failures\n", p.name, cases, failures);
  return failures == 0 ? 0 : 1;
}
