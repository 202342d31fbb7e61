// The kernels of verbs and of messages over fifos, through the product's launcher: all ranks are
// blocks of one launch. Every algorithm, protocol, collective, type and operation is drawn, each
// rank's buffers at its own alignment, few and many slots, flags about to wrap.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/algo/algorithms.h"
#include "kernels/algo/dispatch.h"
#include "tests/catch.h"
#include "tests/emulated_gpu/draw.h"
#include "tests/emulated_gpu/machine.h"
#include "tests/gpu/world.h"

using namespace emulated_tests;
using namespace collctl::kernels;
using cpu_tests::Case;
using cpu_tests::Operation;
using gpu_tests::World;
using gpu_tests::WorldShape;

namespace {

constexpr int64_t kPatience = 4'000'000'000;
constexpr int kMostWorks = 30;  // of a launch

// An operation of all ranks. Device memory is the host's: the kernels find it where it is.
struct Ranks {
  Case what;
  int threads = 96;
  std::vector<std::unique_ptr<Operation>> operations;
  std::vector<Work> works;
  std::vector<PairStep> rounds;
  std::vector<const int32_t*> orders;         // of a work each
  std::vector<std::vector<uint8_t>> scratch;  // of a work each

  Ranks(Draw& draw, const Case& c, const WorldShape& shape) : what(c) {
    for (int r = 0; r < shape.nranks; ++r) {
      Case mine = c;
      mine.misalign = draw.misalign(element_size(c.type));
      operations.push_back(std::make_unique<Operation>(mine, r, shape.nranks));
      const Operation& op = *operations.back();
      for (int channel = 0; channel < shape.channels; ++channel) {
        works.push_back(op.work(channel, shape.channels));
        orders.push_back(op.order().data());
        if (const uint64_t bytes = scratch_bytes(works.back()); bytes > 0)
          works.back().scratch = scratch.emplace_back(bytes).data();
        rounds.insert(rounds.end(), op.pairs().begin(), op.pairs().end());
      }
    }
  }
};

// Traces that waits leave (contract/waits.h).
struct Waits {
  std::vector<WaitNote> notes = std::vector<WaitNote>(kMaxChannels);
  std::vector<PeerWait> times;

  explicit Waits(World& world) : times(size_t(world.shape.nranks)) {
    world.waits = {notes.data(), times.data()};
  }
  uint64_t waited_ns() const {
    uint64_t sum = 0;
    for (const PeerWait& peer : times) sum += peer.recv_ns + peer.send_ns;
    return sum;
  }
};

WorldShape draw_shape(Draw& draw) {
  WorldShape s;
  s.nranks = draw.of({1, 2, 2, 3, 3, 4, 5, 7, 8});
  s.channels = int(1 + draw.below(uint64_t(std::min(3, kMostWorks / s.nranks))));
  s.slot_count = draw.of<uint32_t>({1, 2, 3, 8});
  s.slot_data_bytes = 240 * draw.of<uint32_t>({1, 2, 16});
  // LL's flags begin anew, in slots that are full of older ones.
  if (draw.one_in(4)) {
    s.first_step = (uint64_t(1) << draw.of({31, 32})) - s.slot_count - draw.below(4);
    s.before = 0x55;
  }
  s.window_bytes = draw.of<uint64_t>({1 << 10, 16 << 10});
  return s;
}

// Kinds of works: all, messages, or those that are few moves (kernels/cuda/moves).
enum class Kind { any, messages, moves };

bool is_of(Kind kind, const AlgorithmRow& row, Protocol protocol) {
  if (kind == Kind::messages) return row.id == AlgorithmId::pairwise;
  return kind != Kind::moves ||
         (row.id != AlgorithmId::pairwise && !row.window && protocol != Protocol::ll128);
}

// A way and a protocol for a collective that it serves. Messages: large enough for several warps.
Case draw_case(Draw& draw, const WorldShape& shape, Kind kind) {
  Case c;
  const auto rows = algorithms();
  const AlgorithmRow* row = nullptr;
  do {
    row = &rows[draw.below(rows.size())];
    c.protocol = Protocol(draw.below(kProtocolCount));
    c.collective = Collective(draw.below(kCollectiveCount));
  } while (!serves(*row, c.protocol) || !serves(*row, c.collective) ||
           (!row->window && most_slices(*row, shape.slot_count) == 0) ||
           !is_of(kind, *row, c.protocol));
  c.algorithm = row->id;
  c.type = draw.one_in(2) ? DataType::float32 : DataType(draw.below(kDataTypeCount));
  c.op = draw.one_in(2) ? RedOp::sum : RedOp(draw.below(kRedOpCount));
  const size_t element = element_size(c.type);
  const bool large = kind == Kind::messages || (kind == Kind::any && draw.one_in(4));
  c.count = draw.size(large ? 24 << 10 : 3 << 10) / element;
  c.root = int(draw.below(uint64_t(shape.nranks)));
  c.in_place = draw.one_in(2);
  if (row->window) {
    c.chunk_bytes = shape.window_bytes / uint64_t(shape.nranks) / 16 * 16;
  } else {
    const uint32_t most = most_slices(*row, shape.slot_count);
    const uint64_t slots = kind == Kind::moves ? 1 : 1 + draw.below(std::min(most, 3u));
    c.chunk_bytes = slots * shape.slot_data_bytes;
  }
  return c;
}

std::string check(const World& world, const std::vector<std::unique_ptr<Ranks>>& all) {
  for (int r = 0; r < world.shape.nranks; ++r)
    for (int c = 0; c < world.shape.channels; ++c)
      if (const Report& report = world.report(r, c); report.code != ReportCode::none)
        return "rank " + std::to_string(r) + " channel " + std::to_string(c) + " aborted: code " +
               std::to_string(int(report.code)) + ", of rank " + std::to_string(report.peer) +
               " step " + std::to_string(report.step);
  for (const auto& ranks : all)
    for (const auto& operation : ranks->operations)
      if (std::string wrong = operation->check(); !wrong.empty()) return wrong;
  return "";
}

// Returns for how long its waits were in all, where they were counted.
uint64_t run_drawn(uint64_t seed, Kind kind) {
  Draw draw(seed);
  const WorldShape shape = draw_shape(draw);
  World world(shape);
  std::optional<Waits> waits;
  if (draw.one_in(2)) waits.emplace(world);
  emulated::machine().behave(draw.manners(seed));
  std::string said = seed_note(seed) + "\n" + std::to_string(shape.channels) + " channels, " +
                     std::to_string(shape.slot_count) + " slots of " +
                     std::to_string(shape.slot_data_bytes) + " from step " +
                     std::to_string(shape.first_step);
  std::vector<std::unique_ptr<Ranks>> all;
  std::string wrong;
  for (uint64_t launches = 1 + draw.below(4); launches > 0 && wrong.empty(); --launches) {
    const Case c = draw_case(draw, shape, kind);
    all.push_back(std::make_unique<Ranks>(draw, c, shape));
    const int threads = draw.of({96, 128, 192, 320});
    said += "\n" + describe(c, -1, shape.nranks) + " threads " + std::to_string(threads);
    gpu_tests::HostSide host;
    if (draw.one_in(2)) host.rounds = all.back()->rounds.data();
    if (kind == Kind::moves || draw.one_in(2)) host.orders = all.back()->orders;
    if (!world.launch(all.back()->works, threads, kPatience, host)) wrong = "refused";
  }
  if (wrong.empty()) wrong = emulated::machine().run();
  if (wrong.empty()) wrong = check(world, all);
  INFO(said);
  REQUIRE(wrong == "");
  if (waits && shape.nranks == 1) CHECK(waits->waited_ns() == 0);
  return waits ? waits->waited_ns() : 0;
}

}  // namespace

TEST_CASE("kernels of verbs and messages: drawn at random", "[works]") {
  uint64_t waited_ns = 0;
  each_seed(120, [&](uint64_t seed) { waited_ns += run_drawn(seed, Kind::any); });
  CHECK(waited_ns > 0);
}

TEST_CASE("kernels of messages: drawn at random", "[works]") {
  uint64_t waited_ns = 0;
  each_seed(100, [&](uint64_t seed) { waited_ns += run_drawn(seed, Kind::messages); });
  CHECK(waited_ns > 0);
}

TEST_CASE("kernels of moves: drawn at random", "[works]") {
  uint64_t waited_ns = 0;
  each_seed(120, [&](uint64_t seed) { waited_ns += run_drawn(seed, Kind::moves); });
  CHECK(waited_ns > 0);
}

TEST_CASE("kernels of verbs, messages and moves: what a proxy is told", "[works]") {
  constexpr uint64_t kStep = 5;
  struct Told {
    Protocol protocol;
    bool reduces;
    AlgorithmId algorithm;
  };
  for (const Told& told : {Told{Protocol::ll, false, AlgorithmId::doubling},
                           Told{Protocol::ll, false, AlgorithmId::pairwise},
                           Told{Protocol::simple, false, AlgorithmId::pairwise},
                           Told{Protocol::simple, false, AlgorithmId::doubling},
                           Told{Protocol::simple, true, AlgorithmId::doubling}})
    for (const bool knows : {false, true}) {
      CAPTURE(int(told.protocol), told.reduces, int(told.algorithm), knows);
      Draw draw(7);
      emulated::machine().behave({.seed = 7});
      const uint8_t flags = kFifoProxyReads | (told.reduces ? kFifoReduces : 0);
      World world({.nranks = 2, .first_step = kStep, .sender_flags = flags});
      const bool pairwise = told.algorithm == AlgorithmId::pairwise;
      const Case c{.algorithm = told.algorithm,
                   .collective = pairwise ? Collective::all_to_all : Collective::all_reduce,
                   .type = DataType::int32,
                   .op = RedOp::max,
                   .protocol = told.protocol,
                   .count = 10,
                   .chunk_bytes = 480};
      Ranks ranks(draw, c, world.shape);
      gpu_tests::HostSide host;
      if (knows) host = {.rounds = ranks.rounds.data(), .orders = ranks.orders};
      REQUIRE(world.launch(ranks.works, 96, kPatience, host));
      REQUIRE(emulated::machine().run() == "");
      for (const int rank : {0, 1}) {
        const SlotRecord record = world.record(rank, 1 - rank, told.protocol, kStep);
        CHECK(record.bytes == (told.protocol == Protocol::ll ? 80u : 40u));
        if (told.protocol == Protocol::ll) CHECK(record.mark == kStep + 1);
        if (told.reduces) CHECK(record.mark == reduction_code(c.type, c.op));
      }
    }
}

TEST_CASE("kernels of verbs and messages: a rank that never comes is named", "[works][stall]") {
  for (const AlgorithmId id : {AlgorithmId::ring, AlgorithmId::tree, AlgorithmId::pairwise,
                               AlgorithmId::doubling, AlgorithmId::one_shot})
    for (int which = 0; which < 2 * kProtocolCount; ++which) {
      const bool by_moves = which >= kProtocolCount;
      const int p = which % kProtocolCount;
      if (!serves(algorithm(id), Protocol(p))) continue;
      if (by_moves && !is_of(Kind::moves, algorithm(id), Protocol(p))) continue;
      Draw draw(uint64_t(p) + 1);
      emulated::machine().behave({.seed = uint64_t(p) + 1, .looks = 64});
      const WorldShape shape{.nranks = 3, .slot_count = 2, .slot_data_bytes = 480};
      World world(shape);
      Waits waits(world);
      const bool pairwise = id == AlgorithmId::pairwise;
      const Case c{.algorithm = id,
                   .collective = pairwise ? Collective::all_to_all : Collective::all_reduce,
                   .protocol = Protocol(p),
                   .count = by_moves ? 100u : 2000u,
                   .chunk_bytes = 480};
      Ranks ranks(draw, c, shape);
      ranks.works.pop_back();
      ranks.orders.pop_back();
      gpu_tests::HostSide host;
      if (by_moves) host.orders = ranks.orders;
      INFO(describe(c, -1, shape.nranks));
      REQUIRE(world.launch(ranks.works, 96, 3'000'000, host));
      REQUIRE(emulated::machine().run() == "");
      bool late = false, named = false;
      for (int r = 0; r < 2; ++r) {
        const Report& report = world.report(r, 0);
        CHECK((report.code == ReportCode::timeout || report.code == ReportCode::aborted));
        CHECK(report.rank == r);
        CHECK(report.algorithm == id);
        CHECK(report.protocol == Protocol(p));
        late |= report.code == ReportCode::timeout;
        named |= report.peer == 2;
      }
      CHECK(late);
      CHECK(named);
      // Before the deadline they wrote who waits, and again and again.
      bool noted = false;
      for (const WaitNote& note : waits.notes)
        noted |= note.wait.peer == 2 && note.wait.algorithm == id && note.since_ns > 0 &&
                 note.stamp_ns > note.since_ns;
      CHECK(noted);
      CHECK(world.aborted());
    }
}
