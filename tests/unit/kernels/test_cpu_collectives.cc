// Every algorithm, collective, type and operation on the CPU backend, over fifos between rank
// threads: odd sizes, no elements, unaligned buffers, in place, few and many slots.
#include <mutex>
#include <random>

#include "base/wait.h"
#include "kernels/algo/algorithms.h"
#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"

namespace cpu_collectives_tests {

using namespace cpu_tests;

namespace {

const int kThinning =
    collctl::test::how_much(collctl::test::Sweep::cpu_collectives);  // every so many cases

const std::pair<AlgorithmId, Collective> kServed[] = {
    {AlgorithmId::ring, Collective::all_reduce},
    {AlgorithmId::ring, Collective::barrier},
    {AlgorithmId::ring, Collective::all_gather},
    {AlgorithmId::ring, Collective::reduce_scatter},
    {AlgorithmId::ring, Collective::broadcast},
    {AlgorithmId::ring, Collective::reduce},
    {AlgorithmId::tree, Collective::all_reduce},
    {AlgorithmId::tree_split, Collective::all_reduce},
    {AlgorithmId::bruck, Collective::all_gather},
    {AlgorithmId::halving, Collective::reduce_scatter},
    {AlgorithmId::pairwise, Collective::all_to_all},
    {AlgorithmId::pairwise, Collective::gather},
    {AlgorithmId::pairwise, Collective::scatter},
    {AlgorithmId::pairwise, Collective::send_recv},
    {AlgorithmId::one_shot, Collective::all_reduce},
    {AlgorithmId::one_shot, Collective::barrier},
    {AlgorithmId::one_shot, Collective::all_gather},
    {AlgorithmId::one_shot, Collective::reduce_scatter},
    {AlgorithmId::one_shot, Collective::broadcast},
    {AlgorithmId::one_shot, Collective::reduce},
    {AlgorithmId::one_shot, Collective::gather},
    {AlgorithmId::one_shot, Collective::scatter},
    {AlgorithmId::one_shot, Collective::all_to_all},
    {AlgorithmId::two_shot, Collective::all_reduce},
    {AlgorithmId::two_shot, Collective::barrier}};

bool reduces(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce ||
         c == Collective::reduce_scatter || c == Collective::barrier;
}

std::vector<Case> all_cases(int nranks, uint32_t slot_count, uint32_t slot_bytes) {
  std::vector<Case> cases;
  const uint64_t counts[] = {0, 1, 5, 17, 130, 1003};
  int turn = 0;
  for (const auto& [algorithm, collective] : kServed)
    for (const Protocol protocol : {Protocol::simple, Protocol::ll})
      for (int type = serves(collctl::kernels::algorithm(algorithm), protocol) ? 0 : kDataTypeCount;
           type < kDataTypeCount; ++type)
        for (int op = 0; op < (reduces(collective) ? kRedOpCount : 1); ++op) {
          const bool thorough = DataType(type) == DataType::float32 && RedOp(op) == RedOp::sum;
          for (int k = 0; k < (thorough ? 12 : 1); ++k, ++turn) {
            if (turn % kThinning != 0 && !(thorough && k < 3)) continue;
            Case c{algorithm, collective, DataType(type), RedOp(op), protocol};
            c.count = thorough ? counts[k % 6] : counts[3 + turn % 2];
            c.root = turn % nranks;
            c.in_place = turn % 3 == 1 || k >= 6;
            c.misalign = turn % 4 == 0   ? size_t(turn % 11)
                         : turn % 4 == 1 ? element_size(c.type)
                                         : 0;
            // A fused verb's chunk may take all slots but one.
            c.chunk_bytes = slot_count == 2 || turn % 2 == 0 ? 96 : slot_bytes * 3 + 16;
            cases.push_back(c);
          }
        }
  return cases;
}

class FirstError {
 public:
  void say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (text_.empty()) text_ = text;
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// All ranks run all cases one after the other, as a job does; nothing but the fifos holds them
// together.
std::string run_cases(FifoFixture& fixture, const std::vector<Case>& cases, bool restless = false) {
  FirstError error;
  const int n = fixture.geometry.nranks;
  fixture.run_all([&](int rank) {
    std::mt19937 random(uint32_t(rank) + 1);
    const ChannelLinks links = fixture.links(rank);
    CpuContext context = fixture.context();
    collctl::base::WaitPolicy patient(collctl::base::WaitPolicy::fixed(20'000));
    for (const Case& c : cases) {
      Operation operation(c, rank, n);
      if (restless) {
        context.waiting = random() % 2 ? nullptr : &patient;
        for (uint32_t i = random() % 4; i > 0; --i) collctl::base::yield_thread();
        if (random() % 16 == 0)
          // time is what is tested: ranks that come at any moment
          collctl::base::sleep_until(collctl::Deadline::after_ns(random() % 300'000));
      }
      const bool done = run_work(operation.work(), links, context);
      const std::string wrong = done ? operation.check()
                                     : describe(c, rank, n) + ": aborted, waiting for rank " +
                                           std::to_string(context.report.peer) + " step " +
                                           std::to_string(context.report.step) + " seen " +
                                           std::to_string(context.report.seen);
      if (wrong.empty()) continue;
      error.say(wrong);
      fixture.abort();
      return;
    }
  });
  return error.text();
}

}  // namespace

TEST_CASE("every collective, algorithm, type and operation, Simple and LL") {
  for (const int nranks : {1, 2, 3, 4, 7, 8, 16})
    for (const uint32_t slot_count : {2u, 8u}) {
      FifoFixture fixture({.nranks = nranks, .slot_count = slot_count, .slot_data_bytes = 128});
      CAPTURE(nranks, slot_count);
      REQUIRE(run_cases(fixture, all_cases(nranks, slot_count, 128)) == "");
    }
}

TEST_CASE("large slots and long buffers") {
  const std::vector<Case> cases = [] {
    std::vector<Case> list;
    for (const auto& [algorithm, collective] : kServed)
      for (const Protocol protocol : {Protocol::simple, Protocol::ll})
        if (serves(collctl::kernels::algorithm(algorithm), protocol))
          list.push_back({.algorithm = algorithm,
                          .collective = collective,
                          .protocol = protocol,
                          .count = 40'001,
                          .root = 1,
                          .chunk_bytes = 16384});
    return list;
  }();
  for (const int nranks : {2, 4}) {
    FifoFixture fixture({.nranks = nranks, .slot_count = 4, .slot_data_bytes = 8192});
    REQUIRE(run_cases(fixture, cases) == "");
  }
}

TEST_CASE("ranks that start late, yield and sleep in between") {
  FifoFixture fixture({.nranks = 5, .slot_count = 2, .slot_data_bytes = 128});
  std::vector<Case> cases;
  const auto all = all_cases(5, 2, 128);
  for (size_t i = 0; i < all.size(); i += 2) cases.push_back(all[i]);
  REQUIRE(run_cases(fixture, cases, true) == "");
}

TEST_CASE("several channels share a rank's buffers") {
  const int n = 3, channels = 3;
  FifoFixture fixture({.nranks = n, .channels = channels, .slot_data_bytes = 128});
  for (const auto& [algorithm, collective] : kServed) {
    if (algorithm == AlgorithmId::pairwise) continue;
    const Case c{.algorithm = algorithm, .collective = collective, .count = 1000};
    std::vector<std::unique_ptr<Operation>> operations;
    for (int rank = 0; rank < n; ++rank)
      operations.push_back(std::make_unique<Operation>(c, rank, n));
    std::atomic<int> done{0};
    for (int channel = 0; channel < channels; ++channel)
      for (int rank = 0; rank < n; ++rank)
        fixture.start(rank, [&, channel](int r) {
          CpuContext context = fixture.context();
          const Work work = operations[size_t(r)]->work(channel, channels);
          if (run_work(work, fixture.links(r, channel), context)) ++done;
        });
    fixture.join();
    REQUIRE(done == n * channels);
    for (const auto& operation : operations) REQUIRE(operation->check() == "");
  }
}

}  // namespace cpu_collectives_tests
