// The window kernels (one-shot, two-shot, directly between users' buffers), drawn at random: all
// collectives, paths, types and operations, each rank's buffers at its own alignment, small chunks,
// several blocks, several launches one behind the other.
#include <algorithm>

#include "tests/catch.h"
#include "tests/emulated_gpu/draw.h"
#include "tests/emulated_gpu/machine.h"
#include "tests/emulated_gpu/windows.h"

using namespace emulated_tests;

namespace {

constexpr Collective kCollectives[] = {
    Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
    Collective::broadcast,  Collective::reduce,     Collective::gather,
    Collective::scatter,    Collective::all_to_all, Collective::barrier};

std::string note_of(uint64_t epoch, In in) {
  return "\nepoch " + std::to_string(epoch) + (in == In::host ? ", in host memory" : "");
}

WindowCase draw_case(Draw& draw, int nranks, bool direct) {
  WindowCase c;
  c.what.collective =
      draw.one_in(3) ? Collective::all_reduce : kCollectives[draw.below(std::size(kCollectives))];
  c.what.algorithm = draw.one_in(2) ? AlgorithmId::one_shot : AlgorithmId::two_shot;
  if (c.what.collective != Collective::all_reduce) c.what.algorithm = AlgorithmId::one_shot;
  c.what.protocol = direct ? Protocol::simple : Protocol(draw.below(kProtocolCount));
  if (!direct && draw.one_in(4)) {  // messages among the others, also such as few ranks know of
    c.what.algorithm = AlgorithmId::pairwise;
    c.what.protocol = draw.of({Protocol::simple, Protocol::ll128, Protocol::ll128});
    c.times = draw.of({1, 1, 1, 2, 3, 5});
    c.what.collective = draw.of(
        {Collective::send_recv, Collective::gather, Collective::scatter, Collective::all_to_all});
  }
  c.what.type = draw.one_in(2) ? draw.of({DataType::float32, DataType::float16, DataType::bfloat16})
                               : DataType(draw.below(kDataTypeCount));
  c.what.op = draw.one_in(2) ? RedOp::sum : RedOp(draw.below(kRedOpCount));
  c.what.root = int(draw.below(uint64_t(nranks)));
  c.what.in_place = draw.one_in(2);
  const size_t element = element_size(c.what.type);
  // Rarely as much as a dealt broadcast by LL128 wants.
  const uint64_t most = draw.one_in(40) ? 300 << 10 : draw.one_in(4) ? 48 << 10 : 4 << 10;
  c.what.count = draw.size(most) / element;
  if (draw.one_in(2)) c.what.count = c.what.count / 8 * 8;
  c.blocks = int(1 + draw.below(nranks > 4 ? 2 : 4));
  c.chunk_bytes = draw.of<uint32_t>({0, 16, 48, 256, 1024, 4096});
  // More turns than that find nothing new.
  while (c.chunk_bytes != 0 && c.what.count * element / c.chunk_bytes > 600) c.chunk_bytes *= 4;
  const bool odd = draw.one_in(2);
  for (int r = 0; r < nranks; ++r) c.misalign.push_back(odd ? draw.misalign(element) : 0);
  if (direct) c.direct = draw.of({DirectPath::best, DirectPath::store, DirectPath::load});
  return c;
}

// Returns for how long ranks have waited, where they counted that.
uint64_t run_drawn(uint64_t seed, bool direct) {
  Draw draw(seed);
  const int nranks = draw.of({1, 2, 2, 3, 3, 4, 4, 5, 7, 8});
  const uint64_t epoch = draw.of<uint64_t>({0, 1, (uint64_t(1) << 32) - 2, (uint64_t(7) << 32) - 3,
                                            uint64_t(9) << 32, draw.below(uint64_t(1) << 40)});
  // Where the low half of an epoch is 0, as memory is at first, the first half of an LL line says
  // nothing: there the lines must arrive whole, as they do on all GPUs.
  emulated::Manners manners = draw.manners(seed);
  manners.tears = uint32_t(epoch + 64) >= 64;
  emulated::machine().behave(manners);
  const In in = direct || !draw.one_in(3) ? In::gpu : In::host;
  Windows windows(nranks, epoch, in);
  windows.counting = uint32_t(draw.below(uint64_t(1) << nranks));
  const int64_t start = emulated::machine().clock_ns();
  std::string said = seed_note(seed) + note_of(epoch, in);
  std::string wrong;
  for (uint64_t batch = 1 + draw.below(2); batch > 0 && wrong.empty(); --batch) {
    for (uint64_t launches = 1 + draw.below(4); launches > 0 && wrong.empty(); --launches) {
      const WindowCase c = draw_case(draw, nranks, direct);
      if (!served(c, nranks, in)) continue;
      said += "\n" + describe(c, nranks);
      wrong = windows.launch(c);
    }
    if (wrong.empty()) wrong = windows.finish();
  }
  INFO(said);
  REQUIRE(wrong == "");
  // Nobody waits longer than there was time, however many peers it waits for at once.
  const auto elapsed = uint64_t(emulated::machine().clock_ns() - start);
  uint64_t waited_ns = 0;
  for (int r = 0; r < nranks; ++r) {
    const bool counts = (windows.counting >> r & 1) != 0;
    CHECK(windows.waited_ns(r) <= (counts ? elapsed + elapsed / 1000 : 0));
    CHECK(windows.waited_ns(r, r) == 0);
    waited_ns += windows.waited_ns(r);
  }
  return waited_ns;
}

}  // namespace

TEST_CASE("window kernels: drawn at random", "[windows]") {
  uint64_t waited_ns = 0;
  each_seed(120, [&](uint64_t seed) { waited_ns += run_drawn(seed, false); });
  CHECK(waited_ns > 0);
}

TEST_CASE("kernels directly between users' buffers: drawn at random", "[windows][direct]") {
  uint64_t waited_ns = 0;
  each_seed(40, [&](uint64_t seed) { waited_ns += run_drawn(seed, true); });
  CHECK(waited_ns > 0);
}

// The others' waits are for it, and it waits for nobody.
TEST_CASE("window kernels: the rank that comes late is named by the waits", "[windows]") {
  struct Path {
    Collective collective;
    AlgorithmId algorithm;
    Protocol protocol;
    uint64_t count = 60;
    DirectPath direct = DirectPath::none;
  };
  constexpr AlgorithmId kOne = AlgorithmId::one_shot, kTwo = AlgorithmId::two_shot;
  constexpr Collective kSum = Collective::all_reduce;
  constexpr int kRanks = 3, kLate = 2;
  uint64_t seed = 0;
  for (const Path& path :
       {Path{kSum, kOne, Protocol::ll}, Path{kSum, kOne, Protocol::ll128},
        Path{kSum, kOne, Protocol::ll128, 4000}, Path{kSum, kOne, Protocol::simple},
        Path{kSum, kTwo, Protocol::ll, 600}, Path{kSum, kTwo, Protocol::ll128, 600},
        Path{kSum, kTwo, Protocol::simple, 600}, Path{kSum, kOne, Protocol::ll, 61},
        Path{Collective::all_gather, kOne, Protocol::ll128},
        Path{Collective::all_to_all, kOne, Protocol::simple},
        Path{Collective::broadcast, kOne, Protocol::ll},
        Path{Collective::broadcast, kOne, Protocol::simple, 600},
        Path{Collective::send_recv, AlgorithmId::pairwise, Protocol::ll128},
        Path{Collective::send_recv, AlgorithmId::pairwise, Protocol::simple},
        Path{kSum, kOne, Protocol::simple, 600, DirectPath::store},
        Path{kSum, kOne, Protocol::simple, 600, DirectPath::load},
        Path{Collective::all_gather, kOne, Protocol::simple, 600, DirectPath::best}}) {
    emulated::machine().behave({.seed = ++seed});
    Windows windows(kRanks, seed);
    windows.counting = (1u << kRanks) - 1;
    WindowCase c;
    c.what = {.algorithm = path.algorithm,
              .collective = path.collective,
              .protocol = path.protocol,
              .count = path.count};
    c.direct = path.direct;
    c.misalign.resize(kRanks);
    INFO(describe(c, kRanks));
    const int64_t start = emulated::machine().clock_ns();
    windows.hold_up(kLate, 200'000);
    REQUIRE(windows.launch(c) == "");
    REQUIRE(windows.finish() == "");
    // One of them may have waited for the other, which waited for it.
    const auto elapsed = uint64_t(emulated::machine().clock_ns() - start);
    CHECK(std::max(windows.waited_ns(0, kLate), windows.waited_ns(1, kLate)) > elapsed / 2);
    CHECK(windows.waited_ns(kLate) < elapsed / 4);
  }
}

// Kernels for whole aligned words and kernels for anything else, side by side in one operation.
TEST_CASE("window kernels: aligned ranks beside others", "[windows]") {
  uint64_t seed = 0;
  for (const int nranks : {2, 3})
    for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
      for (const AlgorithmId id : {AlgorithmId::one_shot, AlgorithmId::two_shot}) {
        emulated::machine().behave({.seed = ++seed});
        Windows windows(nranks, seed);
        for (const uint64_t count : {2, 6, 62, 64, 66, 190}) {
          WindowCase c;
          c.what = {.algorithm = id, .protocol = protocol, .count = count};
          c.misalign.resize(size_t(nranks));
          c.misalign[count / 2 % size_t(nranks)] = 4;
          INFO(describe(c, nranks));
          REQUIRE(windows.launch(c) == "");
          REQUIRE(windows.finish() == "");
        }
      }
}

// More chunks than slots, and takers that are held up for so long that all slots get full.
TEST_CASE("window kernels: full slots are waited for", "[windows]") {
  struct Path {
    int nranks;
    Collective collective;
    AlgorithmId algorithm;
    DirectPath direct;
  };
  uint64_t seed = 0;
  for (const Path& path :
       {Path{2, Collective::all_to_all, AlgorithmId::one_shot, DirectPath::none},
        Path{2, Collective::send_recv, AlgorithmId::pairwise, DirectPath::none},
        Path{2, Collective::all_reduce, AlgorithmId::one_shot, DirectPath::none},
        Path{2, Collective::all_reduce, AlgorithmId::two_shot, DirectPath::none},
        Path{2, Collective::all_reduce, AlgorithmId::one_shot, DirectPath::store},
        Path{3, Collective::broadcast, AlgorithmId::one_shot, DirectPath::none}}) {
    if (!collctl::test::nightly() && seed == 1) break;
    emulated::machine().behave(
        {.seed = ++seed, .looks = 16, .pauses = 2048, .longest_pause = 1 << 20});
    Windows windows(path.nranks, 0);
    WindowCase c;
    const uint64_t parts = path.algorithm == AlgorithmId::two_shot || path.nranks == 3 ||
                                   path.direct == DirectPath::store
                               ? 2
                               : 1;
    c.what = {.algorithm = path.algorithm, .collective = path.collective, .count = 800 * 4 * parts};
    c.direct = path.direct;
    c.chunk_bytes = 16;
    c.misalign.resize(size_t(path.nranks));
    INFO(describe(c, path.nranks));
    REQUIRE(windows.launch(c) == "");
    REQUIRE(windows.finish() == "");
  }
}

// Nothing comes back from the receiver but that it has taken them; it is held up for long.
TEST_CASE("window kernels: a sender of lines waits for a bank", "[windows]") {
  for (uint64_t seed = 1; seed <= (collctl::test::nightly() ? 12 : 2); ++seed) {
    emulated::machine().behave(
        {.seed = seed, .looks = 16, .pauses = 512, .longest_pause = 1 << 16});
    Windows windows(2, 0);
    WindowCase c;
    c.what = {.algorithm = AlgorithmId::pairwise,
              .collective = Collective::scatter,
              .protocol = Protocol::ll128,
              .root = int(seed % 2)};
    c.blocks = 1 + int(seed % 3);
    c.misalign.resize(2);
    for (uint64_t message = 0; message < 8; ++message) {
      c.what.count = 700 + 60 * message;
      c.times = 1 + int(message % 3);
      REQUIRE(windows.launch(c) == "");
    }
    INFO("seed " << seed);
    REQUIRE(windows.finish() == "");
  }
}

// Operations that count chunks leave the numbers of messages alone, and the other way round.
TEST_CASE("window kernels: messages between all other kinds of operations", "[windows]") {
  struct Path {
    Collective collective;
    AlgorithmId algorithm;
    Protocol protocol;
    DirectPath direct = DirectPath::none;
  };
  constexpr Protocol kSimple = Protocol::simple, kLines = Protocol::ll128;
  uint64_t seed = 0;
  for (const Path& path :
       {Path{Collective::all_reduce, AlgorithmId::two_shot, kSimple},
        Path{Collective::all_reduce, AlgorithmId::one_shot, kSimple},
        Path{Collective::all_reduce, AlgorithmId::two_shot, kLines},
        Path{Collective::all_to_all, AlgorithmId::one_shot, kSimple},
        Path{Collective::broadcast, AlgorithmId::one_shot, kSimple},
        Path{Collective::all_reduce, AlgorithmId::one_shot, kSimple, DirectPath::store},
        Path{Collective::all_gather, AlgorithmId::one_shot, kSimple, DirectPath::best}}) {
    emulated::machine().behave({.seed = ++seed});
    Windows windows(3, seed);
    for (int turn = 0; turn < 4; ++turn) {
      for (const Protocol protocol : {kLines, kSimple}) {
        WindowCase c;
        c.what = {.algorithm = AlgorithmId::pairwise,
                  .collective = turn % 2 == 0 ? Collective::send_recv : Collective::scatter,
                  .protocol = protocol,
                  .count = 100 + uint64_t(turn)};
        c.chunk_bytes = 48;
        c.misalign.resize(3);
        REQUIRE(windows.launch(c) == "");
      }
      WindowCase c;
      c.what = {.algorithm = path.algorithm,
                .collective = path.collective,
                .protocol = path.protocol,
                .count = 160};
      c.direct = path.direct;
      c.chunk_bytes = 64;
      c.misalign.resize(3);
      INFO(describe(c, 3));
      REQUIRE(windows.launch(c) == "");
      REQUIRE(windows.finish() == "");
    }
  }
}

// The words written by a rank that is there show it, whatever ran before.
TEST_CASE("window kernels: who has not begun is seen from outside", "[windows][stall]") {
  each_seed(6, [](uint64_t seed) {
    Draw draw(seed);
    const int nranks = draw.of({2, 2, 3, 3, 4, 5, 8});
    const uint64_t epoch = draw.of<uint64_t>(
        {0, 1, (uint64_t(1) << 32) - 2, uint64_t(9) << 32, draw.below(uint64_t(1) << 40)});
    emulated::Manners manners = draw.manners(seed);
    manners.tears = uint32_t(epoch + 64) >= 64;
    emulated::machine().behave(manners);
    const In in = draw.one_in(3) ? In::host : In::gpu;
    Windows windows(nranks, epoch, in);
    std::string said = seed_note(seed) + note_of(epoch, in);
    uint64_t ended = epoch;
    for (uint64_t launches = draw.below(4); launches > 0; --launches) {
      const WindowCase c = draw_case(draw, nranks, draw.one_in(3));
      if (!served(c, nranks, in)) continue;
      said += "\n" + describe(c, nranks);
      INFO(said);
      REQUIRE(windows.launch(c) == "");
      REQUIRE(windows.finish() == "");
      ended += c.what.algorithm != AlgorithmId::pairwise && c.what.count > 0;
    }
    WindowCase c;
    do c = draw_case(draw, nranks, draw.one_in(3));
    while (!served(c, nranks, in) || c.what.algorithm == AlgorithmId::pairwise ||
           c.what.count == 0);
    const int without = int(draw.below(uint64_t(nranks)));
    said += "\n" + describe(c, nranks) + " without " + std::to_string(without);
    INFO(said);
    windows.timeout_ns = int64_t(1) << 60;
    REQUIRE(windows.launch(c, without) == "");
    windows.look_after(60'000);
    REQUIRE(windows.finish_anyhow() == "");
    for (int r = 0; r < nranks; ++r) {
      INFO("rank " << r);
      const Windows::Seen& seen = windows.seen(r);
      REQUIRE(seen.known);
      CHECK(seen.stand.ended == ended);
      CHECK(seen.stand.inside == (r != without));
      CHECK(seen.stand.missing == (r == without ? std::vector<int>{} : std::vector<int>{without}));
    }
  });
}

TEST_CASE("window kernels: a rank that never comes is named", "[windows][stall]") {
  for (const DirectPath direct : {DirectPath::none, DirectPath::store, DirectPath::load})
    for (int p = 0; p < kProtocolCount; ++p)
      for (const AlgorithmId id :
           {AlgorithmId::one_shot, AlgorithmId::two_shot, AlgorithmId::pairwise}) {
        const bool messages = id == AlgorithmId::pairwise;
        if (direct != DirectPath::none && (p != 0 || id != AlgorithmId::one_shot)) continue;
        if (messages && Protocol(p) == Protocol::ll) continue;
        emulated::machine().behave({.seed = uint64_t(p) + 1, .looks = 64});
        constexpr int kRanks = 3;
        Windows windows(kRanks, 4);
        windows.timeout_ns = 3'000'000;
        WindowCase c{
            .what = {.algorithm = id,
                     .collective = messages ? Collective::send_recv : Collective::all_reduce,
                     .protocol = Protocol(p),
                     .count = 60},
            .direct = direct,
            .misalign = {0, 0, 0}};
        INFO(describe(c, kRanks));
        REQUIRE(windows.launch(c, kRanks - 1) == "");
        REQUIRE(windows.finish_anyhow() == "");
        bool late = false, named = false;
        for (int r = 0; r < kRanks - 1; ++r) {
          const Report& report = windows.report(r);
          // Nobody waits for a slot that is free: rank 1 sends to the one missing, and is done.
          if (messages && r == 1) {
            CHECK(report.code == ReportCode::none);
            continue;
          }
          CHECK((report.code == ReportCode::timeout || report.code == ReportCode::aborted));
          CHECK(report.rank == r);
          late |= report.code == ReportCode::timeout;
          named |= report.peer == kRanks - 1;
        }
        CHECK(late);
        CHECK(named);
        CHECK(windows.aborted());
      }
}
