// Which rows a measurement has, and their numbers: no rank is needed to know them.
#include <tuple>

#include "cmd/measure/rows.h"
#include "tests/catch.h"

namespace measure_rows_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

namespace {

BenchSpec spec_of(const BenchOp& op) {
  BenchSpec spec;
  spec.collective = op;
  spec.min_bytes = 8;
  spec.max_bytes = 32;
  return spec;
}

MeasuredRows rows_of(const BenchSpec& spec, int ranks, const Continued* continued = nullptr) {
  auto rows = MeasuredRows::make(spec, ranks, continued);
  REQUIRE(rows.ok());
  return *rows;
}

std::string refusal(const BenchSpec& spec, int ranks, const Continued* continued = nullptr) {
  const auto rows = MeasuredRows::make(spec, ranks, continued);
  REQUIRE_FALSE(rows.ok());
  CHECK(rows.error().code == ErrorCode::usage);
  return rows.error().message;
}

using Told = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;  // asked, number, place
Told told(const std::vector<RowToMeasure>& rows) {
  Told list;
  for (const RowToMeasure& row : rows) list.emplace_back(row.asked, row.number, row.place);
  return list;
}

}  // namespace

TEST_CASE("rows: types, then operations, then roots, each by all choices and sizes", "[bench]") {
  BenchSpec spec = spec_of(Collective::reduce);
  spec.types = {DataType::float32, DataType::int8};
  spec.ops = {RedOp::sum, RedOp::max};
  spec.roots = {2, 0};
  spec.algorithms = {"ring", "tree"};
  spec.protocols = {"ll", "simple"};
  const MeasuredRows rows = rows_of(spec, 3);
  CHECK(rows.sizes() == std::vector<uint64_t>{8, 16, 32});
  REQUIRE(rows.choices().size() == 4);
  CHECK(rows.choices()[1].algorithm == "ring");
  CHECK(rows.choices()[1].protocol == "simple");
  CHECK(rows.choices()[2].algorithm == "tree");
  REQUIRE(rows.series().size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    const RowSeries& series = rows.series()[i];
    CHECK(series.key.type == spec.types[i / 4]);
    CHECK(series.key.op == spec.ops[i / 2 % 2]);
    CHECK(series.key.root == spec.roots[i % 2]);
    CHECK(series.first == i * 12);
  }
  CHECK(rows.total() == 96);
  CHECK(told(rows.left(rows.series()[7], 3, rows.sizes())) ==
        Told{{8, 93, 94}, {16, 94, 95}, {32, 95, 96}});
}

TEST_CASE("rows: sizes are rounded to whole elements of the ranks", "[bench]") {
  const MeasuredRows rows = rows_of(spec_of(Collective::all_gather), 3);
  const auto left = rows.left(rows.series()[0], 0, rows.sizes());
  REQUIRE(left.size() == 3);
  CHECK(left[0].key.size.bytes == 0);
  CHECK(left[2].asked == 32);
  CHECK(left[2].key.size.bytes == 24);
  CHECK(left[2].key.size.count == 2);
}

TEST_CASE("rows: what a choice cannot serve keeps its number, and is counted first", "[bench]") {
  BenchSpec spec = spec_of(Collective::all_reduce);
  spec.algorithms = {"ring", "tree"};
  const MeasuredRows rows = rows_of(spec, 2);
  CHECK(told(rows.left(rows.series()[0], 1, {8, 32})) == Told{{8, 3, 5}, {32, 5, 6}});
  CHECK(rows.left(rows.series()[0], 1, {}).empty());
}

TEST_CASE("rows: after a loss what is done is left out, and so are lost roots", "[bench]") {
  BenchSpec spec = spec_of(Collective::broadcast);
  spec.roots = {-1};
  const Continued continued{{1, 3}, 4, 4};
  const MeasuredRows rows = rows_of(spec, 2, &continued);
  CHECK(rows.total() == 12);
  REQUIRE(rows.series().size() == 2);
  CHECK(rows.series()[0].key.root == 0);  // the job's rank 1
  CHECK(rows.series()[1].key.root == 1);
  CHECK(told(rows.left(rows.series()[0], 0, rows.sizes())) == Told{{16, 4, 5}, {32, 5, 6}});
  CHECK(told(rows.left(rows.series()[1], 0, rows.sizes())) ==
        Told{{8, 9, 10}, {16, 10, 11}, {32, 11, 12}});
  spec.roots = {2};
  CHECK(rows_of(spec, 2, &continued).series().empty());
}

TEST_CASE("rows: a barrier has one, and what moves data has no reduction", "[bench]") {
  BenchSpec spec = spec_of(Collective::barrier);
  spec.types = {DataType::float64, DataType::int8};
  const MeasuredRows barrier = rows_of(spec, 2);
  CHECK(barrier.total() == 1);
  CHECK(barrier.series()[0].key.type == DataType::int32);
  CHECK(barrier.series()[0].key.root == -1);
  spec = spec_of(Collective::all_gather);
  spec.ops = {RedOp::max, RedOp::min};
  const MeasuredRows gather = rows_of(spec, 2);
  REQUIRE(gather.series().size() == 1);
  CHECK(gather.series()[0].key.op == RedOp::sum);
}

TEST_CASE("rows: what so many ranks cannot do is refused", "[bench]") {
  BenchSpec spec = spec_of(Collective::broadcast);
  spec.roots = {3};
  CHECK(refusal(spec, 3) == "root 3 is not a rank; expected 0 to 2");
  const Continued continued{{0, 1}, 3, 0};
  CHECK(refusal(spec, 2, &continued) == "root 3 is not a rank; expected 0 to 2");
  spec.roots = {-2};
  CHECK(refusal(spec, 3) == "root -2 is not a rank; expected 0 to 2");
  spec = spec_of(Collective::all_reduce);
  spec.ops.clear();
  CHECK(refusal(spec, 2) == "a bench needs at least one type, operation and root");
  spec = spec_of(kAllToAllV);
  spec.in_place = InPlace::in_place;
  CHECK(refusal(spec, 2) == "alltoallv has no in-place form");
  CHECK(refusal(spec_of(kHypercube), 3) != "");
}

}  // namespace measure_rows_tests
