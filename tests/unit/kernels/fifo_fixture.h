// Fifos and windows between rank threads of one process, so that a whole collective runs in
// milliseconds: every pair of ranks is connected for every channel, with Simple and LL, and every
// channel has a window. Used by the CPU backend's
// tests; the fixture owns all memory and outlives the threads it starts.
#pragma once
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cpu/launch.h"

namespace cpu_tests {

using namespace collctl::kernels;

struct Geometry {
  int nranks = 2;
  int channels = 1;
  uint32_t slot_count = 8;
  uint32_t slot_data_bytes = 256;  // of either protocol
  uint64_t first_step = 0;
  uint64_t window_bytes = 64 << 10;  // of a bank
};

// One one-way connection with both of its ends.
struct Connection {
  alignas(64) FifoCounters counters{};
  uint8_t* slots = nullptr;
  std::vector<SlotRecord> records;
  Fifo sender{}, receiver{};

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { std::free(slots); }

  void make(const Geometry& g, int from, int to, int channel, Protocol protocol) {
    const uint32_t slot_bytes = g.slot_data_bytes * (protocol == Protocol::ll ? 2 : 1);
    const size_t bytes = (size_t(slot_bytes) * g.slot_count + 63) / 64 * 64;
    slots = static_cast<uint8_t*>(std::aligned_alloc(64, bytes));
    std::fill(slots, slots + bytes, uint8_t(0));
    records.resize(g.slot_count);
    counters.tail = counters.head = g.first_step;
    sender.slots = slots;
    sender.tail = &counters.tail;
    sender.head = &counters.head;
    sender.consumer_sleeps = &counters.consumer_sleeps;
    sender.producer_sleeps = &counters.producer_sleeps;
    sender.records = records.data();
    sender.step = g.first_step;
    sender.slot_bytes = slot_bytes;
    sender.slot_count = g.slot_count;
    sender.bell_fd = -1;
    sender.channel = uint16_t(channel);
    sender.protocol = protocol;
    receiver = sender;
    sender.peer = to;
    receiver.peer = from;
  }
};

class FifoFixture {
 public:
  explicit FifoFixture(const Geometry& g) : geometry(g) {
    const size_t n = size_t(g.nranks), c = size_t(g.channels);
    make_windows();
    connections_.resize(c * n * n * kProtocolCount);
    send_.resize(c * n * n * kProtocolCount);
    recv_.resize(c * n * n * kProtocolCount);
    for (int channel = 0; channel < g.channels; ++channel)
      for (int from = 0; from < g.nranks; ++from)
        for (int to = 0; to < g.nranks; ++to)
          for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
            if (from == to) continue;
            auto& made = connections_[at(channel, from, to, protocol)];
            made = std::make_unique<Connection>();
            made->make(g, from, to, channel, protocol);
            send_[at(channel, from, to, protocol)] = &made->sender;
            recv_[at(channel, to, from, protocol)] = &made->receiver;
          }
  }
  ~FifoFixture() {
    join();
    std::free(window_memory_);
  }

  ChannelLinks links(int rank, int channel = 0) {
    return {&send_[at(channel, rank, 0, Protocol::simple)],
            &recv_[at(channel, rank, 0, Protocol::simple)], &window(rank, channel)};
  }
  Window& window(int rank, int channel = 0) {
    return windows_[size_t(channel) * size_t(geometry.nranks) + size_t(rank)];
  }
  Connection& connection(int from, int to, Protocol protocol, int channel = 0) {
    return *connections_[at(channel, from, to, protocol)];
  }
  CpuContext context() {
    CpuContext c;
    c.abort_word = &abort_word_;
    c.helpers = &helpers_;
    c.op_timeout_ns = 60'000'000'000;
    c.waiting = &waiting_;
    return c;
  }
  void abort() { std::atomic_ref<uint32_t>(abort_word_).store(1, std::memory_order_release); }
  // Starts body(rank) on a thread of its own; join() waits for all.
  void start(int rank, std::function<void(int)> body) {
    threads_.emplace_back([rank, body = std::move(body)] { body(rank); });
  }
  void join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }
  void run_all(const std::function<void(int)>& body) {
    for (int rank = 0; rank < geometry.nranks; ++rank) start(rank, body);
    join();
  }

  const Geometry geometry;

 private:
  size_t at(int channel, int rank, int peer, Protocol protocol) const {
    const size_t n = size_t(geometry.nranks);
    return ((size_t(channel) * n + size_t(rank)) * n + size_t(peer)) * kProtocolCount +
           size_t(protocol);
  }

  // Channel by channel: a rank's lines, then its banks.
  void make_windows() {
    const uint64_t lines = kWindowBanks * sizeof(WindowLine);
    const uint64_t each = lines + kWindowBanks * geometry.window_bytes;
    const uint64_t stride = uint64_t(geometry.channels) * each;
    const size_t bytes = size_t(geometry.nranks) * stride;
    window_memory_ = static_cast<uint8_t*>(std::aligned_alloc(64, bytes));
    std::fill(window_memory_, window_memory_ + bytes, uint8_t(0));
    for (int channel = 0; channel < geometry.channels; ++channel)
      for (int rank = 0; rank < geometry.nranks; ++rank) {
        const uint64_t begin = uint64_t(channel) * each;
        windows_.push_back({.base = window_memory_,
                            .stride = stride,
                            .lines = begin,
                            .banks = begin + lines,
                            .bank_bytes = geometry.window_bytes,
                            .arrivals = geometry.first_step,
                            .pieces = geometry.first_step,
                            .rank = rank,
                            .nranks = geometry.nranks});
      }
  }

  uint8_t* window_memory_ = nullptr;
  std::vector<Window> windows_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Fifo*> send_, recv_;
  alignas(64) uint32_t abort_word_ = 0;
  HelperPool helpers_;
  // Ranks outnumber the cores.
  collctl::base::WaitPolicy waiting_{collctl::base::WaitPolicy::fixed(2'000)};
  std::vector<std::thread> threads_;
};

}  // namespace cpu_tests
