// Wrong data, injected: found in every rank's output it reaches, and told apart as missing, doubled
// or corrupted, with the hop where it happened.
#include <cstdlib>

#include "cmd/verify/data_check.h"
#include "tests/how_much.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace measure_bench_faults_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using kernels::Collective;
using kernels::DataType;

namespace {

// Set while no other thread runs; the communicators read it when they start.
struct WithFault {
  explicit WithFault(const std::string& text) { setenv("COLLCTL_FAULT", text.c_str(), 1); }
  ~WithFault() { unsetenv("COLLCTL_FAULT"); }
};

BenchOutcome run_faulty(const BenchSpec& spec, int size, const std::string& fault) {
  const WithFault with(fault);
  return run_bench(spec, size);
}

BenchSpec one_size(const BenchOp& collective, DataType type, uint64_t bytes) {
  BenchSpec spec = small_bench(collective);
  spec.types = {type};
  spec.min_bytes = spec.max_bytes = bytes;
  spec.in_place = InPlace::out_of_place;
  return spec;
}

bool says(const DataFault& fault, const std::string& words) {
  return fault.message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("bench faults: a missing contribution names its rank and hop", "[bench_faults]") {
  for (DataType type : {DataType::float32, DataType::int8, DataType::float64, DataType::bfloat16}) {
    BenchSpec spec = one_size(Collective::all_reduce, type, 64 << 10);
    spec.algorithms = {"ring"};
    spec.protocols = {"simple"};
    // Step 0 at rank 2 takes the first hop of a chunk: only rank 1's share is behind it.
    const BenchOutcome outcome = run_faulty(spec, 4, "missing:rank=2:channel=0:step=0");
    INFO(kernels::name_of(type) << " " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    REQUIRE(outcome.sink.rows.size() == 1);
    CHECK(outcome.sink.rows[0].out_of_place.wrong > 0);
    REQUIRE(outcome.sink.faults.size() == 4);  // the sum goes to all
    for (const DataFault& fault : outcome.sink.faults) {
      INFO(fault.message);
      CHECK(fault.kind == "missing");
      CHECK(fault.peer == 1);
      CHECK(fault.channel == 0);
      CHECK(fault.step == 0);
      CHECK(fault.last_byte - fault.first_byte + 1 == (64 << 10) / 4);
      CHECK(says(fault, "lack the contribution of rank 1"));
      CHECK(says(fault, "went wrong at rank 2 in channel 0, step 0, recv_reduce_send from rank 1"));
    }
  }
}

TEST_CASE("bench faults: everything behind a hop is named", "[bench_faults]") {
  BenchSpec spec = one_size(Collective::all_reduce, DataType::float32, 64 << 10);
  spec.algorithms = {"ring"};
  spec.protocols = {"simple"};
  const BenchOutcome outcome = run_faulty(spec, 4, "doubled:rank=2:channel=0:step=1");
  INFO(outcome.first_error());
  REQUIRE(outcome.sink.faults.size() == 4);
  for (const DataFault& fault : outcome.sink.faults) {
    INFO(fault.message);
    CHECK(fault.kind == "doubled");
    CHECK(fault.peer == 1);
    CHECK(fault.step == 1);
    CHECK(says(fault, "the contribution of ranks 0, 1 twice"));
    CHECK(says(fault, "went wrong at rank 2"));
  }
}

TEST_CASE("bench faults: a flipped bit is corruption, not a lost contribution", "[bench_faults]") {
  for (DataType type : {DataType::float32, DataType::float16, DataType::uint8, DataType::int64}) {
    BenchSpec spec = one_size(Collective::all_reduce, type, 64 << 10);
    spec.algorithms = {"ring"};
    spec.protocols = {"simple"};
    // Step 4 is on the way of the finished sum: ranks behind it have it wrong, those before not.
    const BenchOutcome outcome = run_faulty(spec, 4, "corrupt:rank=2:channel=0:step=4");
    INFO(kernels::name_of(type) << " " << outcome.first_error());
    REQUIRE_FALSE(outcome.sink.faults.empty());
    CHECK(outcome.sink.faults.size() < 4);
    for (const DataFault& fault : outcome.sink.faults) {
      INFO(fault.message);
      CHECK(fault.kind == "corrupted");
      CHECK(fault.bad_elements == 1);
      CHECK(says(fault, "went wrong at rank 2 in channel 0, step 4"));
    }
  }
}

// On integers: a float sum may round the lowest bit of a part away, and then nothing is wrong.
TEST_CASE("bench faults: a bit flipped inside a sum", "[bench_faults]") {
  BenchSpec spec = one_size(Collective::all_reduce, DataType::int32, 64 << 10);
  spec.algorithms = {"ring"};
  spec.protocols = {"simple"};
  const BenchOutcome outcome = run_faulty(spec, 4, "corrupt:rank=2:channel=0:step=1");
  INFO(outcome.first_error());
  REQUIRE(outcome.sink.faults.size() == 4);
  for (const DataFault& fault : outcome.sink.faults) {
    INFO(fault.message);
    CHECK(fault.kind == "corrupted");
    CHECK(fault.bad_elements == 1);
    CHECK(says(fault, "1 -> 2"));
  }
}

TEST_CASE("bench faults: of a pattern's steps the one where it went wrong is named",
          "[bench_faults]") {
  BenchSpec spec = one_size(kHypercube, DataType::float32, 64 << 10);
  BenchOutcome outcome = run_faulty(spec, 4, "corrupt:rank=2:channel=0:step=0");
  INFO(outcome.first_error());
  REQUIRE(outcome.sink.faults.size() == 2);  // rank 0 gets it from rank 2, a step later
  for (const DataFault& fault : outcome.sink.faults) {
    INFO(fault.message);
    CHECK(fault.kind == "corrupted");
    CHECK(says(fault, "went wrong at rank 2 in channel 0, step 0, recv from rank 3"));
    CHECK(says(fault, "(hypercube float32 of 64 KiB)"));
  }
  CHECK(outcome.sink.faults[0].rank == 0);
  CHECK(outcome.sink.rows.at(0).out_of_place.wrong == 3);
  spec.collective = kAllToAllV;
  outcome = run_faulty(spec, 4, "missing:rank=2:channel=0:step=1");
  REQUIRE(outcome.sink.faults.size() == 1);
  INFO(outcome.sink.faults[0].message);
  CHECK(outcome.sink.faults[0].rank == 2);
  CHECK(
      says(outcome.sink.faults[0], "went wrong at rank 2 in channel 0, step 1, recv from rank 3"));
}

TEST_CASE("bench faults: over windows the reader and the peer are named", "[bench_faults]") {
  for (DataType type : {DataType::float32, DataType::int8, DataType::float64}) {
    BenchSpec spec = one_size(Collective::all_reduce, type, 64 << 10);
    spec.protocols = {"simple"};
    spec.algorithms = {"one-shot"};
    // Every rank sums for itself: nobody else's result suffers.
    BenchOutcome outcome = run_faulty(spec, 4, "missing:rank=2");
    INFO(kernels::name_of(type) << " " << outcome.first_error());
    REQUIRE(outcome.sink.faults.size() == 1);
    CHECK(outcome.sink.faults[0].rank == 2);
    CHECK(outcome.sink.faults[0].peer == 3);
    CHECK(says(outcome.sink.faults[0], "lack the contribution of rank 3"));
    CHECK(says(outcome.sink.faults[0],
               "went wrong at rank 2 in channel 0, step 0, reduce_from_peers from rank 3"));
    // Rank 2's slice goes to all.
    spec.algorithms = {"two-shot"};
    outcome = run_faulty(spec, 4, "doubled:rank=2");
    REQUIRE(outcome.sink.faults.size() == 4);
    for (const DataFault& fault : outcome.sink.faults) {
      INFO(fault.message);
      CHECK(fault.kind == "doubled");
      CHECK(fault.peer == 3);
      CHECK(fault.last_byte - fault.first_byte + 1 == (64 << 10) / 4);
      CHECK(says(fault, "went wrong at rank 2 in channel 0, step 0, reduce_and_stage from rank 3"));
    }
    // A copied slice: the second receiving verb of rank 2 takes rank 3's.
    outcome = run_faulty(spec, 4, "corrupt:rank=2:step=1");
    REQUIRE(outcome.sink.faults.size() == 1);
    CHECK(outcome.sink.faults[0].kind == "corrupted");
    CHECK(says(outcome.sink.faults[0],
               "went wrong at rank 2 in channel 0, step 1, copy_from_peer from rank 3"));
  }
  for (Collective collective : {Collective::all_to_all, Collective::scatter, Collective::gather,
                                Collective::all_gather, Collective::broadcast}) {
    BenchSpec spec = one_size(collective, DataType::int32, 4 << 10);
    spec.algorithms = {"one-shot"};
    spec.roots = {collective == Collective::gather ? 2 : 0};
    const BenchOutcome outcome = run_faulty(spec, 3, "missing:rank=2");
    INFO(kernels::name_of(collective) << " " << outcome.first_error());
    REQUIRE(outcome.sink.faults.size() == 1);
    INFO(outcome.sink.faults[0].message);
    CHECK(outcome.sink.faults[0].peer == 0);
    CHECK(says(outcome.sink.faults[0],
               "went wrong at rank 2 in channel 0, step 0, copy_from_peer from rank 0"));
  }
}

TEST_CASE("bench faults: rows without end are counted, the first few explained", "[bench_faults]") {
  BenchSpec spec = one_size(Collective::broadcast, DataType::int32, 4 << 10);
  spec.min_bytes = 64;
  spec.step_bytes = 512;
  const BenchOutcome outcome = run_faulty(spec, 2, "missing:rank=1");
  INFO(outcome.first_error());
  REQUIRE(outcome.sink.rows.size() == 8);
  for (const BenchRow& row : outcome.sink.rows) CHECK(row.out_of_place.wrong > 0);
  REQUIRE(outcome.sink.faults.size() == 4);
  CHECK(says(outcome.sink.faults[0], "(broadcast int32 of 64 B)"));
}

TEST_CASE("bench faults: every collective and algorithm tells the kinds apart", "[bench_faults]") {
  struct Case {
    Collective collective;
    const char* algorithm;
  };
  const Case cases[] = {{Collective::all_reduce, "tree"}, {Collective::all_reduce, "tree-split"},
                        {Collective::all_gather, ""},     {Collective::reduce_scatter, ""},
                        {Collective::broadcast, ""},      {Collective::reduce, ""},
                        {Collective::gather, ""},         {Collective::scatter, ""},
                        {Collective::all_to_all, ""},     {Collective::send_recv, ""}};
  for (const Case& c : cases) {
    for (const char* protocol : {"simple", "ll"}) {
      for (const std::string kind : {"missing", "doubled", "corrupt"}) {
        for (const bool in_place : {false, true}) {
          // Any two of these meet.
          if (!test::nightly() && (&c - cases + (*protocol == 'l') + in_place) % 2 != 0) continue;
          BenchSpec spec = one_size(c.collective, DataType::float32, 48 << 10);
          if (*c.algorithm != 0) spec.algorithms = {c.algorithm};
          spec.protocols = {protocol};
          if (in_place) spec.in_place = InPlace::in_place;
          if (in_place &&
              (c.collective == Collective::all_to_all || c.collective == Collective::send_recv))
            continue;
          // Gathering, only the root receives; of a tree, rank 0 is the root and has children.
          const bool up = c.collective == Collective::gather ||
                          c.collective == Collective::reduce || *c.algorithm != 0;
          const int victim = up ? 0 : 2;
          const BenchOutcome outcome =
              run_faulty(spec, 4, kind + ":rank=" + std::to_string(victim));
          INFO(kernels::name_of(c.collective)
               << " " << c.algorithm << " " << protocol << " " << kind
               << (in_place ? " in place " : " ") << outcome.first_error());
          REQUIRE(outcome.errors.empty());
          REQUIRE_FALSE(outcome.sink.faults.empty());
          for (const DataFault& fault : outcome.sink.faults) {
            INFO(fault.message);
            CHECK(fault.kind == (kind == "corrupt" ? "corrupted" : kind));
            CHECK(fault.channel == 0);
            CHECK((says(fault, "went wrong at rank " + std::to_string(victim)) ||
                   says(fault, "-> " + std::to_string(victim))));
          }
        }
      }
    }
  }
}

TEST_CASE("data check: damage beside and inside the buffers is found", "[data]") {
  const DataKind kind{DataType::float32, true, kernels::RedOp::sum, 2};
  const Place place{0, 2, 0};
  GuardedBuffer input, output;
  REQUIRE(input.reserve(4000));
  REQUIRE(output.reserve(4000));
  const RunBuffers buffers{&input, &output, 0, 0, 4000, 4000};
  const DataOracle oracle(kind, 0);
  auto fresh = [&] {
    REQUIRE(output.poison(4000));
    REQUIRE(oracle.fill_input(input, 0, 1000));
    REQUIRE(input.set_guards(4000));
    reduced_pattern(kind).fill(output.data(), 0, 1000);
  };
  auto check = [&] {
    auto found = check_run(oracle, Collective::all_reduce, 1000, place, buffers);
    REQUIRE(found);
    return *found;
  };
  fresh();
  CHECK(check().wrong(4) == 0);
  output.data()[4000] = 0;  // one byte behind the end
  CHECK(check().guard_bytes == 1);
  CHECK(check().wrong(4) == 1);
  fresh();
  input.data()[-1] = 0;
  CHECK(check().guard_bytes == 1);
  fresh();
  input.data()[400] ^= 1;
  CHECK(check().bad_inputs == 1);
  CHECK(check().first_input == 100);
  fresh();
  output.data()[40] ^= 1;
  output.data()[403] ^= 1;
  CHECK(check().bad_outputs == 2);
  CHECK(check().first_output == 10);
  CHECK(check().last_output == 100);
  CHECK(check().still_poisoned == 0);
  REQUIRE(output.poison(4000));
  CHECK(check().bad_outputs == 1000);
  CHECK(check().still_poisoned == 1000);
  // A root's reduction leaves the others' outputs alone.
  const Place other{1, 2, 0};
  const DataOracle second(kind, 1);
  REQUIRE(second.fill_input(input, 0, 1000));
  auto leaf = [&] {
    auto found = check_run(second, Collective::reduce, 1000, other, buffers);
    REQUIRE(found);
    return *found;
  };
  CHECK(leaf().wrong(4) == 0);
  output.data()[8] = 0;
  CHECK(leaf().bad_outputs == 1);
}

// Each thread looks at a share of what is larger than 1 MiB: the first of all shares is the first.
TEST_CASE("data check: the first wrong element stays the first, however many threads look",
          "[data]") {
  constexpr uint64_t kCount = 1 << 20, kBytes = kCount * 4;  // of float32: 4 MiB
  const DataKind kind{DataType::float32, true, kernels::RedOp::sum, 2};
  const Place place{0, 2, 0};
  GuardedBuffer input, output;
  REQUIRE(input.reserve(kBytes));
  REQUIRE(output.reserve(kBytes));
  const RunBuffers buffers{&input, &output, 0, 0, kBytes, kBytes};
  const DataOracle oracle(kind, 0);
  REQUIRE(oracle.fill_input(input, 0, kCount));
  REQUIRE(input.set_guards(kBytes));
  for (const int threads : {1, 2, 4, 7}) {
    REQUIRE(output.poison(kBytes));
    reduced_pattern(kind).fill(output.data(), 0, kCount);
    // In the first quarter, the third, and the last, each in a share of its own.
    for (const uint64_t element : {kCount / 8, kCount / 2 + 5, kCount / 2 + 7, kCount - 1})
      output.data()[element * 4] ^= 1;
    const auto found = check_run(oracle, Collective::all_reduce, kCount, place, buffers, threads);
    REQUIRE(found);
    CHECK(found->bad_outputs == 4);
    CHECK(found->first_output == kCount / 8);
    CHECK(found->last_output == kCount - 1);
  }
}

TEST_CASE("data check: of several ranks' blocks the first wrong element is the first block's",
          "[data]") {
  constexpr uint64_t kCount = 1000;
  const DataKind kind{DataType::float32, false, kernels::RedOp::sum, 3};
  GuardedBuffer input, output;
  REQUIRE(input.reserve(kCount * 4));
  REQUIRE(output.reserve(3 * kCount * 4));
  const DataOracle oracle(kind, 1);
  REQUIRE(oracle.fill_input(input, 0, kCount));
  REQUIRE(input.set_guards(kCount * 4));
  REQUIRE(output.poison(3 * kCount * 4));
  for (int rank = 0; rank < 3; ++rank)
    input_pattern(kind, rank).fill(output.data() + uint64_t(rank) * kCount * 4, 0, kCount);
  const RunBuffers buffers{&input, &output, 0, 0, kCount * 4, 3 * kCount * 4};
  const auto found = [&] {
    auto result = check_run(oracle, Collective::all_gather, kCount, {1, 3, 0}, buffers);
    REQUIRE(result);
    return *result;
  };
  CHECK(found().wrong(4) == 0);
  for (const uint64_t element : {uint64_t(7), kCount + 3, 3 * kCount - 2})
    output.data()[element * 4] ^= 1;
  CHECK(found().bad_outputs == 3);
  CHECK(found().first_output == 7);
  CHECK(found().last_output == 3 * kCount - 2);
}

}  // namespace measure_bench_faults_tests
