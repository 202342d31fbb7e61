// The proof of every algorithm in the table: n = 2..64, 1 to 8 slots, sizes with tails; formulas,
// deadlocks where they belong, races of the split tree.
#include <numeric>
#include <string>

#include "tests/how_much.h"
#include "tests/unit/kernels/proof_case.h"

namespace proof_tests {

using namespace proofs;
using Outcome = Proof::Outcome;

namespace {

constexpr uint64_t kChunk = 16;         // elements
constexpr uint64_t kSlot = kChunk * 4;  // bytes: one slice a chunk
const int kRankStep = collctl::test::how_much(collctl::test::Sweep::proof_ranks);

bool reduces_all(Collective c) {
  return c == Collective::all_reduce || c == Collective::barrier;
}

// Elements of one loop of full chunks.
uint64_t loop_of(const AlgorithmRow& row, Collective c, int n) {
  const bool slices = row.id == AlgorithmId::ring || row.id == AlgorithmId::two_shot;
  return kChunk * (slices && reduces_all(c) ? uint64_t(n) : 1);
}

// The most slots with which full chunks of `slices` slices still deadlock.
uint32_t deadly_slots(const AlgorithmRow& row, Collective c, int n, uint32_t slices) {
  if (row.window) return 0;  // no fifos
  if (row.id == AlgorithmId::ring) {
    if (reduces_all(c)) return slices;
    // With two ranks nobody forwards: the exchange needs a chunk's room, no slot more.
    if (c == Collective::all_gather || c == Collective::reduce_scatter)
      return n == 2 ? slices - 1 : slices;
  }
  if (row.id == AlgorithmId::doubling || row.id == AlgorithmId::bruck ||
      row.id == AlgorithmId::halving)
    return slices - 1;
  if (c == Collective::all_to_all || c == Collective::send_recv) return slices - 1;
  return 0;  // chains and trees have no cycle
}

std::string title(const Case& c, uint32_t slots, const Proof& proof) {
  return std::string(name_of(c.algorithm)) + " " + name_of(c.collective) +
         " n=" + std::to_string(c.nranks) + " count=" + std::to_string(c.count) +
         " slots=" + std::to_string(slots) + " in_place=" + std::to_string(c.in_place) + ": " +
         proof.what;
}

// The works of a variety of cases without their product: root, ring order, placement and channels
// change with n.
Case varied(const AlgorithmRow& row, Collective collective, int n, uint64_t count) {
  Case c{.algorithm = row.id, .collective = collective, .nranks = n, .count = count};
  c.chunk_count = kChunk;
  if (has_root(collective)) c.root = n * 5 / 7;
  c.in_place = n % 2 == 1 && row.id != AlgorithmId::pairwise;
  c.channels = n % 5 == 0 ? 2 : 1;
  if (n % 3 == 0)
    for (c.ring_stride = n / 2 + 1; std::gcd(c.ring_stride, n) != 1;) ++c.ring_stride;
  return c;
}

void prove_all_depths(const AlgorithmRow& row, const Case& c) {
  Job job(c);
  const auto schedules = job.schedules();
  const uint32_t deepest = row.window ? 1 : 8;  // windows have no slots
  for (uint32_t slots = 1; slots <= deepest; ++slots) {
    if (!collctl::test::nightly() && slots > 3 && slots < deepest) continue;
    const Proof proof = interpret(schedules, {slots, kSlot});
    if (proof.outcome == Outcome::wrong) FAIL(title(c, slots, proof));
    if (slots >= row.min_slots && proof.outcome != Outcome::proved) FAIL(title(c, slots, proof));
    const bool full = c.channels == 1 && c.count % loop_of(row, c.collective, c.nranks) == 0;
    const bool deadly = slots <= deadly_slots(row, c.collective, c.nranks, 1);
    if (full && (proof.outcome == Outcome::deadlock) != deadly) FAIL(title(c, slots, proof));
  }
}

void prove(const AlgorithmRow& row) {
  for (Collective collective : served_by(row)) {
    for (int n = 2; n <= 64; n += kRankStep) {
      const uint64_t loop = loop_of(row, collective, n);
      // One element; a shrunk loop with a tail; one full loop; a full one and a tail.
      for (uint64_t count : {uint64_t{1}, loop / 2 + 3, loop, loop + loop / 3 + 1})
        prove_all_depths(row, varied(row, collective, n, count));
    }
  }
  SUCCEED();
}

}  // namespace

// (In-network reduction has no schedule of its own: without it the text is the split tree's.)
TEST_CASE("proof: every algorithm, n = 2..64, 1 to 8 slots", "[proof]") {
  for (const AlgorithmRow& row : algorithms())
    if (!row.network) DYNAMIC_SECTION(row.name) {
        prove(row);
      }
}

TEST_CASE("proof: step and byte formulas of every row", "[proof]") {
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      for (int n = 2; n <= 64; n += kRankStep) {
        Case c{.algorithm = row.id, .collective = collective, .nranks = n};
        c.count = loop_of(row, collective, n);
        c.chunk_count = kChunk;
        if (has_root(collective)) c.root = n / 2;
        Job job(c);
        const Proof proof = interpret(job.schedules(), {2, kSlot});
        if (proof.outcome != Outcome::proved) FAIL(title(c, 2, proof));
        INFO(title(c, 2, proof));
        CHECK(proof.steps == row.steps(collective, n));
        for (int r = 0; r < n; ++r)
          REQUIRE(proof.sent_elements[size_t(r)] ==
                  row.sent_elements(collective, n, c.count, r, c.root));
      }
    }
  }
}

TEST_CASE("proof: all ranks together send what the formulas say with tails, too", "[proof]") {
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      for (int n : {2, 3, 5, 8, 16}) {
        Case c{.algorithm = row.id, .collective = collective, .nranks = n, .count = 997};
        c.channels = 3;
        Job job(c);
        const Proof proof = interpret(job.schedules(), {3, kSlot});
        if (proof.outcome != Outcome::proved) FAIL(title(c, 3, proof));
        // Reducing or spreading over all ranks: an n-th of 2(n-1) counts a rank; the rest is exact.
        uint64_t formula = 0;
        for (int r = 0; r < n; ++r)
          formula += row.sent_elements(collective, n, c.count * uint64_t(n), r, c.root);
        const uint64_t sent =
            std::accumulate(proof.sent_elements.begin(), proof.sent_elements.end(), uint64_t{0});
        INFO(title(c, 3, proof));
        CHECK(sent * uint64_t(n) == formula);
      }
    }
  }
}

TEST_CASE("proof: a ring of one slot deadlocks, and the cycle is the ring", "[proof]") {
  for (int n = 2; n <= 64; ++n) {
    Case c{.nranks = n, .count = kChunk * uint64_t(n), .chunk_count = kChunk};
    Job job(c);
    const auto schedules = job.schedules();
    const Proof stuck = interpret(schedules, {1, kSlot});
    REQUIRE(stuck.outcome == Outcome::deadlock);
    CHECK(stuck.cycle.size() == size_t(n));
    CHECK(stuck.what.find("waits for a free slot to rank 1") != std::string::npos);
    REQUIRE(interpret(schedules, {2, kSlot}).outcome == Outcome::proved);
  }
}

TEST_CASE("proof: a chunk of several slices needs that many slots more", "[proof]") {
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      for (int n : {2, 3, 4, 7, 8}) {
        Case c{.algorithm = row.id, .collective = collective, .nranks = n};
        c.count = 2 * loop_of(row, collective, n);
        c.chunk_count = kChunk;
        Job job(c);
        const auto schedules = job.schedules();
        for (uint32_t slices : {1, 2, 4}) {
          for (uint32_t slots = 1; slots <= 8; ++slots) {
            const Proof proof = interpret(schedules, {slots, kSlot / slices});
            const bool deadly = slots <= deadly_slots(row, collective, n, slices);
            INFO(title(c, slots, proof) << " slices " << slices);
            CHECK(proof.outcome == (deadly ? Outcome::deadlock : Outcome::proved));
            if (slices <= most_slices(row, slots)) CHECK_FALSE(deadly);
          }
        }
      }
    }
  }
}

TEST_CASE("proof: min_slots is tight: one slot less deadlocks, one is what any fifo has",
          "[proof]") {
  for (const AlgorithmRow& row : algorithms()) {
    bool tight = row.min_slots == 1;
    for (Collective collective : served_by(row)) {
      Case c{.algorithm = row.id, .collective = collective, .nranks = 8};
      c.count = loop_of(row, collective, 8);
      c.chunk_count = kChunk;
      Job job(c);
      const auto schedules = job.schedules();
      tight =
          tight || interpret(schedules, {row.min_slots - 1, kSlot}).outcome == Outcome::deadlock;
      CHECK(interpret(schedules, {row.min_slots, kSlot}).outcome == Outcome::proved);
    }
    CHECK(tight);
  }
}

TEST_CASE("proof: in place, the two halves of the split tree never race", "[proof]") {
  for (int n : {2, 3, 4, 6, 9, 16}) {
    Case c{.algorithm = AlgorithmId::tree_split, .nranks = n, .count = 3 * kChunk};
    c.in_place = true;
    Job job(c);
    for (uint32_t slots : {1u, 2u, 8u}) CHECK(find_race(job.schedules(), {slots, kSlot}).empty());
  }
}

TEST_CASE("proof: a race between two parts is found", "[proof]") {
  Case c{.algorithm = AlgorithmId::tree_split, .nranks = 4, .count = 3 * kChunk, .in_place = true};
  Job job(c);
  auto schedules = job.schedules();
  // The way down of chunk 0 lands on chunk 1, which the way up still has to read.
  schedules[2].parts[1][0].to += kSlot;
  const std::string race = find_race(schedules, {8, kSlot});
  CHECK(race.find("rank 2: recv_reduce_send (event 1 of part 0) and recv_copy_send (event 0") !=
        std::string::npos);
}

TEST_CASE("proof: what cannot be proved is refused", "[proof]") {
  CHECK(interpret({}, {2, kSlot}).outcome == Outcome::wrong);
  Job job({});
  auto schedules = job.schedules();
  CHECK(interpret(schedules, {0, kSlot}).outcome == Outcome::wrong);
  CHECK(interpret(schedules, {2, 8}).outcome == Outcome::wrong);
  schedules[1].work.nranks = 5;
  CHECK(interpret(schedules, {2, kSlot}).outcome == Outcome::wrong);
  for (Schedule& s : schedules) s.work.nranks = 65;
  CHECK(interpret(schedules, {2, kSlot}).what.find("between 1 and 64") != std::string::npos);
}

}  // namespace proof_tests
