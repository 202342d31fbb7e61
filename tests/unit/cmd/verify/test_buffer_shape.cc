// Sizes of a bench: series, rounding to whole elements, buffer shapes, bus factors.
#include "cmd/verify/buffer_shape.h"
#include "tests/catch.h"

namespace verify_buffer_shape_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;

TEST_CASE("sizes: series by factor and by step", "[bench]") {
  CHECK(*size_series({8, 64, 2, 0}) == std::vector<uint64_t>{8, 16, 32, 64});
  CHECK(*size_series({8, 63, 2, 0}) == std::vector<uint64_t>{8, 16, 32});
  CHECK(*size_series({10, 40, 2, 15}) == std::vector<uint64_t>{10, 25, 40});
  CHECK(*size_series({0, 4, 2, 0}) == std::vector<uint64_t>{0, 4});
  CHECK(*size_series({0, 64, 2, 0}) == std::vector<uint64_t>{0, 8, 16, 32, 64});
  CHECK(*size_series({0, 0, 2, 0}) == std::vector<uint64_t>{0});
  CHECK(*size_series({64, 64, 0, 0}) == std::vector<uint64_t>{64});
  CHECK(size_series({1, ~uint64_t(0), 2, 0})->size() == 64);  // does not wrap
  CHECK(*size_series({~uint64_t(0) - 1, ~uint64_t(0), 2, 5}) ==
        std::vector<uint64_t>{~uint64_t(0) - 1});
  CHECK(size_series({64, 8, 2, 0}).error().code == ErrorCode::usage);
  CHECK(size_series({8, 64, 1, 0}).error().code == ErrorCode::usage);
  CHECK(size_series({0, uint64_t(1) << 40, 2, 1}).error().code == ErrorCode::usage);
}

TEST_CASE("sizes: rounded down to whole elements per rank", "[bench]") {
  CHECK(size_point(Collective::all_reduce, 10, 4, 4).count == 2);
  CHECK(size_point(Collective::all_reduce, 10, 4, 4).bytes == 8);
  CHECK(size_point(Collective::all_gather, 100, 3, 4).count == 8);
  CHECK(size_point(Collective::all_gather, 100, 3, 4).bytes == 96);
  CHECK(size_point(Collective::all_to_all, 8, 4, 4).count == 0);
  CHECK(size_point(Collective::all_to_all, 8, 4, 4).bytes == 0);
  CHECK(size_point(Collective::barrier, 8, 4, 4).bytes == 0);
}

TEST_CASE("sizes: buffers hold what each rank hands over", "[bench]") {
  const BufferShape gather = buffer_shape(Collective::all_gather, 10, {2, 4, 0});
  CHECK(gather.input == 10);
  CHECK(gather.output == 40);
  CHECK(gather.in_place_input == 20);
  CHECK(gather.in_place_elements == 40);
  const BufferShape scatter = buffer_shape(Collective::reduce_scatter, 10, {2, 4, 0});
  CHECK(scatter.in_place_output == 20);
  CHECK(buffer_shape(Collective::gather, 10, {1, 4, 0}).output == 0);
  CHECK(buffer_shape(Collective::gather, 10, {1, 4, 1}).output == 40);
  CHECK(buffer_shape(Collective::scatter, 10, {1, 4, 0}).input == 0);
  CHECK_FALSE(buffer_shape(Collective::all_to_all, 10, {1, 4, 0}).has_in_place);
}

TEST_CASE("sizes: bus factors of nccl-tests", "[bench]") {
  CHECK(bus_factor(Collective::all_reduce, 4) == 1.5);
  CHECK(bus_factor(Collective::all_gather, 4) == 0.75);
  CHECK(bus_factor(Collective::reduce_scatter, 8) == 0.875);
  CHECK(bus_factor(Collective::broadcast, 8) == 1.0);
  CHECK(bus_factor(Collective::all_reduce, 1) == 0.0);
}

}  // namespace verify_buffer_shape_tests
