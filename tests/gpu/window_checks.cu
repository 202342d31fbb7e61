// Which operations are run: all paths, random ones, and ranks that are missing.
#include <algorithm>
#include <cstring>

#include "tests/gpu/window_world.h"

namespace window_tests {

void check_world(World& w, bool only_direct, bool few) {
  struct Path {
    AlgorithmId algorithm;
    Protocol protocol;
    DirectPath direct = DirectPath::none;
  };
  const Path paths[] = {{AlgorithmId::one_shot, Protocol::ll},
                        {AlgorithmId::one_shot, Protocol::ll128},
                        {AlgorithmId::one_shot, Protocol::simple},
                        {AlgorithmId::two_shot, Protocol::ll},
                        {AlgorithmId::two_shot, Protocol::ll128},
                        {AlgorithmId::two_shot, Protocol::simple},
                        {AlgorithmId::pairwise, Protocol::ll128},
                        {AlgorithmId::pairwise, Protocol::simple},
                        {AlgorithmId::two_shot, Protocol::simple, DirectPath::store},
                        {AlgorithmId::two_shot, Protocol::simple, DirectPath::load}};
  const Collective collectives[] = {
      Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
      Collective::broadcast,  Collective::reduce,     Collective::gather,
      Collective::scatter,    Collective::all_to_all, Collective::send_recv};
  int turn = 0;
  for (const auto& [algorithm, protocol, direct] : paths)
    for (const Collective collective : collectives) {
      if (only_direct && direct == DirectPath::none) continue;
      if (few)
        std::printf("algorithm %d protocol %d path %d collective %d\n", int(algorithm),
                    int(protocol), int(direct), int(collective)),
            std::fflush(stdout);
      // Other collectives have one path.
      if (direct == DirectPath::load && collective != Collective::all_reduce &&
          collective != Collective::broadcast)
        continue;
      for (const uint64_t count : {1ull, 3ull, 7ull, 1000ull, 4097ull, 100'003ull, 1'048'577ull})
        for (const uint64_t shift : {0ull, 4ull, 8ull}) {
          if (few &&
              (shift != (count % 2) * 4 || (count != 1 && count != 1000 && count != 100'003)))
            continue;
          // Directly, or with a root, all blocks of a launch wait for their like on all ranks, and
          // those of the next launch may have come already: on one device there must be places for
          // 2 x ranks x blocks of them, on most multiprocessors one each.
          const bool crowded = direct != DirectPath::none || w.ranks_a_device > 4;
          const int blocks[] = {1, 5, crowded ? 8 : 16};
          run_case(w, {collective, algorithm, protocol, DataType::float32, RedOp::sum, count,
                       blocks[turn++ % 3], shift, false, direct});
          if (collective != Collective::gather && collective != Collective::scatter)
            run_case(w, {collective, algorithm, protocol, DataType::float32, RedOp::sum, count, 8,
                         shift, true, direct});
        }
      for (int t = 0; t < kDataTypeCount; ++t)
        for (int o = 0; o < (few ? t % 4 == 1 : kRedOpCount); ++o)
          for (const uint64_t shift : {0u, 1u})
            run_case(w, {collective, algorithm, protocol, DataType(t), RedOp(o), 5003, 4,
                         shift * element_size(DataType(t)), false, direct});
    }
}

void stress(World& w, uint32_t seed, int operations) {
  const auto draw = [&](uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
  };
  const Collective collectives[] = {Collective::all_reduce,     Collective::all_gather,
                                    Collective::reduce_scatter, Collective::broadcast,
                                    Collective::all_to_all,     Collective::send_recv};
  for (int i = 0; i < operations && failures == 0; ++i) {
    Case c{};
    c.collective = collectives[draw(6)];
    c.algorithm = draw(2) == 0 ? AlgorithmId::one_shot : AlgorithmId::two_shot;
    c.protocol = Protocol(draw(3) == 0 ? 0 : draw(4) == 0 ? 1 : 2);
    if (c.collective == Collective::send_recv)
      c.algorithm = AlgorithmId::pairwise,
      c.protocol = draw(2) == 0 ? Protocol::simple : Protocol::ll128;
    c.type = DataType(draw(kDataTypeCount));
    c.op = RedOp(draw(4));
    c.count = draw(1u << (4 + draw(14))) + 1;
    c.blocks = draw(2) == 0 ? 0 : int(draw(40)) + 1;
    c.shift = draw(2) == 0 ? 0 : uint64_t(draw(16));
    c.in_place = draw(2) == 0;
    // Among each other, so that counts of slots and epochs serve both.
    if (draw(2) == 0 && c.collective != Collective::send_recv)
      c.direct = draw(2) == 0 ? DirectPath::best : DirectPath::load;
    run_case(w, c);
    if (failures > 0) std::printf("operation %d\n", i);
  }
}

void check_missing(World& w) {
  uint8_t* memory;
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaMalloc(&memory, 1 << 20));
  CUDA_OK(cudaMemset(memory, 0, 1 << 20));
  const struct {
    AlgorithmId algorithm;
    Protocol protocol;
  } paths[] = {{AlgorithmId::one_shot, Protocol::ll},
               {AlgorithmId::one_shot, Protocol::ll128},
               {AlgorithmId::one_shot, Protocol::simple},
               {AlgorithmId::pairwise, Protocol::ll128},
               {AlgorithmId::pairwise, Protocol::simple}};
  for (const auto& [algorithm, protocol] : paths) {
    if (w.in == In::host && protocol == Protocol::ll128) continue;
    w.reset();
    w.timeout_ns = 200'000'000;
    Work work{};
    work.algorithm = algorithm;
    work.protocol = protocol;
    work.type = DataType::float32;
    work.count = 1000;
    work.input = work.output = memory;
    const PairStep step = w.shift(0, work);
    if (algorithm == AlgorithmId::pairwise) work.collective = Collective::send_recv;
    CUDA_OK(launch_window(algorithm == AlgorithmId::pairwise
                              ? w.message(0, step, work, 2)
                              : w.launch(0, work, 2)));  // rank 1 and others never come
    CUDA_OK(cudaStreamSynchronize(w.streams[0]));
    ++cases;
    if (w.reports[0].code != ReportCode::timeout || w.reports[0].peer <= 0 || *w.abort_word == 0) {
      std::printf("WRONG: no report of a missing rank (algorithm %d protocol %d)\n", int(algorithm),
                  int(protocol));
      ++failures;
    }
  }
  cudaFree(memory);
}

void check_missing_direct(World& w) {
  const int n = w.n;
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    for (const DirectPath path : {DirectPath::store, DirectPath::load})
      for (const bool other_size : {false, true}) {
        w.reset();
        w.timeout_ns = 200'000'000;
        for (int r = 0; r < (other_size ? n : 1); ++r) {
          Work work{};
          work.collective = collective;
          work.algorithm = AlgorithmId::two_shot;
          work.protocol = Protocol::simple;
          work.type = DataType::float32;
          work.count = r == 0 ? 1000 : 1001;
          work.input = w.user_input(r);
          work.output = w.user_output(r);
          CUDA_OK(launch_window(w.launch(r, work, 2, path)));
        }
        for (int r = 0; r < n; ++r) CUDA_OK(cudaStreamSynchronize(w.streams[r]));
        ++cases;
        bool told = *w.abort_word != 0;
        if (other_size) {
          bool size = false;
          for (int r = 0; r < n; ++r) {
            size = size || w.reports[r].code == ReportCode::wrong_size;
            told = told && (r > 0 || w.reports[r].code != ReportCode::none);
          }
          told = told && size;
        } else {
          told = told && w.reports[0].code == ReportCode::timeout && w.reports[0].peer > 0;
        }
        // Nothing was put anywhere.
        std::vector<uint8_t> out(4096);
        for (int r = 0; r < n; ++r) {
          CUDA_OK(cudaMemcpy(out.data(), w.user_output(r), out.size(), cudaMemcpyDeviceToHost));
          told = told && std::all_of(out.begin(), out.end(), [](uint8_t b) { return b == 0; });
        }
        if (told) continue;
        std::printf("WRONG: collective %d path %d, %s: no report, or something was written\n",
                    int(collective), int(path), other_size ? "another size" : "a missing rank");
        ++failures;
      }
}

}  // namespace window_tests
