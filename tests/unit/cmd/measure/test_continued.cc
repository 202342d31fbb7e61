// --on-loss shrink, on ranks: what is left of a measurement is done by those that are left, and
// told in the job's numbers.
#include "cmd/measure/together.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace measure_continued_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

// The ranks left go on; what rank 0 of them told.
KeepingSink go_on(const BenchSpec& spec, const Continued& continued,
                  std::vector<Error>* errors = nullptr) {
  std::vector<KeepingSink> sinks{continued.members.size()};
  const auto failed =
      run_ranks<KeepingSink>(sinks, [&](const runtime::UniqueId& id, int rank, KeepingSink& sink) {
        return bench_rank(spec, id, rank, int(sinks.size()), sink, &continued);
      });
  if (errors != nullptr)
    *errors = failed;
  else
    CHECK(failed.empty());
  return std::move(sinks[0]);
}

std::vector<uint64_t> numbers(const KeepingSink& sink) {
  std::vector<uint64_t> list;
  for (const BenchRow& row : sink.rows) list.push_back(row.number);
  return list;
}

}  // namespace

TEST_CASE("rows are numbered in the order of measuring", "[bench]") {
  const BenchOutcome whole = run_bench(small_bench(kernels::Collective::all_reduce), 3);
  CHECK(whole.first_error() == "");
  CHECK(numbers(whole.sink) == std::vector<uint64_t>{0, 1, 2, 3});
  for (const BenchRow& row : whole.sink.rows) CHECK(row.ranks == 0);
}

TEST_CASE("what is done is not done again, and there is one header", "[bench]") {
  const KeepingSink left = go_on(small_bench(kernels::Collective::all_reduce), {{0, 2, 3}, 4, 2});
  CHECK(left.headers.empty());
  CHECK(numbers(left) == std::vector<uint64_t>{2, 3});
  for (const BenchRow& row : left.rows) {
    CHECK(row.ranks == 3);
    CHECK(row.out_of_place.wrong == 0);
    CHECK(row.in_place.wrong == 0);
    CHECK(row.out_of_place.slowest_rank != 1);  // who is lost was not the slowest
  }
}

TEST_CASE("when all was done before the loss nothing is measured", "[bench]") {
  CHECK(go_on(small_bench(kernels::Collective::all_reduce), {{1, 2}, 3, 4}).rows.empty());
}

TEST_CASE("a root keeps its number, and nobody takes the place of a lost one", "[bench]") {
  BenchSpec spec = small_bench(kernels::Collective::broadcast);
  spec.roots = {-1};
  const KeepingSink left = go_on(spec, {{1, 3}, 4, 1});
  // Four sizes of each root; those of 0 and 2 are lost.
  CHECK(numbers(left) == std::vector<uint64_t>{4, 5, 6, 7, 12, 13, 14, 15});
  for (size_t i = 0; i < left.rows.size(); ++i) {
    CHECK(left.rows[i].root == (i < 4 ? 1 : 3));
    CHECK(left.rows[i].out_of_place.wrong == 0);
  }
  spec.roots = {2};
  CHECK(go_on(spec, {{1, 3}, 4, 0}).rows.empty());
}

TEST_CASE("rows keep their numbers where a combination cannot do all sizes", "[bench]") {
  BenchSpec spec = small_bench(kernels::Collective::all_reduce);
  spec.algorithms = {"ring", "tree"};
  const BenchOutcome whole = run_bench(spec, 3);
  CHECK(whole.first_error() == "");
  const std::vector<uint64_t> all = numbers(whole.sink);
  REQUIRE(all.size() == 8);
  CHECK(all.back() == 7);
  const KeepingSink left = go_on(spec, {{0, 1}, 3, 5});
  CHECK(numbers(left) == std::vector<uint64_t>{5, 6, 7});
  CHECK(left.rows[0].algorithm == "tree");
}

TEST_CASE("an error of those left names ranks as the job does", "[bench]") {
  BenchSpec spec = small_bench(kernels::Collective::all_reduce);
  spec.start_timeout_s = 3;
  const Continued continued{{0, 3, 5}, 6, 0};
  std::vector<Error> errors;
  std::vector<KeepingSink> sinks(3);
  errors = run_ranks<KeepingSink>(
      sinks, [&](const runtime::UniqueId& id, int rank, KeepingSink& sink) -> Status {
        if (rank == 2) return {};  // the job's rank 5 does not come
        return bench_rank(spec, id, rank, 3, sink, &continued);
      });
  REQUIRE(errors.size() == 2);
  for (const Error& error : errors) {
    INFO(error.chain());
    CHECK(error.chain().find("rank 5") != std::string::npos);
    CHECK(error.chain().find("rank 2") == std::string::npos);
  }
}

TEST_CASE("records are told in the job's numbers", "[bench]") {
  const std::vector<int> members{0, 4, 7};
  BenchRow row;
  row.out_of_place.slowest_rank = 1;
  row.in_place.slowest_rank = -1;
  BenchRecord record = row;
  in_job_numbers(members, record);
  CHECK(std::get<BenchRow>(record).out_of_place.slowest_rank == 4);
  CHECK(std::get<BenchRow>(record).in_place.slowest_rank == -1);
  BenchClosing closing;
  closing.throttled = {{{HostId{0}, "a"}, "0000:10:00.0", 2, 0, "heat"}};
  record = closing;
  in_job_numbers(members, record);
  CHECK(std::get<BenchClosing>(record).throttled[0].rank == 7);
}

}  // namespace measure_continued_tests
