// The works that must come out right.
#include <tuple>

#include "kernels/algo/dispatch.h"
#include "kernels/cuda/launcher/launcher.h"
#include "tests/gpu/works_checks.h"

namespace gpu_tests {

void every_algorithm(int nranks) {
  for (const uint32_t slots : {2u, 8u}) {
    World world({.nranks = nranks, .channels = 2, .slot_count = slots});
    for (const AlgorithmRow& row : algorithms())
      for (int p = 0; p < kProtocolCount; ++p)
        for (int collective = 0; collective < kCollectiveCount; ++collective) {
          if (!serves(row, Protocol(p)) || !serves(row, Collective(collective))) continue;
          int turn = 0;
          for (const uint64_t count : {uint64_t(0), uint64_t(1), uint64_t(17), uint64_t(1003),
                                       uint64_t(9999), uint64_t(30000)}) {
            Case c{.algorithm = row.id,
                   .collective = Collective(collective),
                   .protocol = Protocol(p),
                   .count = count,
                   .root = (turn + 1) % nranks,
                   .in_place = turn % 2 == 1,
                   .misalign = turn % 3 == 2 ? size_t(4) : size_t(0),
                   .chunk_bytes = chunk_bytes(world, row, 1 + turn % 3)};
            fit_window(world, row, c);
            if (!runs(world, c, turn % 2 == 0 ? 96 : 256)) return;
            ++turn;
          }
        }
  }
}

void every_type(int nranks, int capability) {
  World world({.nranks = nranks, .channels = 1, .slot_count = 4});
  const AlgorithmId tried[] = {AlgorithmId::ring,     AlgorithmId::tree,
                               AlgorithmId::doubling, AlgorithmId::tree_split,
                               AlgorithmId::one_shot, AlgorithmId::two_shot};
  for (int type = 0; type < kDataTypeCount; ++type) {
    if (!collctl::kernels::cuda::launcher().has_type(DataType(type), capability)) {
      std::printf("skipped: %s (not in this build's code for sm_%d)\n", name_of(DataType(type)),
                  capability);
      continue;
    }
    for (int op = 0; op < kRedOpCount; ++op)
      for (int p = 0; p < kProtocolCount; ++p)
        for (const AlgorithmId id : tried) {
          const AlgorithmRow& row = algorithm(id);
          if (!serves(row, Protocol(p))) continue;
          for (const size_t misalign : {size_t(0), size_t(element_size(DataType(type)))}) {
            Case c{.algorithm = id,
                   .collective = Collective::all_reduce,
                   .type = DataType(type),
                   .op = RedOp(op),
                   .protocol = Protocol(p),
                   .count = 1003,
                   .in_place = misalign == 0,
                   .misalign = misalign,
                   .chunk_bytes = chunk_bytes(world, row, 2)};
            fit_window(world, row, c);
            if (!runs(world, c)) return;
          }
        }
  }
}

void messages(int nranks) {
  const Collective kinds[] = {Collective::send_recv, Collective::all_to_all, Collective::gather,
                              Collective::scatter};
  for (const uint32_t slots : {1u, 5u})
    for (int p = 0; p < kProtocolCount; ++p) {
      World world({.nranks = nranks, .channels = 3, .slot_count = slots});
      int turn = 0;
      for (const Collective collective : kinds)
        for (const uint64_t bytes : {1u, 7u, 8u, 9u, 15u, 16u, 119u, 120u, 121u, 479u, 481u, 1919u,
                                     1921u, 3839u, 3840u, 3841u, 7681u, 61441u}) {
          const int threads[] = {96, 128, 288, 512};
          ++turn;
          if (!runs(world,
                    {.algorithm = AlgorithmId::pairwise,
                     .collective = collective,
                     .type = DataType::int8,
                     .protocol = Protocol(p),
                     .count = bytes,
                     .root = turn % nranks,
                     .misalign = size_t(turn % 17),
                     .chunk_bytes = 3840 * (1 + uint64_t(turn) % slots)},
                    threads[turn % 4], 1 + turn % 3))
            return;
        }
    }
}

void message_types(int nranks) {
  World world({.nranks = nranks, .slot_count = 4});
  for (int type = 0; type < kDataTypeCount; ++type)
    for (int p = 0; p < kProtocolCount; ++p)
      for (size_t misalign = 0; misalign < 16; misalign += element_size(DataType(type)))
        if (!runs(world, {.algorithm = AlgorithmId::pairwise,
                          .collective = Collective::all_to_all,
                          .type = DataType(type),
                          .protocol = Protocol(p),
                          .count = 1003,
                          .misalign = misalign,
                          .chunk_bytes = 2 * 3840}))
          return;
}

void large(int nranks) {
  World world({.nranks = nranks,
               .channels = 4,
               .slot_count = 8,
               .slot_data_bytes = 240 * 1024,
               .window_bytes = 512 << 10});
  for (const AlgorithmRow& row : algorithms())
    for (int p = 0; p < kProtocolCount; ++p)
      for (int collective = 0; collective < kCollectiveCount; ++collective) {
        if (!serves(row, Protocol(p)) || !serves(row, Collective(collective))) continue;
        for (const DataType type : {DataType::float32, DataType::int8}) {
          Case c{.algorithm = row.id,
                 .collective = Collective(collective),
                 .type = type,
                 .protocol = Protocol(p),
                 .count = 300001,
                 .root = nranks - 1,
                 .in_place = type == DataType::int8,
                 .chunk_bytes = chunk_bytes(world, row, 2)};
          fit_window(world, row, c);
          if (!runs(world, c, 512)) return;
        }
      }
}

void flags_wrap() {
  for (const uint64_t period : {uint64_t(1) << 31, uint64_t(1) << 32}) {
    World world({.nranks = 3, .slot_count = 4, .first_step = period - 6, .before = 0x55});
    for (int i = 0; i < 12; ++i)
      runs(world, {.protocol = Protocol::ll,
                   .count = uint64_t(i % 2 == 0 ? 2000 : 5),
                   .chunk_bytes = 3840});
    World pairs({.nranks = 3, .slot_count = 4, .first_step = period - 6, .before = 0x55});
    for (int i = 0; i < 12; ++i)
      runs(pairs, {.algorithm = AlgorithmId::pairwise,
                   .collective = Collective::all_to_all,
                   .protocol = Protocol::ll,
                   .count = uint64_t(i % 2 == 0 ? 2000 : 5),
                   .chunk_bytes = 3840});
  }
}

void mixed(int nranks) {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
    ++cases;
    World world({.nranks = nranks, .channels = 2, .slot_count = 4});
    buffers().clear();
    std::vector<Case> list;
    for (const auto& [id, collective, type, op] :
         {std::tuple{AlgorithmId::ring, Collective::all_reduce, DataType::int8, RedOp::max},
          std::tuple{AlgorithmId::tree_split, Collective::all_reduce, DataType::float16,
                     RedOp::sum},
          std::tuple{AlgorithmId::pairwise, Collective::all_to_all, DataType::float64, RedOp::sum},
          std::tuple{AlgorithmId::ring, Collective::all_gather, DataType::uint32, RedOp::sum}})
      list.push_back({.algorithm = id,
                      .collective = collective,
                      .type = type,
                      .op = op,
                      .protocol = protocol,
                      .count = 5003,
                      .chunk_bytes = chunk_bytes(world, algorithm(id), 2)});
    std::vector<std::unique_ptr<Placed>> placed;
    for (const Case& c : list) placed.push_back(std::make_unique<Placed>(buffers(), c, nranks));
    buffers().upload();
    std::vector<Work> works;
    for (size_t i = 0; i < list.size(); ++i)
      for (int r = 0; r < nranks; ++r)
        for (int ch = 0; ch < 2; ++ch) works.push_back(placed[i]->work(r, ch, 2));
    if (!world.run(works, 256, kPatience)) fail("mixed works");
    if (!expect_no_report(world, "mixed works")) continue;
    buffers().download();
    for (auto& p : placed) p->check();
  }
}

}  // namespace gpu_tests
