// Peer benchmark: MPI_Allreduce, float32 sum, on host memory. One line a size: "bytes microseconds
// wrong p99". Timed as collctl does: after a barrier, ITERATIONS calls back to back; time = block /
// ITERATIONS of the slowest rank, p99 0. With "each" a barrier before every call; time = median of
// the calls, each the slowest rank's. Usage: peer_mpi MIN_BYTES MAX_BYTES FACTOR block|each
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/iterations.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 5) return 2;
  const bool each = argv[4] == std::string("each");
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t factor = std::strtoull(argv[3], nullptr, 10);
  for (size_t bytes = std::strtoull(argv[1], nullptr, 10);
       bytes <= std::strtoull(argv[2], nullptr, 10); bytes *= factor) {
    const int count = int(bytes / sizeof(float));
    std::vector<float> in(count), out(count, -1.0f);
    for (int i = 0; i < count; ++i) in[i] = float((i + rank) % 17);
    const auto call = [&] {
      MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    const int iterations = bench::iterations_for(bytes);
    for (int i = 0; i < iterations / 4 + 2; ++i) call();
    // One block of all calls, or as many of one.
    std::vector<double> mine(each ? iterations : 1), slowest(mine.size());
    const int calls = each ? 1 : iterations;
    for (double& time : mine) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int i = 0; i < calls; ++i) call();
      time = (MPI_Wtime() - start) / calls * 1e6;
    }
    MPI_Allreduce(mine.data(), slowest.data(), int(mine.size()), MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    long wrong = 0, all = 0;
    for (int i = 0; i < count; ++i) {
      float want = 0;
      for (int r = 0; r < ranks; ++r) want += float((i + r) % 17);
      wrong += out[i] != want;
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
      std::printf("%zu %.3f %ld %.3f\n", bytes, bench::percentile(slowest, 0.5), all,
                  each ? bench::percentile(slowest, 0.99) : 0.0),
          std::fflush(stdout);
  }
  MPI_Finalize();
}
