// --vs mpi: what MPI is asked for and what it is called. Its calls themselves:
// tests/e2e/versus_mpi.sh.
#include "cmd/measure/mpi_world.h"

#include "cmd/measure/bench.h"
#include "cmd/measure/versus.h"
#include "tests/catch.h"

namespace measure_mpi_world_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

TEST_CASE("beside MPI: the library's name out of what it says", "[mpi]") {
  CHECK(mpi_name("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4") == "openmpi 4.1.4");
  CHECK(mpi_name("Open MPI v5.0.3") == "openmpi 5.0.3");
  CHECK(mpi_name("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7") == "mpich 4.0.2");
  CHECK(mpi_name("MPICH Version:      3.4.1\n") == "mpich 3.4.1");
  CHECK(mpi_name("MPICH Version:") == "mpich ");
  CHECK(mpi_name("Intel(R) MPI Library 2021.9 for Linux* OS\n") ==
        "Intel(R) MPI Library 2021.9 for Linux* O");
  CHECK(mpi_name("") == "mpi");
}

TEST_CASE("beside MPI: what it lacks, by type, reduction and size", "[mpi]") {
  const auto lacks = [](const BenchOp& op, DataType type, RedOp reduction, uint64_t count) {
    return mpi_lacks({op, type, reduction, 0, {0, count}}, 4);
  };
  for (const BenchOp& op : bench_ops()) CHECK(lacks(op, DataType::float32, RedOp::sum, 1000) == "");
  CHECK(lacks(Collective::all_reduce, DataType::float16, RedOp::sum, 8) == "it has no float16");
  CHECK(lacks(Collective::reduce, DataType::float8e4m3, RedOp::max, 8) == "it has no float8e4m3");
  CHECK(lacks(Collective::all_reduce, DataType::int64, RedOp::avg, 8) == "it has no avg");
  CHECK(lacks(Collective::all_gather, DataType::float16, RedOp::avg, 8) == "");  // only moves
  // Where all have one block: elements that are reduced, bytes that are moved.
  const uint64_t ints = uint64_t(1) << 31;
  for (const Collective op : {Collective::all_reduce, Collective::reduce}) {
    CHECK(lacks(op, DataType::float64, RedOp::sum, ints - 1) == "");
    CHECK(lacks(op, DataType::float64, RedOp::sum, ints) == "its counts are of 32 bits");
  }
  for (const Collective op : {Collective::broadcast, Collective::send_recv}) {
    CHECK(lacks(op, DataType::float64, RedOp::sum, ints / 8 - 1) == "");
    CHECK(lacks(op, DataType::float64, RedOp::sum, ints / 8) == "its counts are of 32 bits");
  }
  // Bytes of all ranks together must be counted by an int.
  const uint64_t most = uint64_t(1) << 29;
  CHECK(lacks(Collective::all_gather, DataType::uint8, RedOp::sum, most - 1) == "");
  CHECK(lacks(Collective::all_gather, DataType::uint8, RedOp::sum, most) ==
        "its counts are of 32 bits");
  CHECK(lacks(kAllToAllV, DataType::uint8, RedOp::sum, most / 2) == "");
  CHECK(lacks(kAllToAllV, DataType::uint8, RedOp::sum, most * 4 / 7 + 1) ==
        "its counts are of 32 bits");  // the busiest has room for 7 blocks
}

TEST_CASE("beside MPI: on CPU ranks only, and NCCL on GPUs only", "[mpi]") {
  BenchSpec spec;
  spec.versus = {kMpiVariant};
  spec.rival = Rival::mpi;
  CHECK(settled(spec, false));
  REQUIRE_FALSE(settled(spec, true));
  CHECK(settled(spec, true).error().code == ErrorCode::unavailable);
  CHECK(settled(spec, true).error().message == "--vs mpi is for CPU ranks, these are on GPUs");
  const auto read = record_of<BenchSpec>(json_of(spec));
  REQUIRE(read);
  CHECK(read->rival == Rival::mpi);
  spec.rival = Rival::nccl;
  CHECK_FALSE(settled(spec, false));
}

}  // namespace measure_mpi_world_tests
