// The kernel of messages: what a launch carries, and how many threads it takes.
#include <cuda_runtime.h>

#include "kernels/algo/pairwise.h"
#include "kernels/cuda/multiprocessors.cuh"
#include "kernels/cuda/prepare.cuh"
#include "kernels/cuda/verbs/sendrecv.cuh"

namespace collctl::kernels::cuda {
namespace {

Fifo* known_fifo(Fifo* const* table, int peer, Protocol protocol) {
  return table == nullptr || peer < 0 ? nullptr : table[peer * kProtocolCount + int(protocol)];
}

// `rounds`: of the work, in host memory, or null.
SendRecvBlock block_of(const WorksLaunch& launch, const Work& work, const PairStep* rounds) {
  SendRecvBlock block{};
  block.step_count = work.pair_count;
  block.rank = work.rank;
  block.channel = work.channel;
  block.steps = work.pairs;
  block.has_only = rounds != nullptr && work.pair_count == 1;
  if (!block.has_only) return block;
  block.only = *rounds;
  block.recv = nullptr;
  if (launch.host_links == nullptr) return block;
  const ChannelLinks& links = launch.host_links[work.channel];
  block.send = known_fifo(links.send, rounds->send_peer, work.protocol);
  block.recv = known_fifo(links.recv, rounds->recv_peer, work.protocol);
  return block;
}

// The bytes that each side's largest message moves.
struct Largest {
  uint64_t sent = 0, received = 0;
};
Largest largest_of(const WorksLaunch& launch) {
  const PairStep* round = launch.host_pairs;
  if (round == nullptr) return {~uint64_t(0), ~uint64_t(0)};
  Largest largest;
  for (int w = 0; w < launch.work_count; ++w) {
    const uint64_t element = element_size(launch.works[w].type);
    for (uint32_t k = 0; k < launch.works[w].pair_count; ++k, ++round) {
      if (round->send_peer >= 0) largest.sent = max(largest.sent, round->send_count * element);
      if (round->recv_peer >= 0)
        largest.received = max(largest.received, round->recv_count * element);
    }
  }
  return largest;
}

constexpr uint64_t kApartBytes = 64 << 10;  // of a block's message, both ways

// Warps that move on a side: as many as have two rounds of their own to do.
constexpr uint64_t kWarpBytes[kProtocolCount] = {8 << 10, 512, 1920};
int warps_for(uint64_t bytes, Protocol protocol, int most) {
  if (bytes == 0) return 0;
  const uint64_t useful = bytes / kWarpBytes[int(protocol)] + 1;
  return int(min(useful, uint64_t(most)));
}

// In one block, receives wait behind stores that the link does not take yet.
bool goes_apart(const WorksLaunch& launch, const Largest& largest) {
  return launch.protocol == Protocol::simple && largest.sent >= kApartBytes &&
         largest.received >= kApartBytes && 2 * launch.work_count <= multiprocessors();
}

SendRecvHead head_of(const WorksLaunch& launch) {
  const Work& first = launch.works[0];
  const Largest largest = largest_of(launch);
  SendRecvHead head{};
  head.shared = launch.shared;
  head.op_count = first.op_count;
  head.element_bytes = element_size(first.type);
  head.chunk_bytes = first.chunk_count * head.element_bytes;
  head.collective = first.collective;
  head.apart = goes_apart(launch, largest);
  const int most = max(1, min(launch.threads / (2 * kWarp), kMostPairWarps));
  head.send_warps = uint8_t(warps_for(largest.sent, launch.protocol, most));
  head.recv_warps = uint8_t(warps_for(largest.received, launch.protocol, most));
  return head;
}

const void* kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return address_of(sendrecv_kernel<Protocol::ll>);
    case Protocol::ll128:
      return address_of(sendrecv_kernel<Protocol::ll128>);
    default:
      return address_of(sendrecv_kernel<Protocol::simple>);
  }
}

bool same_kind(const Work& a, const Work& b) {
  return a.op_count == b.op_count && a.chunk_count == b.chunk_count && a.type == b.type &&
         a.collective == b.collective;
}

}  // namespace

bool sendrecv_serves(const WorksLaunch& launch) {
  if (launch.work_count > kMostPairBlocks || !one_work_a_channel(launch)) return false;
  for (int w = 0; w < launch.work_count; ++w) {
    const Work& work = launch.works[w];
    if (work.algorithm != AlgorithmId::pairwise || work.chunk_count == 0 ||
        (kPairwiseServes & collective_bit(work.collective)) == 0 ||
        !same_kind(work, launch.works[0]))
      return false;
  }
  return true;
}

int launch_sendrecv(const WorksLaunch& launch) {
  SendRecvCall call;
  call.head = head_of(launch);
  const auto group = [](int warps) { return warps > 0 ? warps + 1 : 0; };
  const int senders = group(call.head.send_warps), receivers = group(call.head.recv_warps);
  const int warps = call.head.apart ? max(senders, receivers) : senders + receivers;
  if (warps == 0) return cudaSuccess;  // no message has a byte
  const PairStep* rounds = launch.host_pairs;
  for (int w = 0; w < launch.work_count; ++w) {
    call.blocks[w] = block_of(launch, launch.works[w], rounds);
    if (rounds != nullptr) rounds += launch.works[w].pair_count;
  }
  void* arguments[] = {&call};
  const int blocks = launch.work_count * (call.head.apart ? 2 : 1);
  const void* const kernel = kernel_of(launch.protocol);
  // Large messages gain nothing by it, and came out slower (PERFORMANCE.md).
  if (call.head.apart)
    return cudaLaunchKernel(kernel, dim3(unsigned(blocks)), dim3(unsigned(warps * kWarp)),
                            arguments, 0, static_cast<cudaStream_t>(launch.stream));
  return launch_overlapping(kernel, blocks, warps * kWarp, launch.stream, arguments);
}

int prepare_sendrecv() {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128})
    if (const int failed = prepare_kernel(kernel_of(protocol))) return failed;
  return cudaSuccess;
}

}  // namespace collctl::kernels::cuda
