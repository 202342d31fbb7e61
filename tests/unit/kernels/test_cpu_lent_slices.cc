// Slices that a proxy sends out of a rank's own memory, or receives into it: what the peer gets,
// however late it is sent and wherever it comes, and what becomes of those that do not.
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/wait.h"
#include "tests/unit/kernels/lent_cases.h"

namespace cpu_lent_slices_tests {

using namespace cpu_tests;

namespace {

// The way of every pair through a proxy that sends what is lent out of its own memory, as late as
// it may, only when it has nothing else to do for a while, and receives where the peer wants it.
class LateProxies {
 public:
  explicit LateProxies(FifoFixture& fixture) {
    for (int from = 0; from < fixture.geometry.nranks; ++from)
      for (int to = 0; to < fixture.geometry.nranks; ++to)
        if (from != to) add(fixture, from, to);
    thread_ = std::thread([this] {
      while (!stop_) {
        const bool stored =
            std::any_of(ways_.begin(), ways_.end(), [](auto& way) { return way->pass_on(false); });
        if (stored) continue;
        collctl::base::sleep_until(collctl::base::Deadline::after_ns(50'000));
        for (auto& way : ways_) way->pass_on(true);
      }
    });
  }
  ~LateProxies() {
    stop_ = true;
    thread_.join();
  }
  uint64_t lent() const { return lent_; }
  uint64_t placed() const { return placed_; }

 private:
  struct Way {
    Connection own;  // the sender's
    Connection* there = nullptr;
    std::atomic<uint64_t>*lent = nullptr, *placed = nullptr;
    std::vector<Place> places;
    uint64_t step = 0;

    static std::atomic_ref<uint64_t> word(uint64_t& counter) { return std::atomic_ref(counter); }
    // The next slice, when there is one, of that kind.
    bool pass_on(bool lends) {
      Fifo& to = there->sender;
      if (word(own.counters.tail).load() == step ||
          word(there->counters.head).load() + to.slot_count == step)
        return false;
      const size_t slot = step % to.slot_count;
      const uint8_t* from = own.slots + slot * to.slot_bytes;
      uint32_t bytes = std::atomic_ref(own.records[slot].bytes).load();
      if ((bytes == kSlotLends) != lends) return false;
      if (lends) {
        Lent of{};
        std::memcpy(&of, from, sizeof of);
        from = reinterpret_cast<const uint8_t*>(of.address);
        bytes = uint32_t(of.bytes);
        ++*lent;
      }
      const Place& place = places[slot];
      const bool wanted = word(const_cast<uint64_t&>(place.step)).load() == step + 1;
      if (wanted) ++*placed;
      std::memcpy(
          wanted ? reinterpret_cast<uint8_t*>(place.address) : there->slots + slot * to.slot_bytes,
          from, bytes);
      there->records[slot].bytes = wanted ? bytes | kSlotPlaced : bytes;
      ++step;
      word(own.counters.head).store(step);
      word(there->counters.tail).store(step);
      return true;
    }
  };

  void add(FifoFixture& fixture, int from, int to) {
    auto way = std::make_unique<Way>();
    way->there = &fixture.connection(from, to, Protocol::simple);
    way->own.make(fixture.geometry, from, to, 0, Protocol::simple);
    way->own.sender.flags = kFifoProxyReads | kFifoSendsLent;
    way->lent = &lent_;
    way->placed = &placed_;
    way->places.resize(way->own.sender.slot_count);
    way->there->receiver.flags |= kFifoPlaces;
    way->there->receiver.places = way->places.data();
    // The sender's end is the proxy's; the proxy writes what was the sender's.
    const_cast<Fifo**>(fixture.links(from).send)[to * kProtocolCount + int(Protocol::simple)] =
        &way->own.sender;
    ways_.push_back(std::move(way));
  }

  std::vector<std::unique_ptr<Way>> ways_;
  std::atomic<uint64_t> lent_{0}, placed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr uint64_t kLargeSlot = 2 * kLentSliceBytes;

std::vector<Case> large_cases(int nranks) {
  std::vector<Case> cases;
  int turn = 0;
  const auto add = [&](AlgorithmId algorithm, Collective collective) {
    // Below a lent slice, one, several of a chunk and several chunks.
    for (const uint64_t count : {100, 4099, 30001}) {
      ++turn;
      cases.push_back({.algorithm = algorithm,
                       .collective = collective,
                       .type = turn % 4 == 0 ? DataType::float64 : DataType::int32,
                       .op = turn % 3 == 0 ? RedOp::avg : RedOp::sum,
                       .count = count,
                       .root = turn % nranks,
                       .in_place = turn % 2 == 0,
                       .misalign = size_t(turn % 2 * 8),
                       .chunk_bytes = kLargeSlot * uint64_t(1 + turn % 2)});
    }
  };
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::broadcast, Collective::reduce})
    add(AlgorithmId::ring, collective);
  for (const Collective collective :
       {Collective::all_to_all, Collective::send_recv, Collective::gather, Collective::scatter})
    add(AlgorithmId::pairwise, collective);
  add(AlgorithmId::doubling, Collective::all_reduce);
  add(AlgorithmId::tree_split, Collective::all_reduce);
  add(AlgorithmId::halving, Collective::reduce_scatter);
  add(AlgorithmId::tree, Collective::all_reduce);
  add(AlgorithmId::rooted_tree, Collective::broadcast);
  add(AlgorithmId::rooted_tree, Collective::reduce);
  return cases;
}

}  // namespace

TEST_CASE("what a proxy sends late out of a rank's memory is what it was", "[lending]") {
  for (int n = 2; n <= 5; ++n) {
    CAPTURE(n);
    FifoFixture fixture({.nranks = n, .slot_count = 4, .slot_data_bytes = kLargeSlot});
    const LateProxies proxies(fixture);
    CHECK(run_cases(fixture, large_cases(n)) == "");
    CHECK(proxies.lent() > 0);
    CHECK(proxies.placed() > 0);
  }
}

TEST_CASE("a place is taken back when the work fails, and not when it ends well", "[lending]") {
  FifoFixture fixture({.nranks = 2, .slot_data_bytes = kLargeSlot});
  Connection& c = fixture.connection(0, 1, Protocol::simple);
  std::vector<Place> places(c.receiver.slot_count);
  c.receiver.flags |= kFifoPlaces;
  c.receiver.places = places.data();
  Operation operation({.collective = Collective::broadcast, .count = 12000, .chunk_bytes = 65536},
                      1, 2);
  CpuContext context = fixture.context();
  context.op_timeout_ns = kShortTimeoutNs;
  int taken_back = 0;
  context.assist_argument = &taken_back;
  context.take_back = [](void* count) { ++*static_cast<int*>(count); };
  CHECK_FALSE(run_work(operation.work(), fixture.links(1), context));
  CHECK(taken_back == 1);
  CHECK(places[0].step == 1);  // and the rest of the chunk
  CHECK(places[1].step == 2);
  CHECK(places[1].address == places[0].address + places[0].bytes);
  CHECK(places[0].bytes + places[1].bytes == 12000 * element_size(DataType::float32));

  for (size_t i = 0; i < 2; ++i) c.records[i].bytes = uint32_t(places[i].bytes);
  c.counters.tail = 2;
  CHECK(run_work(operation.work(), fixture.links(1), context));
  CHECK(taken_back == 1);
}

TEST_CASE("a slice that is not sent in time is taken back from the proxy", "[lending]") {
  FifoFixture fixture({.nranks = 2, .slot_data_bytes = kLargeSlot});
  Connection& c = fixture.connection(0, 1, Protocol::simple);
  c.sender.flags |= kFifoProxyReads | kFifoSendsLent;
  Operation operation({.collective = Collective::broadcast, .count = 6000, .chunk_bytes = 32768}, 0,
                      2);
  CpuContext context = fixture.context();
  context.op_timeout_ns = kShortTimeoutNs;
  CHECK_FALSE(run_work(operation.work(), fixture.links(0), context));
  CHECK(context.report.code == ReportCode::timeout);
  CHECK(context.report.side == WaitSide::send);
  CHECK(context.report.peer == 1);
  CHECK(c.counters.tail == 1);
  CHECK(c.records[0].bytes == kSlotTakenBack);
}

}  // namespace cpu_lent_slices_tests
