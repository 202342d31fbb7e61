// Peer benchmark: gloo's all-reduce over its TCP transport on loopback, float32 sum. Output and
// timing as peer_mpi, but of rank 0 alone. Ranks meet through files in a folder. Usage: peer_gloo
// RANK RANKS FOLDER MIN_BYTES MAX_BYTES FACTOR block|each
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/iterations.h"

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  const bool each = argv[7] == std::string("each");
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  const size_t factor = std::strtoull(argv[6], nullptr, 10);
  for (size_t bytes = std::strtoull(argv[4], nullptr, 10);
       bytes <= std::strtoull(argv[5], nullptr, 10); bytes *= factor) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> in(count, float(rank + 1)), out(count, -1.0f);
    const auto call = [&] {
      gloo::AllreduceOptions options(context);
      options.setInput(in.data(), count);
      options.setOutput(out.data(), count);
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    };
    const int iterations = bench::iterations_for(bytes);
    for (int i = 0; i < iterations / 4 + 2; ++i) call();
    gloo::BarrierOptions barrier(context);
    std::vector<double> times(each ? iterations : 1);
    const int calls = each ? 1 : iterations;
    for (double& time : times) {
      gloo::barrier(barrier);
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) call();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      time = took.count() / calls;
    }
    long wrong = 0;
    for (float v : out) wrong += v != float(ranks * (ranks + 1) / 2);
    if (rank == 0)
      std::printf("%zu %.3f %ld %.3f\n", bytes, bench::percentile(times, 0.5), wrong,
                  each ? bench::percentile(times, 0.99) : 0.0),
          std::fflush(stdout);
  }
}
