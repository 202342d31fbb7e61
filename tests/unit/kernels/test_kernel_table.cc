// The table of GPU kernels: what it says of places is so, every row is reached, and each operation
// gets the kernel that is meant for it.
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "kernels/cuda/table.h"
#include "tests/catch.h"
#include "tests/places.h"

namespace collctl::kernels::cuda::kernel_table_tests {
namespace {

std::string text_of(const char* file) {
  std::ifstream in(test::source_folder() + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

const char* kernel_of(const KernelQuery& query) {
  const KernelRow* const row = find_kernel(query);
  return row == nullptr ? "none" : row->kernel;
}

}  // namespace

TEST_CASE("each row's kernel is in its file, its oracle is a file", "[gpu-table]") {
  for (const KernelRow& row : kernel_table()) {
    CAPTURE(row.kernel, row.file, row.oracle);
    const std::string text = text_of(row.file);
    CHECK(text.find("__global__") != std::string::npos);
    CHECK(text.find(std::string(" ") + row.kernel + "(") != std::string::npos);
    CHECK_FALSE(text_of(row.oracle).empty());
  }
}

TEST_CASE("every row of the table of GPU kernels runs something", "[gpu-table]") {
  std::set<const KernelRow*> found;
  for (int through = 0; through < 3; ++through)
    for (int c = 0; c < kCollectiveCount; ++c)
      for (int a = 0; a < kAlgorithmCount; ++a)
        for (int p = 0; p < kProtocolCount; ++p)
          for (const uint64_t bytes : {64u, 4096u, 1u << 20})
            for (const DirectPath direct : {DirectPath::store, DirectPath::load})
              for (const bool special : {false, true})
                if (const KernelRow* row = find_kernel({.through = Through(through),
                                                        .collective = Collective(c),
                                                        .algorithm = AlgorithmId(a),
                                                        .protocol = Protocol(p),
                                                        .nranks = 3,
                                                        .bytes = bytes,
                                                        .direct = direct,
                                                        .messages_alone = special,
                                                        .few_moves = special,
                                                        .word_a_lane = special}))
                  found.insert(row);
  CHECK(found.size() == kernel_table().size());
}

TEST_CASE("operations get the GPU kernel that is meant for them", "[gpu-table]") {
  using enum Collective;
  constexpr auto kOneShot = AlgorithmId::one_shot, kTwoShot = AlgorithmId::two_shot;
  constexpr auto kLl = Protocol::ll, kLl128 = Protocol::ll128, kSimple = Protocol::simple;
  const auto window = [](Collective c, AlgorithmId a, Protocol p, int n, uint64_t bytes,
                         bool words = false, bool general = false) {
    return std::string(kernel_of({.collective = c,
                                  .algorithm = a,
                                  .protocol = p,
                                  .nranks = n,
                                  .bytes = bytes,
                                  .word_a_lane = words,
                                  .general = general}));
  };
  CHECK(window(all_reduce, kOneShot, kLl, 2, 256, true) == "sum_words");
  CHECK(window(all_reduce, kOneShot, kLl, 2, 256, true, true) == "exchange_lines");
  CHECK(window(all_reduce, kOneShot, kLl, 2, 256) == "exchange_lines");
  CHECK(window(barrier, kOneShot, kLl, 2, 4, true) == "exchange_lines");
  CHECK(window(all_reduce, kOneShot, kLl, 2, 256 << 10) == "exchange_lines");
  CHECK(window(all_reduce, kOneShot, kLl, 2, (256 << 10) + 4) == "none");
  CHECK(window(all_reduce, kOneShot, kLl, 3, 144 << 10) == "exchange_lines");
  CHECK(window(all_reduce, kOneShot, kLl, 3, (144 << 10) + 4) == "none");
  CHECK(window(all_reduce, kTwoShot, kLl, 4, 256 << 10) == "two_shot_lines");
  CHECK(window(all_reduce, kTwoShot, kLl, 4, 256) == "exchange_lines");
  CHECK(window(all_reduce, kTwoShot, kLl, 4, 257) == "two_shot_lines");
  CHECK(window(all_reduce, kTwoShot, kLl128, 4, 480) == "exchange_lines");
  CHECK(window(all_reduce, kTwoShot, kLl128, 4, 481) == "two_shot_lines");
  CHECK(window(all_gather, kTwoShot, kLl, 4, 1024) == "none");
  CHECK(window(all_gather, kOneShot, kLl128, 4, 257 << 10) == "exchange_lines");
  CHECK(window(reduce_scatter, kOneShot, kLl128, 8, 1 << 20) == "exchange_lines");
  CHECK(window(all_reduce, kTwoShot, kSimple, 4, 1 << 30) == "two_shot_store");
  CHECK(window(broadcast, kOneShot, kLl128, 3, 256 << 10) == "exchange_lines");
  CHECK(window(broadcast, kOneShot, kLl128, 3, 257 << 10) == "broadcast_lines");
  CHECK(window(broadcast, kOneShot, kLl128, 3, 257 << 10, false, true) == "exchange_lines");
  CHECK(window(broadcast, kOneShot, kLl128, 2, 257 << 10) == "exchange_lines");
  CHECK(window(broadcast, kOneShot, kSimple, 3, 1 << 20) == "broadcast_store");
  CHECK(window(broadcast, kOneShot, kSimple, 2, 1 << 20) == "exchange_store");
  CHECK(window(send_recv, kOneShot, kSimple, 2, 1 << 20) == "none");
  CHECK(window(send_recv, AlgorithmId::pairwise, kSimple, 9, 1 << 20) == "message_store");
  CHECK(window(send_recv, AlgorithmId::pairwise, kSimple, 10, 1 << 20) == "none");
  CHECK(window(send_recv, AlgorithmId::pairwise, kLl128, 10, 1 << 10) == "message_lines");
  CHECK(window(all_reduce, kOneShot, kSimple, 128, 4) == "exchange_store");
  CHECK(window(all_reduce, kOneShot, kSimple, 129, 4) == "none");

  const auto direct = [](Collective c, DirectPath path, int n, uint64_t bytes) {
    const KernelRow* const row = find_kernel({.through = Through::buffers,
                                              .collective = c,
                                              .nranks = n,
                                              .bytes = bytes,
                                              .direct = path});
    return row == nullptr ? -1 : int(row->id);
  };
  CHECK(direct(all_reduce, DirectPath::best, 2, 64) == int(KernelId::direct_two_shot));
  CHECK(direct(all_reduce, DirectPath::load, 2, 64) == int(KernelId::direct_reduce));
  CHECK(direct(reduce_scatter, DirectPath::store, 2, 64) == int(KernelId::direct_reduce));
  CHECK(direct(broadcast, DirectPath::best, 3, 512 << 10) == int(KernelId::direct_relay));
  CHECK(direct(broadcast, DirectPath::best, 2, 512 << 10) == int(KernelId::direct_put));
  CHECK(direct(broadcast, DirectPath::store, 3, 512 << 10) == int(KernelId::direct_put));
  CHECK(direct(broadcast, DirectPath::load, 3, 64) == int(KernelId::direct_relay));
  CHECK(direct(barrier, DirectPath::best, 2, 4) == -1);
  CHECK(direct(send_recv, DirectPath::best, 2, 4) == -1);
}

}  // namespace collctl::kernels::cuda::kernel_table_tests
