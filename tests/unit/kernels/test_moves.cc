// The host's list of moves for small operations over fifos (kernels/cuda/moves): the moves
// themselves are run by the tests of the kernels; here what is taken, and what is left to the
// verbs' kernel.
#include <algorithm>
#include <vector>

#include "kernels/algo/algorithms.h"
#include "kernels/cuda/moves/call.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"

namespace collctl::kernels::cuda::moves_tests {
namespace {

using cpu_tests::Case;
using cpu_tests::Operation;

constexpr uint32_t kSlotBytes = 2048;  // 1 KiB of data

// The launch of one rank's operation, all of whose fifos there are.
struct Launch {
  Operation operation;
  std::vector<Fifo> fifos;
  std::vector<Fifo*> places;
  std::vector<ChannelLinks> links;
  std::vector<Work> works;
  std::vector<const int32_t*> orders;
  std::vector<uint8_t> scratch;
  WorksLaunch launch;
  MovesCall call;

  Launch(const Case& c, int rank, int nranks, int channels = 1)
      : operation(c, rank, nranks), fifos(size_t(2 * nranks * kProtocolCount)) {
    for (Fifo& fifo : fifos) places.push_back(&fifo);
    for (int channel = 0; channel < channels; ++channel) {
      links.push_back({places.data(), places.data() + nranks * kProtocolCount});
      works.push_back(operation.work(channel, channels));
      scratch.resize(scratch_bytes(works.back()));
      if (!scratch.empty()) works.back().scratch = scratch.data();
      orders.push_back(operation.order().data());
    }
    launch = {.works = works.data(),
              .work_count = channels,
              .protocol = c.protocol,
              .host_links = links.data(),
              .host_orders = orders.data(),
              .slot_bytes = kSlotBytes,
              .shared = {}};
  }
  bool fits() { return moves_of(launch, call); }
};

Case small(AlgorithmId algorithm, Collective collective) {
  return {.algorithm = algorithm,
          .collective = collective,
          .protocol = Protocol::ll,
          .count = 64,
          .chunk_bytes = 1024};
}

}  // namespace

TEST_CASE("a small ring's moves, and the steps that they take of its fifos", "[moves]") {
  Launch ring(small(AlgorithmId::ring, Collective::all_reduce), 1, 3);
  REQUIRE(ring.fits());
  const MovesBlock& block = ring.call.blocks[0];
  CHECK(block.rank == 1);
  REQUIRE(block.move_count == 5);  // 2 (n - 1) + 1
  REQUIRE(block.fifo_count == 2);
  for (int i = 0; i < block.move_count; ++i) {
    const Move& move = ring.call.moves[i];
    CHECK(move.in_count == (i > 0 ? 1 : 0));
    CHECK(move.out_count == (i < 4 ? 1 : 0));
    CHECK((move.in != nullptr) == (i < 3));
    CHECK((move.out != nullptr) == (i >= 2));
    CHECK(move.divides == (i == 2));
    if (move.in_count > 0) CHECK(move.recv[0].later == i - 1);
    if (move.out_count > 0) CHECK(move.send[0].later == i);
  }
  for (int f = 0; f < 2; ++f) {
    CHECK(ring.call.fifos[f].steps == 4);
    CHECK(ring.call.fifos[f].receives == (f == 1));  // in the order of their use
  }
  CHECK(ring.call.head.divisor == 1);
}

TEST_CASE("rings, trees, doubling and halving go by moves where they are small", "[moves]") {
  const struct {
    AlgorithmId algorithm;
    Collective collective;
  } rows[] = {{AlgorithmId::ring, Collective::all_gather},
              {AlgorithmId::ring, Collective::reduce_scatter},
              {AlgorithmId::ring, Collective::broadcast},
              {AlgorithmId::ring, Collective::barrier},
              {AlgorithmId::tree, Collective::all_reduce},
              {AlgorithmId::doubling, Collective::all_reduce},
              {AlgorithmId::halving, Collective::reduce_scatter}};
  for (const auto& row : rows)
    for (const int nranks : {2, 3, 8})
      for (int rank = 0; rank < nranks; ++rank) {
        CAPTURE(int(row.algorithm), int(row.collective), nranks, rank);
        CHECK(Launch(small(row.algorithm, row.collective), rank, nranks).fits());
      }
}

TEST_CASE("what is not small or of one kind is left to the verbs", "[moves]") {
  const Case ring = small(AlgorithmId::ring, Collective::all_gather);
  CHECK(Launch(ring, 0, 2, 2).fits());
  // A chunk of two slices; more moves than there is room for; halves side by side; messages.
  Case c = ring;
  c.count = 512, c.chunk_bytes = 2048;
  CHECK_FALSE(Launch(c, 0, 2).fits());
  c = small(AlgorithmId::ring, Collective::all_reduce);
  c.count = 1024;
  CHECK_FALSE(Launch(c, 0, 40).fits());
  CHECK_FALSE(Launch(small(AlgorithmId::tree_split, Collective::all_reduce), 1, 4).fits());
  CHECK_FALSE(Launch(small(AlgorithmId::pairwise, Collective::all_to_all), 0, 4).fits());
  // Another protocol; nobody knows how large slots are; no link was made.
  c = ring;
  c.protocol = Protocol::ll128;
  CHECK_FALSE(Launch(c, 0, 2).fits());
  {
    Launch launch(ring, 0, 2);
    launch.launch.slot_bytes = 0;
    CHECK_FALSE(launch.fits());
  }
  {
    Launch launch(ring, 0, 2);
    std::fill(launch.places.begin(), launch.places.end(), nullptr);
    CHECK_FALSE(launch.fits());
  }
  // Two works of a channel, of two operations.
  {
    Launch launch(ring, 0, 2, 2);
    launch.works[1].channel = 0;
    CHECK_FALSE(launch.fits());
  }
  {
    Launch launch(ring, 0, 2, 2);
    launch.works[1].op_count = 8;
    CHECK_FALSE(launch.fits());
  }
}

}  // namespace collctl::kernels::cuda::moves_tests
