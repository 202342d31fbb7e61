// Micro benchmark of the CPU kernels, one table each: bandwidth of reduce_arrays by type, operation
// and SIMD level beside memcpy, at sizes that fit the first-level cache, the second and none; and
// the time of a one-way handover through a fifo between two threads.
// Bandwidth counts every byte read or written: sources + destinations.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kernels/algo/ids.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/reduce.h"

using namespace collctl::kernels;

namespace {

constexpr uint64_t kSizes[] = {8 << 10, 256 << 10, 64 << 20};  // bytes of one array
// Many short rounds, of which the best counts: other work on the machine disturbs most, not all.
constexpr int kRounds = 30;
constexpr int64_t kRoundNs = 1'000'000;

// Nanoseconds per call.
double best_ns(const std::function<void()>& call, uint64_t bytes) {
  const int rounds = bytes > (8 << 20) ? 5 : kRounds;
  call();
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    int calls = 0;
    const int64_t start = collctl::now_ns();
    int64_t now = start;
    for (; now - start < kRoundNs; now = collctl::now_ns(), ++calls) call();
    best = std::min(best, double(now - start) / calls);
  }
  return best;
}

struct Buffers {
  explicit Buffers(uint64_t bytes) {
    for (auto& m : memory) m.assign(bytes + 128, 0x3f);  // a number near one in every float
  }
  uint8_t* at(int i, size_t offset = 0) {
    auto* p = memory[i].data();
    return p + (64 - reinterpret_cast<uintptr_t>(p) % 64) + offset;
  }
  std::vector<uint8_t> memory[4];
};

void print_row(const std::string& what, const std::function<double(Buffers&, uint64_t)>& ns,
               int arrays) {
  std::printf("%-34s", what.c_str());
  for (const uint64_t bytes : kSizes) {
    Buffers buffers(bytes);
    std::printf(" %9.2f", double(bytes) * arrays / ns(buffers, bytes));
  }
  std::printf("\n");
  std::fflush(stdout);
}

void reduction_row(DataType type, RedOp op, int destinations, size_t offset) {
  const std::string name = std::string(simd_level()) + " " + name_of(type) + " " + name_of(op) +
                           " 2->" + std::to_string(destinations) + (offset ? " +4" : "");
  print_row(
      name,
      [&](Buffers& b, uint64_t bytes) {
        const void* sources[] = {b.at(0, offset), b.at(1)};
        void* to[] = {b.at(2, offset), b.at(3)};
        return best_ns(
            [&] {
              reduce_arrays(type, op, sources, 2, to, destinations, bytes / element_size(type), 1);
            },
            bytes);
      },
      2 + destinations);
}

void print_bandwidths() {
  std::printf("GB/s (read + written)                 8 KiB   256 KiB    64 MiB\n");
  print_row(
      "memcpy",
      [](Buffers& b, uint64_t bytes) {
        return best_ns([&] { std::memcpy(b.at(2), b.at(0), bytes); }, bytes);
      },
      2);
  print_row(
      "copy_to_all 1->2",
      [](Buffers& b, uint64_t bytes) {
        void* to[] = {b.at(2), b.at(3)};
        return best_ns([&] { copy_to_all(b.at(0), to, 2, bytes); }, bytes);
      },
      3);
  for (const char* level : {"avx512", "avx2", "neon", "scalar"}) {
    if (!force_simd_level(level)) continue;
    reduction_row(DataType::float32, RedOp::sum, 1, 0);
    reduction_row(DataType::float32, RedOp::sum, 1, 4);
    reduction_row(DataType::float32, RedOp::sum, 2, 0);
    for (const DataType type :
         {DataType::int8, DataType::int32, DataType::int64, DataType::float16, DataType::bfloat16,
          DataType::float64, DataType::float8e4m3, DataType::float8e5m2})
      reduction_row(type, RedOp::sum, 1, 0);
    for (const RedOp op : {RedOp::prod, RedOp::max}) {
      reduction_row(DataType::float32, op, 1, 0);
      reduction_row(DataType::int64, op, 1, 0);
    }
  }
}

// Two one-way fifos between two threads and a ball that goes to and fro: half a round trip.
struct Wire {
  alignas(64) FifoCounters counters{};
  alignas(64) uint8_t slots[8 * 16384] = {};
  SlotRecord records[8] = {};
  Fifo sender{}, receiver{};

  Wire(int from, int to, Protocol protocol) {
    sender.slots = slots;
    sender.tail = &counters.tail;
    sender.head = &counters.head;
    sender.consumer_sleeps = &counters.consumer_sleeps;
    sender.producer_sleeps = &counters.producer_sleeps;
    sender.records = records;
    sender.slot_bytes = 16384;
    sender.slot_count = 8;
    sender.bell_fd = -1;
    sender.protocol = protocol;
    receiver = sender;
    sender.peer = to;
    receiver.peer = from;
  }
};

double handover_ns(Protocol protocol, uint64_t bytes, int rounds) {
  auto there = std::make_unique<Wire>(0, 1, protocol);
  auto back = std::make_unique<Wire>(1, 0, protocol);
  int64_t ns = 0;
  bool good = true;
  const auto player = [&](int rank) {
    Fifo* send[2 * kProtocolCount] = {};
    Fifo* recv[2 * kProtocolCount] = {};
    const int at = (1 - rank) * kProtocolCount + int(protocol);
    send[at] = rank == 0 ? &there->sender : &back->sender;
    recv[at] = rank == 0 ? &back->receiver : &there->receiver;
    std::vector<uint8_t> data(bytes);
    PairStep step{};
    Work w{};
    w.collective = Collective::send_recv;
    w.algorithm = AlgorithmId::pairwise;
    w.protocol = protocol;
    w.type = DataType::uint8;
    w.chunk_count = 8192;
    w.pairs = &step;
    w.pair_count = 1;
    w.rank = rank;
    w.nranks = 2;
    CpuContext context;
    collctl::base::WaitPolicy waiting(collctl::base::WaitPolicy::fixed(1'000'000));
    context.waiting = &waiting;
    const PairStep serve{data.data(), nullptr, bytes, 0, 1 - rank, -1};
    const PairStep take{nullptr, data.data(), 0, bytes, -1, 1 - rank};
    const int64_t start = collctl::now_ns();
    for (int i = 0; i < 2 * rounds && good; ++i) {
      step = i % 2 == rank ? serve : take;
      if (!run_work(w, {send, recv}, context)) good = false;
    }
    if (rank == 0) ns = collctl::now_ns() - start;
  };
  std::thread other(player, 1);
  player(0);
  other.join();
  return good ? double(ns) / (2.0 * rounds) : -1;
}

void print_handovers() {
  std::printf("\none-way handover, ns (best of %d)      simple        ll\n", kRounds);
  for (const uint64_t bytes : {8, 64, 256, 1024, 4096}) {
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < kRounds; ++round)
      for (const Protocol protocol : {Protocol::simple, Protocol::ll})
        best[int(protocol)] = std::min(best[int(protocol)], handover_ns(protocol, bytes, 500));
    std::printf("%24llu bytes %15.0f %9.0f\n", static_cast<unsigned long long>(bytes), best[0],
                best[1]);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  print_bandwidths();
  print_handovers();
}
