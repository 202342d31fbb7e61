// The table, the names, the chunk cuts and the tree that the formulas count on.
#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "kernels/algo/dispatch.h"
#include "tests/unit/kernels/proof_case.h"

namespace algorithms_tests {

using namespace proofs;
using collctl::ErrorCode;

TEST_CASE("every algorithm with a text has one row, found by its name") {
  std::set<AlgorithmId> ids;
  for (const AlgorithmRow& row : algorithms()) {
    CHECK(ids.insert(row.id).second);
    CHECK(std::string(row.name) == name_of(row.id));
    CHECK(find_algorithm(row.name) == &row);
    CHECK(&algorithm(row.id) == &row);
    CHECK(row.collectives == collectives_of(row.id));
    CHECK(row.window == needs_window(row.id));
    CHECK(row.min_slots >= 1);
    CHECK(row.min_slots <= 2);
    CHECK(most_slices(row, row.min_slots) == 1);
    CHECK(most_slices(row, row.min_slots - 1) == 0);
    CHECK(most_slices(row, 8) == 9 - row.min_slots);
  }
  for (int i = 0; i < kAlgorithmCount; ++i)
    CHECK(ids.count(AlgorithmId(i)) == (collectives_of(AlgorithmId(i)) != 0 ? 1 : 0));
  CHECK(find_algorithm("") == nullptr);
  CHECK(find_algorithm("tree-split") == &algorithm(AlgorithmId::tree_split));
}

TEST_CASE("every collective is served by some algorithm") {
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto rows = algorithms();
    CHECK(std::any_of(rows.begin(), rows.end(),
                      [&](const AlgorithmRow& row) { return serves(row, Collective(c)); }));
  }
}

TEST_CASE("names are distinct and as on the command line") {
  std::set<std::string> names;
  for (int i = 0; i < kDataTypeCount; ++i) names.insert(name_of(DataType(i)));
  for (int i = 0; i < kRedOpCount; ++i) names.insert(name_of(RedOp(i)));
  for (int i = 0; i < kCollectiveCount; ++i) names.insert(name_of(Collective(i)));
  for (int i = 0; i < kProtocolCount; ++i) names.insert(name_of(Protocol(i)));
  for (int i = 0; i < kAlgorithmCount; ++i) names.insert(name_of(AlgorithmId(i)));
  CHECK(names.size() ==
        size_t(kDataTypeCount + kRedOpCount + kCollectiveCount + kProtocolCount + kAlgorithmCount));
  CHECK(std::string(name_of(Collective::reduce_scatter)) == "reducescatter");
  CHECK(std::string(name_of(Collective::all_to_all)) == "alltoall");
  CHECK(std::string(name_of(DataType::float8e4m3)) == "float8e4m3");
  CHECK(std::string(name_of(Protocol::ll128)) == "ll128");
}

TEST_CASE("what an algorithm does not support is refused with both names") {
  Case c{.algorithm = AlgorithmId::tree, .collective = Collective::broadcast};
  Job job(c);
  auto refused = record(job.works[0]);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::usage);
  CHECK(refused.error().message.find("tree does not support broadcast") != std::string::npos);

  Work sizeless = Job({}).works[0];
  sizeless.chunk_count = 0;
  CHECK(!record(sizeless).ok());
}

TEST_CASE("one rank alone copies") {
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      if (collective == Collective::send_recv) continue;  // has nobody to send to
      Job job(
          {.algorithm = row.id, .collective = collective, .nranks = 1, .count = 37, .channels = 2});
      const auto schedules = job.schedules();
      for (const Schedule& s : schedules) {
        REQUIRE(s.parts.size() == 1);
        REQUIRE(s.parts[0].size() == 1);
        CHECK(s.parts[0][0].verb == Verb::copy);
      }
      const Proof proof = interpret(schedules, {1, 64});
      INFO(row.name << " " << name_of(collective) << ": " << proof.what);
      CHECK(proof.outcome == Proof::Outcome::proved);
      CHECK(row.steps(collective, 1) == 0);
      CHECK(row.sent_elements(collective, 1, 37, 0, 0) == 0);
    }
  }
}

TEST_CASE("ring loops tile the part, whole chunks aligned") {
  for (DataType type : {DataType::int8, DataType::bfloat16, DataType::float32, DataType::float64}) {
    const uint64_t grain = chunk_grain(type);
    for (uint64_t parts : {1, 2, 3, 7, 64}) {
      for (uint64_t chunk : {grain, 4 * grain}) {
        for (uint64_t part : {uint64_t{0}, uint64_t{1}, grain, grain * parts - 1, grain * parts,
                              chunk * parts, chunk * parts + 1, 3 * chunk * parts + grain + 1}) {
          Work w = {};
          w.type = type;
          w.part_offset = 5 * grain;
          w.part_count = part;
          w.chunk_count = chunk;
          uint64_t done = 0, next = w.part_offset, loops = 0;
          while (done < part) {
            const ChunkRow row = ring_loop(w, done, parts);
            REQUIRE(row.each > 0);
            CHECK(row.each % grain == 0);
            CHECK(row.each <= chunk);
            for (uint64_t i = 0; i < parts; ++i) {
              CHECK(row.at(i) == next);
              next += row.size(i);
              CHECK(row.size(i) <= row.each);
            }
            done += parts * row.each;
            ++loops;
          }
          CHECK(next == w.part_offset + part);
          CHECK(loops == (part + chunk * parts - 1) / (chunk * parts));
        }
      }
    }
  }
}

TEST_CASE("chunk sequences tile and only the last chunk is short") {
  Work w = {};
  w.chunk_count = 16;
  for (uint64_t count : {0, 1, 15, 16, 17, 160, 163}) {
    const ChunkRow row = chunk_sequence(w, 3, count);
    uint64_t next = 3;
    for (uint64_t i = 0; i < chunks_in(row); ++i) {
      CHECK(row.at(i) == next);
      CHECK(row.size(i) == (i + 1 < chunks_in(row) ? 16 : count - 16 * i));
      next += row.size(i);
    }
    CHECK(next == 3 + count);
    CHECK(row.size(chunks_in(row)) == 0);
  }
}

TEST_CASE("the binary tree is one tree of two children at most and logarithmic depth") {
  for (int n = 1; n <= 130; ++n) {
    int deepest = 0, links = 0;
    for (int r = 0; r < n; ++r) {
      const TreeLinks mine = binary_tree(r, n);
      CHECK((mine.up < 0) == (r == 0));
      CHECK(child_count(mine) <= (r == 0 ? 1 : 2));
      for (int i = 0; i < child_count(mine); ++i) {
        ++links;
        REQUIRE(mine.down[i] < n);
        CHECK(binary_tree(mine.down[i], n).up == r);
      }
      int depth = 0;
      for (int at = r; at != 0 && depth <= n; ++depth) at = binary_tree(at, n).up;
      deepest = std::max(deepest, depth);
    }
    CHECK(links == n - 1);
    CHECK(deepest == int(std::bit_width(unsigned(n - 1))));
  }
}

}  // namespace algorithms_tests
