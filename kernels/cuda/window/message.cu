// Host side of messages through peers' memory.
#include "kernels/cuda/window/message_lines.cuh"

#include "kernels/cuda/multiprocessors.cuh"
#include "kernels/cuda/table.h"
#include "kernels/cuda/window/host.cuh"
#include "kernels/cuda/window/launch.h"

namespace collctl::kernels::cuda {

namespace {

using Ll128 = Lines<Protocol::ll128>;
// Batches of whole aligned words, and of anything else (operations.cuh).
template <bool kCounting>
using Small = Batch<Ll128, 1, 1, true, kCounting>;
template <bool kCounting>
using Large = Batch<Ll128, 3, 1, true, kCounting>;
template <bool kCounting>
using Odd = Batch<Ll128, 1, 1, false, kCounting>;
template <bool kCounting>
using OddLarge = Batch<Ll128, 4, 1, false, kCounting>;

// The same at both ends, which know only of this message.
uint32_t chunk_of_message(const WindowLaunch& launch, uint64_t bytes) {
  if (launch.memory.own != nullptr && launch.chunk_bytes == 0) return host_cut(bytes, false).chunk;
  return one_way_chunk(launch, bytes);
}

// False: a peer that is none.
bool messages_of(const WindowLaunch& launch, const PairStep& step, Messages& m) {
  const int me = launch.memory.rank, nranks = launch.memory.nranks;
  const auto is_peer = [&](int rank) { return rank >= 0 && rank < nranks && rank != me; };
  const uint64_t element = element_size(launch.work.type);
  m = {};
  m.send_peer = m.recv_peer = -1;
  m.send_chunk = m.recv_chunk = kSlotBytes;  // nothing is divided by 0
  if (step.send_peer >= 0 && step.send_count > 0) {
    if (!is_peer(step.send_peer)) return false;
    m.send = static_cast<const uint8_t*>(step.send);
    m.send_bytes = step.send_count * element;
    m.send_chunk = chunk_of_message(launch, m.send_bytes);
    m.send_peer = step.send_peer;
  }
  if (step.recv_peer >= 0 && step.recv_count > 0) {
    if (!is_peer(step.recv_peer)) return false;
    m.recv = static_cast<uint8_t*>(step.recv);
    m.recv_bytes = step.recv_count * element;
    m.recv_chunk = chunk_of_message(launch, m.recv_bytes);
    m.recv_peer = step.recv_peer;
  }
  return true;
}
uint64_t largest_of(const Messages& m) {
  return max(m.send_bytes, m.recv_bytes);
}
// All begin at multiples of `to` bytes.
bool aligned(const Messages& m, uint64_t to) {
  return (reinterpret_cast<uintptr_t>(m.send) | reinterpret_cast<uintptr_t>(m.recv)) % to == 0;
}

int asked_blocks(const WindowLaunch& launch) {
  return min(launch.blocks, kWindowBlocks);
}

int launch_store(const WindowLaunch& launch, const Exchange& x, const Messages& m) {
  const int asked = asked_blocks(launch);
  const uint64_t bytes = largest_of(m);
  const int most = x.memory.own != nullptr ? host_cut(bytes, false).blocks : kWindowBlocks;
  const int blocks = asked > 0 ? asked : at_most((bytes + 2047) / 2048, most);
  return with_form(x, [&]<bool kCounting>() {
    return launch_kernel(
        aligned(m, 16) ? &message_store<true, kCounting> : &message_store<false, kCounting>, blocks,
        kStoreThreads, launch.stream, x, m);
  });
}

// How many messages of their pairs come before, and whether more follow.
void count_rounds(MessageRounds& rounds) {
  for (int i = 0; i < rounds.count; ++i) {
    Messages& m = rounds.round[i];
    m.last_sent = m.last_received = true;
    for (int k = 0; k < i; ++k) {
      Messages& before = rounds.round[k];
      if (m.send_bytes > 0 && before.send_bytes > 0 && before.send_peer == m.send_peer) {
        ++m.send_before;
        before.last_sent = false;
      }
      if (m.recv_bytes > 0 && before.recv_bytes > 0 && before.recv_peer == m.recv_peer) {
        ++m.recv_before;
        before.last_received = false;
      }
    }
  }
}

int launch_lines(const WindowLaunch& launch, Exchange x, MessageRounds& rounds) {
  if (rounds.count == 0) return cudaSuccess;
  count_rounds(rounds);
  bool odd = false;
  x.bytes = 0;
  for (int i = 0; i < rounds.count; ++i) {
    const Messages& m = rounds.round[i];
    x.bytes = max(x.bytes, largest_of(m));
    odd = odd || !aligned(m, 8) || (m.send_bytes | m.recv_bytes) % 8 != 0;
  }
  // A sender waits for all blocks of a receiver, whose launch may be cut otherwise: all of a launch
  // must have a place at the same time.
  const int places = max(1, min(multiprocessors(), kWindowBlocks));
  const int blocks = min(line_blocks<Ll128>(x, asked_blocks(launch)), places);
  const int threads = line_threads<Ll128>(x, blocks);
  const uint32_t units = units_of<Ll128>(x.bytes), warps = uint32_t(blocks) * kLineThreads / 32;
  const auto run = [&]<Places kPlaces>(auto* kernel) {
    return launch_kernel<kPlaces>(kernel, blocks, threads, launch.stream, x, rounds);
  };
  return with_form(x, [&]<bool kCounting>() {
    auto* const large = &message_lines<Large<kCounting>>;
    if (odd)
      return run.template operator()<Places::any>(
          units > warps ? &message_lines<OddLarge<kCounting>> : &message_lines<Odd<kCounting>>);
    if (units > warps + warps / 2) return run.template operator()<Places::alone>(large);
    return run.template operator()<Places::any>(units > warps ? large
                                                              : &message_lines<Small<kCounting>>);
  });
}

}  // namespace

int launch_messages(const WindowLaunch& launch) {
  Exchange x = exchange_of(launch);
  x.gives_to = x.takes_from = Peers::none;
  MessageRounds rounds{};
  KernelQuery query{.through = Through::window,
                    .collective = Collective::send_recv,
                    .algorithm = AlgorithmId::pairwise,
                    .protocol = launch.work.protocol,
                    .nranks = launch.memory.nranks};
  for (uint32_t i = 0; i < launch.work.pair_count; ++i) {
    Messages m;
    if (!messages_of(launch, launch.rounds[i], m)) return cudaErrorInvalidValue;
    query.bytes = largest_of(m);
    const KernelRow* const row = find_kernel(query);
    if (row == nullptr) return cudaErrorInvalidValue;
    if (query.bytes == 0) continue;
    int failed = cudaSuccess;
    if (row->id == KernelId::messages_store) {
      failed = launch_store(launch, x, m);
    } else {
      if (rounds.count == kMostRounds) {
        failed = launch_lines(launch, x, rounds);
        rounds.count = 0;
      }
      rounds.round[rounds.count++] = m;
    }
    if (failed != cudaSuccess) return failed;
  }
  return launch_lines(launch, x, rounds);
}

int prepare_messages(bool counts_waits) {
  return prepare_forms(counts_waits, [&]<bool kCounting>() {
    int failed = prepare_kernel(&message_store<true, kCounting>);
    if (failed == 0) failed = prepare_kernel(&message_store<false, kCounting>);
    if (failed == 0) failed = prepare_kernel(&message_lines<Small<kCounting>>);
    if (failed == 0) failed = prepare_kernel(&message_lines<Large<kCounting>>);
    if (failed == 0) failed = prepare_kernel(&message_lines<Odd<kCounting>>);
    if (failed == 0) failed = prepare_kernel(&message_lines<OddLarge<kCounting>>);
    return failed;
  });
}

}  // namespace collctl::kernels::cuda
