// THE table of GPU kernels: which one runs an operation, by protocol and size, where it is, and
// what it is compared with. The first of the rows that serve a query runs. window_serves(),
// launch_window(), launch_messages(), launch_direct() and launch_works() read it. Plain C++ for
// every build; pure; any thread.
//
// The launch of a kernel decides what its row leaves open: of lines and words (kernels/cuda/window/
// operations.cuh) how many units a warp moves at a time and whether buffers are whole aligned
// words, of stores whether they are aligned to 16 bytes, and always the number of blocks.
#pragma once
#include <span>

#include "kernels/algo/ids.h"
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

enum class KernelId : uint8_t {
  messages_fifo,    // sendrecv_kernel
  moves,            // moves_kernel
  works,            // works_kernel
  messages_lines,   // message_lines
  messages_store,   // message_store
  words,            // sum_words
  lines,            // exchange_lines
  lines_broadcast,  // broadcast_lines
  lines_two_shot,   // two_shot_lines
  store,            // exchange_store
  store_broadcast,  // broadcast_store
  store_two_shot,   // two_shot_store
  direct_two_shot,  // two_shot_direct
  direct_reduce,    // reduce_direct
  direct_relay,     // put_direct, of which receivers load parts that they hand on
  direct_put,       // put_direct
};

// By what data moves: the fifos of links, all ranks' peer memory, or users' buffers that all map.
enum class Through : uint8_t { fifos, window, buffers };

struct KernelQuery {
  Through through = Through::window;
  Collective collective = Collective::all_reduce;
  AlgorithmId algorithm = AlgorithmId::one_shot;
  Protocol protocol = Protocol::simple;
  int nranks = 1;
  uint64_t bytes = 0;  // of `count` elements; of messages, the largest
  DirectPath direct = DirectPath::best;
  // Fifos: the works are messages that one launch of their own kernel takes (sendrecv_serves).
  bool messages_alone = false;
  // Fifos: the host can write down what the launch moves (moves_of).
  bool few_moves = false;
  // This rank's buffers are whole aligned words, which are added up, one a lane. Ranks may differ.
  bool word_a_lane = false;
  // WindowLaunch::general.
  bool general = false;
};

struct KernelRow {
  KernelId id;
  Through through;
  uint32_t collectives, algorithms, protocols;  // a bit for each
  bool (*fits)(const KernelQuery&);             // the size class, and what else must hold
  const char* when;                             // the same in words
  const char* kernel;                           // __global__
  const char* file;
  const char* oracle;  // what does the same slowly: the algorithm's text, which CPU ranks run
};

std::span<const KernelRow> kernel_table();
// Null: no kernel serves it.
const KernelRow* find_kernel(const KernelQuery& query);

}  // namespace collctl::kernels::cuda
