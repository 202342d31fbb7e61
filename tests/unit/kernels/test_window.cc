// One-shot and two-shot over windows: the recorded text and its laws, and the CPU backend: bits,
// counts far into a window's life, waits that end, injected faults.
#include <algorithm>
#include <cstring>
#include <set>

#include "base/wait.h"
#include "kernels/cpu/stage_copy.h"
#include "kernels/record/block_record.h"
#include "kernels/record/locate.h"
#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"
#include "tests/unit/kernels/proof_case.h"

namespace window_tests {

using namespace collctl::kernels;
using collctl::Deadline;
using Outcome = Proof::Outcome;

namespace {

constexpr AlgorithmId kOverWindows[] = {AlgorithmId::one_shot, AlgorithmId::two_shot};

std::vector<std::string> verbs(const Schedule& schedule) {
  std::vector<std::string> list;
  for (const Event& e : schedule.parts[0])
    list.push_back(std::string(name_of(e.verb)) +
                   (e.verb == Verb::copy_from_peer ? " " + std::to_string(e.recv[0]) : ""));
  return list;
}
using Verbs = std::vector<std::string>;

// All schedules of a job, with a change to each rank's events.
template <class Change>
Proof proof_with(const proofs::Case& c, const Wires& wires, Change change) {
  proofs::Job job(c);
  auto schedules = job.schedules();
  for (Schedule& s : schedules) change(s.work.rank, s.parts[0]);
  return interpret(schedules, wires);
}
Proof proof_of(const proofs::Case& c, const Wires& wires) {
  return proof_with(c, wires, [](int, std::vector<Event>&) {});
}

// Leaves out the arrivals that `which` picks by their number in the rank's events.
template <class Which>
void drop_arrivals(std::vector<Event>& events, Which which) {
  size_t number = 0;
  std::erase_if(events,
                [&](const Event& e) { return e.verb == Verb::arrive_and_wait && which(number++); });
}

struct Result {
  bool done = false;
  Report report{};
  std::vector<float> values;
};

struct Run {
  AlgorithmId algorithm = AlgorithmId::one_shot;
  Collective collective = Collective::all_reduce;
  int nranks = 3;
  uint64_t count = 48;
  uint64_t chunk_count = 16;
  Fault fault{};
  int64_t timeout_ns = 60'000'000'000;
  std::vector<int> absent{};
  std::function<void(int rank)> ended{};
};

// Float32 sums of inputs 1, 10, 100, ... by rank.
std::vector<Result> run(cpu_tests::FifoFixture& fixture, const Run& r,
                        const std::function<void()>& meanwhile = {}) {
  std::vector<Result> results(size_t(r.nranks));
  for (int rank = 0; rank < r.nranks; ++rank) {
    if (std::count(r.absent.begin(), r.absent.end(), rank) != 0) continue;
    fixture.start(rank, [&](int me) {
      float value = 1;
      for (int i = 0; i < me; ++i) value *= 10;
      const bool gathers = r.collective == Collective::all_gather;
      std::vector<float> input(r.count, value);
      Result& result = results[size_t(me)];
      result.values.assign(r.count * (gathers ? size_t(r.nranks) : 1), -1.0f);
      Work work{};
      work.input = input.data();
      work.output = result.values.data();
      work.count = work.part_count = r.count;
      work.chunk_count = r.chunk_count;
      work.rank = me;
      work.nranks = r.nranks;
      work.collective = r.collective;
      work.algorithm = r.algorithm;
      work.type = DataType::float32;
      work.op_count = 7;
      CpuContext context = fixture.context();
      context.fault = r.fault;
      context.op_timeout_ns = r.timeout_ns;
      result.done = run_work(work, fixture.links(me), context);
      result.report = context.report;
      if (r.ended) r.ended(me);
    });
  }
  if (meanwhile) meanwhile();
  fixture.join();
  return results;
}

}  // namespace

TEST_CASE("one-shot and two-shot of four are the pictures of their headers", "[window]") {
  proofs::Job one({.algorithm = AlgorithmId::one_shot, .count = 20, .chunk_count = 16});
  const auto shots = one.schedules();
  const Verbs piece = {"next_piece", "stage", "arrive_and_wait", "reduce_from_peers"};
  Verbs twice = piece;
  twice.insert(twice.end(), piece.begin(), piece.end());
  for (const Schedule& s : shots) CHECK(verbs(s) == twice);
  CHECK(shots[2].parts[0][0].n == 16);
  CHECK(shots[2].parts[0][4].n == 4);
  CHECK(shots[2].parts[0][5].from == proofs::kInput + 16 * 4);

  proofs::Job two({.algorithm = AlgorithmId::two_shot, .count = 64});
  CHECK(verbs(two.schedules()[1]) ==
        Verbs{"next_piece", "stage", "stage", "stage", "arrive_and_wait", "reduce_and_stage",
              "arrive_and_wait", "copy_from_peer 2", "copy_from_peer 3", "copy_from_peer 0"});
}

TEST_CASE("two banks suffice, with one a peer that is late reads what is new", "[window][proof]") {
  for (const AlgorithmId algorithm : kOverWindows)
    for (const Collective collective : proofs::served_by(collctl::kernels::algorithm(algorithm)))
      for (const int n : {2, 3, 8}) {
        // Three pieces; of a two-shot also those whose first has two arrivals.
        proofs::Case c{.algorithm = algorithm, .collective = collective, .nranks = n};
        c.root = n - 1;
        c.count = 16 * 3 * (algorithm == AlgorithmId::two_shot ? uint64_t(n) : 1);
        CAPTURE(name_of(algorithm), name_of(collective), n);
        CHECK(proof_of(c, {.window_banks = 2}).outcome == Outcome::proved);
        CHECK(proof_of(c, {.window_banks = 3}).outcome == Outcome::proved);
        const Proof one = proof_of(c, {.window_banks = 1});
        CHECK(one.outcome == Outcome::wrong);
        CHECK((one.what.find("may still read") != std::string::npos ||
               one.what.find("has not announced") != std::string::npos ||
               one.what.find("has not staged") != std::string::npos));
      }
}

TEST_CASE("no arrival can be left out", "[window][proof]") {
  const proofs::Case one{.algorithm = AlgorithmId::one_shot, .count = 48};
  const proofs::Case two{.algorithm = AlgorithmId::two_shot, .count = 3 * 64};
  for (size_t number = 0; number < 3; ++number) {
    CHECK(proof_with(one, {}, [&](int, auto& events) {
            drop_arrivals(events, [&](size_t i) { return i == number; });
          }).outcome == Outcome::wrong);
    CHECK(proof_with(one, {}, [&](int rank, auto& events) {
            if (rank == 1) drop_arrivals(events, [&](size_t i) { return i == number; });
          }).outcome != Outcome::proved);
  }
  for (size_t number = 0; number < 6; ++number)
    CHECK(proof_with(two, {}, [&](int, auto& events) {
            drop_arrivals(events, [&](size_t i) { return i == number; });
          }).outcome == Outcome::wrong);
  const Proof stuck = proof_with(one, {}, [](int rank, auto& events) {
    if (rank == 2) events.erase(events.begin() + 8, events.end());
  });
  REQUIRE(stuck.outcome == Outcome::deadlock);
  CHECK(stuck.what.find("waits for the arrival of rank 2") != std::string::npos);
}

TEST_CASE("pieces must fit their bank and be alike on all ranks", "[window][proof]") {
  const proofs::Case c{.algorithm = AlgorithmId::one_shot, .count = 32};
  CHECK(proof_of(c, {.window_bytes = 64}).outcome == Outcome::proved);
  CHECK(proof_of(c, {.window_bytes = 60}).what.find("does not fit into a bank") !=
        std::string::npos);
  const Proof other = proof_with(c, {}, [](int rank, auto& events) {
    if (rank == 3) events[0].n = 17;
  });
  CHECK(other.what.find("a piece of 68 bytes is one of 64 on rank 0") != std::string::npos);
}

TEST_CASE("locate names the verb and the peers over windows", "[window]") {
  proofs::Job one({.algorithm = AlgorithmId::one_shot, .count = 40});
  auto at = locate(one.works[1], 33);
  REQUIRE(at);
  CHECK(std::string(at->verb) == "reduce_from_peers");
  CHECK(at->peers == std::vector<int>{0, 2, 3});
  CHECK(at->chunk == 2);
  CHECK(at->step == 2);
  CHECK(at->first == 32);
  at = locate_input(one.works[1], 20);
  REQUIRE(at);
  CHECK(std::string(at->verb) == "stage");
  proofs::Job two({.algorithm = AlgorithmId::two_shot, .count = 64});
  at = locate(two.works[1], 40);
  REQUIRE(at);
  CHECK(std::string(at->verb) == "copy_from_peer");
  CHECK(at->peers == std::vector<int>{2});
  CHECK(at->step == 1);
}

TEST_CASE("all ranks get the same bits, those of a sum in the order of ranks", "[window]") {
  for (const AlgorithmId algorithm : kOverWindows)
    for (const int n : {2, 3, 5, 9, 16})
      for (const uint64_t count : {3ul, 11ul, 77ul, 1003ul}) {
        cpu_tests::FifoFixture fixture({.nranks = n, .window_bytes = 4096});
        std::vector<std::vector<float>> inputs, outputs;
        for (int r = 0; r < n; ++r) {
          auto& input = inputs.emplace_back(count);
          for (uint64_t i = 0; i < count; ++i)
            input[i] = 0.1f * float(r + 1) + 1e4f * float((i * 7 + uint64_t(r) * 3) % 11);
          outputs.emplace_back(count, -1.0f);
        }
        fixture.run_all([&](int me) {
          Work work{};
          work.input = inputs[size_t(me)].data();
          work.output = outputs[size_t(me)].data();
          work.count = work.part_count = count;
          work.chunk_count = 64;
          work.rank = me;
          work.nranks = n;
          work.algorithm = algorithm;
          work.type = DataType::float32;
          CpuContext context = fixture.context();
          if (!run_work(work, fixture.links(me), context)) fixture.abort();
        });
        std::vector<float> wanted = inputs[0];
        for (int r = 1; r < n; ++r)
          for (uint64_t i = 0; i < count; ++i) wanted[i] += inputs[size_t(r)][i];
        CAPTURE(name_of(algorithm), n, count);
        for (const auto& output : outputs)
          REQUIRE(std::memcmp(output.data(), wanted.data(), count * sizeof(float)) == 0);
      }
}

TEST_CASE("counts of arrivals run on for ever", "[window]") {
  for (const AlgorithmId algorithm : kOverWindows) {
    cpu_tests::FifoFixture fixture(
        {.nranks = 3, .first_step = (uint64_t(1) << 40) + 1, .window_bytes = 4096});
    for (int round = 0; round < 5; ++round)
      for (const Result& r : run(fixture, {.algorithm = algorithm, .count = 50})) {
        REQUIRE(r.done);
        CHECK(r.values == std::vector<float>(50, 111.0f));
      }
    CHECK(fixture.window(0).arrivals == fixture.window(2).arrivals);
    CHECK(fixture.window(0).arrivals > (uint64_t(1) << 40) + 10);
  }
}

TEST_CASE("a rank that does not arrive is named at the deadline", "[window]") {
  for (const AlgorithmId algorithm : kOverWindows) {
    cpu_tests::FifoFixture fixture({.nranks = 3, .window_bytes = 4096});
    const auto results =
        run(fixture, {.algorithm = algorithm, .timeout_ns = 3'000'000'000, .absent = {1}});
    for (const int rank : {0, 2}) {
      const Report& report = results[size_t(rank)].report;
      CHECK_FALSE(results[size_t(rank)].done);
      CHECK(report.code == ReportCode::timeout);
      CHECK(report.side == WaitSide::recv);
      CHECK(report.peer == 1);
      CHECK(report.step == 0);
      CHECK(report.seen == 0);
      CHECK(report.wanted == 1);
      CHECK(report.algorithm == algorithm);
      CHECK(report.op_count == 7);
    }
  }
}

TEST_CASE("an abort frees who waits for an arrival at once", "[window]") {
  cpu_tests::FifoFixture fixture({.nranks = 4, .window_bytes = 4096});
  const auto results = run(fixture, {.nranks = 4, .absent = {2}}, [&] {
    CHECK(collctl::test::wait_until_asleep(3));
    fixture.abort();
  });
  for (const int rank : {0, 1, 3}) CHECK(results[size_t(rank)].report.code == ReportCode::aborted);
}

TEST_CASE("injected faults show over windows in the right place only", "[window]") {
  cpu_tests::FifoFixture fixture({.nranks = 3, .window_bytes = 4096});
  const auto results = [&](const Fault& fault, AlgorithmId algorithm) {
    return run(fixture, {.algorithm = algorithm, .fault = fault});
  };
  const std::vector<float> good(48, 111.0f);
  for (const FaultKind kind : {FaultKind::missing, FaultKind::doubled, FaultKind::corrupt}) {
    // One-shot, pieces of 16: rank 0's second reduction, where the next rank's data is 10.
    auto bad = results({kind, 0, 0, 1}, AlgorithmId::one_shot);
    CHECK(bad[1].values == good);
    CHECK(bad[2].values == good);
    const float wrong = kind == FaultKind::missing ? 101.0f : 121.0f;
    for (size_t i = 0; i < 48; ++i) {
      const bool hit = kind == FaultKind::corrupt ? i == 16 : i >= 16 && i < 32;
      CHECK((bad[0].values[i] != 111.0f) == hit);
      if (hit && kind != FaultKind::corrupt) CHECK(bad[0].values[i] == wrong);
    }
    // Two-shot, one piece of three slices: rank 1 reduces slice 1 wrongly for all.
    bad = results({kind, 1, 0, 0}, AlgorithmId::two_shot);
    for (const Result& r : bad)
      for (size_t i = 0; i < 48; ++i) {
        const bool hit = kind == FaultKind::corrupt ? i == 16 : i >= 16 && i < 32;
        CHECK((r.values[i] != 111.0f) == hit);
      }
    // Its second receiving verb is a copy from rank 2: only its own output suffers.
    bad = results({kind, 1, 0, 1}, AlgorithmId::two_shot);
    CHECK(bad[0].values == good);
    CHECK(bad[2].values == good);
    const float copied = kind == FaultKind::missing ? 0.0f : 222.0f;
    for (size_t i = 0; i < 48; ++i) {
      const bool hit = kind == FaultKind::corrupt ? i == 32 : i >= 32;
      CHECK((bad[1].values[i] != 111.0f) == hit);
      if (hit && kind != FaultKind::corrupt) CHECK(bad[1].values[i] == copied);
    }
  }
  CHECK(results({FaultKind::missing, 0, 1, 0}, AlgorithmId::one_shot)[0].values == good);
}

TEST_CASE("a rank that stalls over a window makes its peers time out", "[window]") {
  cpu_tests::FifoFixture fixture({.nranks = 2, .window_bytes = 4096});
  // Rank 1 stalls in its first reduction, until the abort; rank 0 needs its second arrival.
  const auto results = run(fixture, {.algorithm = AlgorithmId::two_shot,
                                     .nranks = 2,
                                     .fault = {FaultKind::stall, 1, 0, 0},
                                     .timeout_ns = 1'000'000'000,
                                     .ended = [&](int rank) {
                                       if (rank == 0) fixture.abort();
                                     }});
  CHECK(results[0].report.code == ReportCode::timeout);
  CHECK(results[0].report.peer == 1);
  CHECK(results[0].report.step == 1);
  CHECK_FALSE(results[1].done);
}

TEST_CASE("stage_copy copies what it is told and nothing beside it", "[window]") {
  constexpr uint64_t kRoom = 3 * kStreamedBytes;
  std::vector<uint8_t> source(kRoom + 256), target(kRoom + 256);
  for (size_t i = 0; i < source.size(); ++i) source[i] = uint8_t(i * 31 + i / 251);
  for (const uint64_t bytes : {0ul, 1ul, 63ul, 64ul, 4096ul, kStreamedBytes - 1, kStreamedBytes,
                               kStreamedBytes + 1, kStreamedBytes + 63, kRoom})
    for (const size_t to : {0, 1, 16, 63, 64})
      for (const auto& [from, streams] :
           {std::pair<size_t, bool>(0, true), {3, true}, {32, true}, {5, false}}) {
        std::fill(target.begin(), target.end(), uint8_t(0xee));
        stage_copy(target.data() + to, source.data() + from, bytes, streams);
        CAPTURE(bytes, to, from, streams);
        REQUIRE(std::memcmp(target.data() + to, source.data() + from, bytes) == 0);
        REQUIRE(std::all_of(target.begin(), target.begin() + ptrdiff_t(to),
                            [](uint8_t b) { return b == 0xee; }));
        REQUIRE(std::all_of(target.begin() + ptrdiff_t(to + bytes), target.end(),
                            [](uint8_t b) { return b == 0xee; }));
      }
}

TEST_CASE("pieces take turns within a bank, and stay in it", "[window]") {
  for (const uint64_t bank_bytes : {uint64_t(64), uint64_t(4096), uint64_t(512) << 10})
    for (const int nranks : {1, 2, 7, 64, kMaxWindowRanks})
      for (const uint64_t bytes : {uint64_t(1), uint64_t(64), uint64_t(1000), uint64_t(1024),
                                   uint64_t(5000), uint64_t(40000), bank_bytes}) {
        if (bytes > bank_bytes) continue;
        CAPTURE(bank_bytes, nranks, bytes);
        std::set<uint64_t> places;
        uint64_t last = 0;
        for (uint64_t turn = 0; turn < 600; ++turn) {
          const uint64_t at = place_in_bank(bytes, turn, bank_bytes, nranks);
          REQUIRE(at % 64 == 0);
          REQUIRE(at + bytes <= bank_bytes);
          // As far from the last one as it is long, or the same.
          if (at != last) REQUIRE(std::max(at, last) - std::min(at, last) >= bytes);
          last = at;
          places.insert(at);
        }
        // A rank goes through its share in both banks, unless one piece is more.
        CHECK((places.size() == 1 || places.size() * bytes <= kPlacesBytes / uint64_t(nranks)));
      }
  CHECK(place_in_bank(32768, 1, 512 << 10, 2) == 32768);
  CHECK(place_in_bank(32768, 4, 512 << 10, 2) == 0);
  CHECK(place_in_bank(200 << 10, 1, 512 << 10, 2) == 0);
}

TEST_CASE("a channel streams while its ordinary copies crawl, and tries them again", "[window]") {
  constexpr uint64_t kMiB = 1 << 20;
  StagePace pace;
  for (int i = 0; i < 3; ++i) pace.took(kMiB, 413'000);
  CHECK_FALSE(pace.streams());
  pace.took(kMiB, 80'000);  // one of four was fast: the others were interrupted
  CHECK_FALSE(pace.streams());
  for (int i = 0; i < 4; ++i) pace.took(kMiB, 413'000);
  CHECK(pace.streams());
  std::vector<uint8_t> source(kStreamedBytes, 7), target(kStreamedBytes, 0);
  int streamed = 0;
  for (; pace.streams() && streamed < 10'000; ++streamed) {
    std::fill(target.begin(), target.end(), uint8_t(0));
    pace.copy(target.data(), source.data(), kStreamedBytes);
    REQUIRE(target == source);
    pace.copy(target.data(), source.data(), 100);  // short: counts for nothing
  }
  CHECK(streamed == 256);
  CHECK_FALSE(pace.streams());
}

}  // namespace window_tests
