// The times of operations.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "tests/gpu/window_world.h"

namespace window_tests {

namespace {

double run_timed(World& w, const Work& work, int blocks, uint32_t chunk, bool graph, int iterations,
                 DirectPath direct = DirectPath::none, bool general = false) {
  std::vector<double> us(w.n);
  std::barrier together(w.n);
  std::vector<std::thread> threads;
  for (int r = 0; r < w.n; ++r)
    threads.emplace_back([&, r] {
      CUDA_OK(cudaSetDevice(w.device(r)));
      Work mine = work;
      const uint64_t room =
          work.count * 4 * (work.collective == Collective::all_reduce ? 1 : w.n) + 64;
      if (direct != DirectPath::none) {
        mine.input = w.user_input(r), mine.output = w.user_output(r);
      } else {
        CUDA_OK(cudaMalloc(const_cast<void**>(&mine.input), room));
        CUDA_OK(cudaMalloc(&mine.output, room));
        CUDA_OK(cudaMemset(const_cast<void*>(mine.input), 0, room));
      }
      const PairStep step = w.shift(r, mine);
      WindowLaunch l = work.collective == Collective::send_recv ? w.message(r, step, mine, blocks)
                                                                : w.launch(r, mine, blocks, direct);
      l.chunk_bytes = chunk;
      l.general = general;
      cudaGraphExec_t exec = nullptr;
      const int each = 20;
      if (graph) {
        cudaGraph_t g;
        CUDA_OK(cudaStreamBeginCapture(w.streams[r], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < each; ++i) CUDA_OK(launch_window(l));
        CUDA_OK(cudaStreamEndCapture(w.streams[r], &g));
        CUDA_OK(cudaGraphInstantiate(&exec, g, 0));
      }
      const auto loop = [&](int count) {
        for (int i = 0; i < count; ++i) {
          if (graph)
            CUDA_OK(cudaGraphLaunch(exec, w.streams[r]));
          else
            for (int k = 0; k < each; ++k) CUDA_OK(launch_window(l));
        }
        CUDA_OK(cudaStreamSynchronize(w.streams[r]));
      };
      together.arrive_and_wait();  // nobody makes anything while another one's kernels wait for him
      loop(1);
      std::vector<double> runs;
      for (int k = 0; k < 5; ++k) {
        together.arrive_and_wait();
        const auto from = std::chrono::steady_clock::now();
        loop(iterations);
        runs.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from)
                .count() /
            (iterations * each));
      }
      std::sort(runs.begin(), runs.end());
      us[r] = runs[2];
      if (exec) cudaGraphExecDestroy(exec);
      if (direct == DirectPath::none)
        cudaFree(const_cast<void*>(mine.input)), cudaFree(mine.output);
    });
  for (auto& t : threads) t.join();
  return *std::max_element(us.begin(), us.end());
}

}  // namespace

void time_world(World& w, Collective collective, bool quick) {
  struct Path {
    AlgorithmId algorithm;
    Protocol protocol;
    const char* name;
    DirectPath direct = DirectPath::none;
  };
  const bool reduces =
      collective == Collective::all_reduce || collective == Collective::reduce_scatter;
  const Path paths[] = {{AlgorithmId::one_shot, Protocol::ll, "one-shot ll"},
                        {AlgorithmId::one_shot, Protocol::ll128, "one-shot ll128"},
                        {AlgorithmId::one_shot, Protocol::simple, "one-shot store"},
                        {AlgorithmId::two_shot, Protocol::ll, "two-shot ll"},
                        {AlgorithmId::two_shot, Protocol::ll128, "two-shot ll128"},
                        {AlgorithmId::two_shot, Protocol::simple, "two-shot store"},
                        {AlgorithmId::two_shot, Protocol::simple,
                         collective == Collective::all_reduce ? "direct store"
                         : reduces                            ? "direct load"
                                                              : "direct put",
                         DirectPath::store},
                        {AlgorithmId::two_shot, Protocol::simple, "direct load", DirectPath::load}};
  for (uint64_t bytes = 256; bytes <= (1ull << 30); bytes *= 4)
    for (const Path& path : paths) {
      if (path.protocol == Protocol::simple && bytes < (64 << 10)) continue;
      Work work{};
      work.collective = collective;
      work.algorithm = path.algorithm;
      work.protocol = path.protocol;
      work.type = DataType::float32;
      work.count = bytes / 4 / (collective == Collective::all_reduce ? 1 : w.n);
      const bool direct = path.direct != DirectPath::none;
      if (!direct && !window_serves(collective, path.algorithm, path.protocol, work.type, work.op,
                                    w.n, work.count * 4))
        continue;
      if (path.direct == DirectPath::load && collective != Collective::all_reduce &&
          (collective != Collective::broadcast || w.n < 3))
        continue;
      std::printf("%-10d %12llu %-15s", int(collective), (unsigned long long)bytes, path.name);
      const int iterations = bytes >= (64 << 20) ? 1 : bytes >= (1 << 20) ? 5 : 20;
      const bool store = path.protocol == Protocol::simple;
      std::vector<std::pair<int, uint32_t>> settings{{0, 0}};
      if (!quick && store)
        for (const uint32_t chunk : {2048u, 4096u, 8192u, 16384u, 32768u, 65536u})
          settings.push_back({128, chunk});
      if (!quick && !store && bytes >= (64 << 10))
        for (const int blocks : {32, 64, 128}) settings.push_back({blocks, 0});
      for (const auto& [blocks, chunk] : settings) {
        const double stream = run_timed(w, work, blocks, chunk, false, iterations, path.direct);
        const double graph = bytes <= (16 << 20)
                                 ? run_timed(w, work, blocks, chunk, true, iterations, path.direct)
                                 : 0;
        std::printf(" | %d/%u: %.2f (%.2f)", blocks, chunk, stream, graph);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
}

void time_messages(World& w) {
  for (uint64_t bytes = 1 << 10; bytes <= 1ull << 30; bytes *= 4)
    for (const Protocol protocol : {Protocol::ll128, Protocol::simple}) {
      Work work{};
      work.collective = Collective::send_recv;
      work.algorithm = AlgorithmId::pairwise;
      work.protocol = protocol;
      work.type = DataType::float32;
      work.count = bytes / 4;
      const bool store = protocol == Protocol::simple;
      if (!window_serves(work.collective, work.algorithm, protocol, work.type, work.op, w.n,
                         bytes) ||
          (store && bytes < (1 << 20)))
        continue;
      std::printf("message %10llu %s", (unsigned long long)bytes, name_of(protocol));
      const bool graph = bytes <= (16 << 20);
      std::vector<std::pair<int, uint32_t>> settings{{0, 0}};
      if (store) settings.insert(settings.end(), {{128, 8192}, {128, 16384}, {128, 32768}});
      for (const auto& [blocks, chunk] : settings)
        std::printf(" | %d/%u %.2f", blocks, chunk,
                    run_timed(w, work, blocks, chunk, graph, bytes >> 26 ? 1 : 5));
      std::printf("\n");
      std::fflush(stdout);
    }
}

void time_chunks(World& w) {
  for (const Collective c : {Collective::all_reduce, Collective::all_gather,
                             Collective::reduce_scatter, Collective::broadcast})
    for (const uint64_t bytes : {1ull << 20, 4ull << 20, 16ull << 20, 64ull << 20, 256ull << 20})
      for (const AlgorithmId a : {AlgorithmId::one_shot, AlgorithmId::two_shot}) {
        Work work{};
        work.collective = c;
        work.algorithm = a;
        work.protocol = Protocol::simple;
        work.type = DataType::float32;
        work.count =
            bytes / 4 / (c == Collective::all_reduce || c == Collective::broadcast ? 1 : w.n);
        if (!window_serves(c, a, work.protocol, work.type, work.op, w.n, work.count * 4)) continue;
        std::printf("%d %10llu shot %d", int(c), (unsigned long long)bytes, int(a));
        const bool graph = bytes <= (16 << 20);
        for (const uint32_t chunk : {0u, 4096u, 8192u, 16384u, 32768u})
          std::printf(" | %u %.2f", chunk,
                      run_timed(w, work, 0, chunk, graph,
                                bytes >> 26 ? 1
                                : graph     ? 3
                                            : 5));
        std::printf("\n");
        std::fflush(stdout);
      }
}

// Two launches of each rank may be there at once, and a block may want a multiprocessor of its own.
// 0: as many as are best, where a rank has a device to itself.
static int blocks_for(const World& w) {
  int places = 0;
  CUDA_OK(cudaDeviceGetAttribute(&places, cudaDevAttrMultiProcessorCount, 0));
  return w.ranks_a_device > 1 ? std::max(1, places / (2 * w.ranks_a_device)) : 0;
}

// A kernel that has aborted is soon done.
static void end_line(World& w) {
  if (*w.abort_word != 0) {
    std::printf(" | WRONG: a rank waited in vain, these times mean nothing");
    ++failures;
    w.reset();
  }
  std::printf("\n");
  std::fflush(stdout);
}

void time_store(World& w) {
  const int blocks = blocks_for(w);
  for (const AlgorithmId algorithm : {AlgorithmId::one_shot, AlgorithmId::two_shot})
    for (const Collective collective : {Collective::all_reduce, Collective::all_gather})
      for (uint64_t bytes = 1 << 20; bytes <= (64 << 20); bytes *= 4) {
        Work work{};
        work.collective = collective;
        work.algorithm = algorithm;
        work.protocol = Protocol::simple;
        work.type = DataType::float32;
        work.count = bytes / 4 / (collective == Collective::all_reduce ? 1 : w.n);
        if (!window_serves(collective, algorithm, work.protocol, work.type, work.op, w.n,
                           work.count * 4))
          continue;
        std::printf("%-10s %-8s %9llu bytes, %d ranks, blocks %d:", name_of(collective),
                    name_of(algorithm), (unsigned long long)bytes, w.n, blocks);
        for (int turn = 0; turn < 3; ++turn)
          std::printf(" %.2f", run_timed(w, work, blocks, 0, false, 5));
        end_line(w);
      }
}

// Each kernel that is made for some sizes against the one that serves them without it.
void time_special(World& w) {
  const struct {
    Collective collective;
    Protocol protocol;
    uint64_t from, to;
  } cases[] = {{Collective::all_reduce, Protocol::ll, 64, 128 << 10},
               {Collective::broadcast, Protocol::ll128, 512 << 10, 16 << 20}};
  const int blocks = blocks_for(w);
  for (const auto& [collective, protocol, from, to] : cases)
    for (uint64_t bytes = from; bytes <= to; bytes *= 2) {
      Work work{};
      work.collective = collective;
      work.algorithm = AlgorithmId::one_shot;
      work.protocol = protocol;
      work.type = DataType::float32;
      work.count = bytes / 4;
      KernelQuery query{.collective = collective,
                        .protocol = protocol,
                        .nranks = w.n,
                        .bytes = bytes,
                        .word_a_lane = true};
      const KernelRow* const special = find_kernel(query);
      query.general = true;
      const KernelRow* const general = find_kernel(query);
      if (special == nullptr || general == nullptr || special == general) continue;
      // A block by lines has 512 threads at most; with a word each they are too few.
      if (special->id == KernelId::words && blocks > 0 && uint64_t(blocks) * 4096 < bytes) continue;
      std::printf("%-10s %9llu bytes, %d ranks, blocks %d:", name_of(collective),
                  (unsigned long long)bytes, w.n, blocks);
      const int iterations = bytes >= (1 << 20) ? 20 : 100;
      for (const bool graph : {false, true})
        for (int turn = 0; turn < 2; ++turn) {  // twice, so that drift shows
          const double with = run_timed(w, work, blocks, 0, graph, iterations);
          const double without =
              run_timed(w, work, blocks, 0, graph, iterations, DirectPath::none, true);
          std::printf(" | %s%s %.2f, %s %.2f (%.2f)", graph ? "graph " : "", special->kernel, with,
                      general->kernel, without, without / with);
        }
      end_line(w);
    }
}

}  // namespace window_tests
