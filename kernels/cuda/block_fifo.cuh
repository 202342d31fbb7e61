// The verbs of kernels/block.h for one CUDA thread block, Simple and LL, over the same Fifo structs as the host.
// One block runs one Work; all its threads call every verb together. Roles in a slice: the first threads wait (one per
// peer: data, then free slots), all threads move, one thread publishes tails and heads.
// Counters and flags are polled with volatile loads and never without looking at the abort word and the deadline; a
// wait that gives up writes the Report, raises the abort word, and every later verb of the block does nothing.
// Ownership: fifos are the link's; this end's `step` is loaded when a block opens and stored when it closes.
#pragma once
#include "kernels/block.h"
#include "kernels/contract/report.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/slices.h"

namespace collctl::kernels::cuda {

struct DeviceContext {
  uint32_t* abort_word;    // host memory mapped on the device: nonzero = give up
  Report* report;          // this block's, in pinned host memory
  long long timeout_ns;    // of a wait without progress
};

__device__ inline uint64_t load_volatile(const uint64_t* p) { return *reinterpret_cast<const volatile uint64_t*>(p); }
__device__ inline void store_volatile(uint64_t* p, uint64_t v) { *reinterpret_cast<volatile uint64_t*>(p) = v; }
__device__ inline long long clock_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return static_cast<long long>(t);
}

// A set of threads of the block with a named barrier of its own (tree split has two).
struct Workers {
  int index, count, barrier;
  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory"); }
  // A barrier that tells every thread whether any of them said yes: the only way to decide together.
  __device__ bool sync_or(bool mine) const {
    uint32_t any;
    asm volatile(
        "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, q; }"
        : "=r"(any)
        : "r"(uint32_t(mine)), "r"(barrier), "r"(count)
        : "memory");
    return any != 0;
  }
};

struct LlLine {
  uint32_t low, flag_low, high, flag_high;
};
static_assert(sizeof(LlLine) == 16);

template <DataType kType, RedOp kOp, Protocol kProtocol>
class FifoBackend {
  using E = Element<kType>;
  using T = typename E::Storage;
  using A = typename E::Accumulator;
  using Op = Operator<kOp>;

 public:
  __device__ FifoBackend(const Work& work, const ChannelLinks& links, const DeviceContext& context, Workers workers)
      : work_(work), links_(links), context_(context), workers_(workers) {}

  // The same for all threads: it changes at barriers only.
  __device__ bool failed() const { return failed_; }

  __device__ void copy(const void* from, void* to, uint64_t n) {
    if (from == to) return;
    const T* source = static_cast<const T*>(from);
    T* target = static_cast<T*>(to);
    for (uint64_t i = workers_.index; i < n; i += workers_.count) target[i] = source[i];
  }

  template <int kFanIn, int kFanOut, class Body>
  __device__ void block(const BlockSpec& spec, Body body) {
    Block<kFanIn, kFanOut> b(*this, spec);
    body(b);
    b.close();
  }

  // Warps are divided: half to each part for Simple, about 70 to 30 for LL, as reducing costs more than sending.
  template <class Up, class Down>
  __device__ void split(Up up, Down down) {
    const int warps = workers_.count / 32;
    int up_warps = kProtocol == Protocol::simple ? warps / 2 : warps * 7 / 10;
    if (up_warps < 1) up_warps = 1;
    const int up_threads = up_warps * 32;
    const bool is_up = workers_.index < up_threads;
    const Workers part = is_up ? Workers{workers_.index, up_threads, 1}
                               : Workers{workers_.index - up_threads, workers_.count - up_threads, 2};
    FifoBackend half(work_, links_, context_, part);
    half.failed_ = failed_;
    if (is_up)
      up(half);
    else
      down(half);
    failed_ = workers_.sync_or(half.failed_);
  }

  template <int kFanIn, int kFanOut>
  class Block {
   public:
    __device__ Block(FifoBackend& owner, const BlockSpec& spec)
        : owner_(owner), input_(static_cast<const T*>(spec.input)), output_(static_cast<T*>(spec.output)) {
      for (int i = 0; i < kFanIn; ++i)
        if (i < kMaxFanIn && spec.recv[i] >= 0) in_[in_count_++] = owner.links_.recv[slot_of(spec.recv[i])];
      for (int i = 0; i < kFanOut; ++i)
        if (i < kMaxFanOut && spec.send[i] >= 0) out_[out_count_++] = owner.links_.send[slot_of(spec.send[i])];
      for (int i = 0; i < in_count_; ++i) in_step_[i] = in_[i]->step;
      for (int i = 0; i < out_count_; ++i) out_step_[i] = out_[i]->step;
      owner.workers_.sync();  // nobody may store a step at the end before all have loaded it
    }
    __device__ void close() {
      owner_.workers_.sync();
      if (owner_.workers_.index != 0) return;
      for (int i = 0; i < in_count_; ++i) in_[i]->step = in_step_[i];
      for (int i = 0; i < out_count_; ++i) out_[i]->step = out_step_[i];
    }

    __device__ void send(uint64_t in, uint64_t n) { move<false, true, false, true>(input_ + in, nullptr, n, false); }
    __device__ void send_from_output(uint64_t out, uint64_t n) {
      move<false, true, false, true>(output_ + out, nullptr, n, false);
    }
    __device__ void copy_send(uint64_t in, uint64_t out, uint64_t n) {
      move<false, true, true, true>(input_ + in, output_ + out, n, false);
    }
    __device__ void recv(uint64_t out, uint64_t n) { move<true, false, true, false>(nullptr, output_ + out, n, false); }
    __device__ void recv_send(uint64_t n) { move<true, false, false, true>(nullptr, nullptr, n, false); }
    __device__ void recv_copy_send(uint64_t out, uint64_t n) {
      move<true, false, true, true>(nullptr, output_ + out, n, false);
    }
    __device__ void recv_reduce(uint64_t in, uint64_t out, uint64_t n, bool post) {
      move<true, true, true, false>(input_ + in, output_ + out, n, post);
    }
    __device__ void recv_reduce_send(uint64_t in, uint64_t n) {
      move<true, true, false, true>(input_ + in, nullptr, n, false);
    }
    __device__ void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n, bool post) {
      move<true, true, true, true>(input_ + in, output_ + out, n, post);
    }

   private:
    static __device__ int slot_of(int peer) { return peer * kProtocolCount + static_cast<int>(kProtocol); }

    // One chunk: sources are the in-slots (kRecv) and `from` (kLocal); targets are `to` (kKeep) and the out-slots (kSend).
    template <bool kRecv, bool kLocal, bool kKeep, bool kSend>
    __device__ void move(const T* from, T* to, uint64_t n, bool post) {
      const Fifo* any = kRecv && in_count_ > 0 ? in_[0] : out_count_ > 0 ? out_[0] : nullptr;
      const uint64_t room = any == nullptr ? n * sizeof(T) : slot_data_bytes(any->slot_bytes, kProtocol);
      const Slices slices = cut_into_slices(n, sizeof(T), room);
      for (uint64_t s = 0; s < slices.count; ++s) {
        const uint64_t at = s * slices.elements_each;
        const uint64_t count = n - at < slices.elements_each ? n - at : slices.elements_each;
        if (owner_.failed()) return;
        wait_slots<kRecv, kSend>();
        if (owner_.failed()) return;
        if constexpr (kProtocol == Protocol::simple)
          move_simple<kRecv, kLocal, kKeep, kSend>(from + at, to + at, count, post);
        else
          move_ll<kRecv, kLocal, kKeep, kSend>(from + at, to + at, count, post);
        publish<kRecv, kSend>(count);
      }
    }

    // Threads 0..in-1 wait for data (Simple; LL data announces itself), the next ones for free slots.
    template <bool kRecv, bool kSend>
    __device__ void wait_slots() {
      const int t = owner_.workers_.index;
      if (kRecv && kProtocol == Protocol::simple && t < in_count_)
        owner_.wait_above(in_[t], in_[t]->tail, in_step_[t], WaitSide::recv, in_step_[t]);
      if (kSend && t >= kMaxFanIn && t - kMaxFanIn < out_count_) {
        const int o = t - kMaxFanIn;
        // The slot is free when head + slot_count > step.
        if (out_step_[o] >= out_[o]->slot_count)
          owner_.wait_above(out_[o], out_[o]->head, out_step_[o] - out_[o]->slot_count, WaitSide::send, out_step_[o]);
      }
      owner_.failed_ = owner_.workers_.sync_or(owner_.gave_up_);
    }

    template <bool kRecv, bool kLocal, bool kKeep, bool kSend>
    __device__ void move_simple(const T* from, T* to, uint64_t count, bool post) {
      const T* sources[kMaxFanIn + 1];
      T* targets[kMaxFanOut];
      for (int i = 0; i < in_count_; ++i) sources[i] = reinterpret_cast<const T*>(slot(in_[i], in_step_[i]));
      for (int i = 0; i < out_count_; ++i) targets[i] = reinterpret_cast<T*>(slot(out_[i], out_step_[i]));
      constexpr int kPack = 16 / sizeof(T);
      const bool aligned = (!kLocal || reinterpret_cast<uintptr_t>(from) % 16 == 0) &&
                           (!kKeep || reinterpret_cast<uintptr_t>(to) % 16 == 0);
      const uint64_t packs = aligned ? count / kPack : 0;
      for (uint64_t p = owner_.workers_.index; p < packs; p += owner_.workers_.count)
        move_pack<kRecv, kLocal, kKeep, kSend>(sources, targets, from, to, p, post);
      for (uint64_t i = packs * kPack + owner_.workers_.index; i < count; i += owner_.workers_.count)
        move_one<kRecv, kLocal, kKeep, kSend>(sources, targets, from, to, i, post);
    }

    template <bool kRecv, bool kLocal, bool kKeep, bool kSend>
    __device__ void move_pack(const T* const* sources, T* const* targets, const T* from, T* to, uint64_t p, bool post) {
      union Pack {
        uint4 wide;
        T one[16 / sizeof(T)];
      };
      Pack value, other;
      A sum[16 / sizeof(T)];
      bool first = true;
      const auto add = [&](const Pack& v) {
        for (int e = 0; e < int(16 / sizeof(T)); ++e)
          sum[e] = first ? E::widen(v.one[e]) : Op::apply(sum[e], E::widen(v.one[e]));
        first = false;
      };
      constexpr bool kReduce = kRecv && kLocal;
      if constexpr (kLocal) value.wide = reinterpret_cast<const uint4*>(from)[p];
      if constexpr (kReduce) add(value);
      for (int i = 0; kRecv && i < in_count_; ++i) {
        other.wide = load_pack(reinterpret_cast<const uint4*>(sources[i]) + p);
        if constexpr (kReduce)
          add(other);
        else
          value = other;
      }
      if constexpr (kReduce)
        for (int e = 0; e < int(16 / sizeof(T)); ++e)
          value.one[e] = E::narrow(post ? Op::finish(sum[e], owner_.work_.nranks) : sum[e]);
      if constexpr (kKeep) reinterpret_cast<uint4*>(to)[p] = value.wide;
      for (int i = 0; kSend && i < out_count_; ++i) reinterpret_cast<uint4*>(targets[i])[p] = value.wide;
    }

    template <bool kRecv, bool kLocal, bool kKeep, bool kSend>
    __device__ void move_one(const T* const* sources, T* const* targets, const T* from, T* to, uint64_t at, bool post) {
      constexpr bool kReduce = kRecv && kLocal;
      T value{};
      A sum{};
      if constexpr (kLocal) value = from[at], sum = E::widen(value);
      for (int i = 0; kRecv && i < in_count_; ++i) {
        const T got = *reinterpret_cast<const volatile T*>(sources[i] + at);
        if constexpr (kReduce)
          sum = Op::apply(sum, E::widen(got));
        else
          value = got;
      }
      if constexpr (kReduce) value = E::narrow(post ? Op::finish(sum, owner_.work_.nranks) : sum);
      if constexpr (kKeep) to[at] = value;
      for (int i = 0; kSend && i < out_count_; ++i) targets[i][at] = value;
    }

    // LL: each thread owns whole lines of 8 data bytes; user buffers of any alignment go element by element.
    template <bool kRecv, bool kLocal, bool kKeep, bool kSend>
    __device__ void move_ll(const T* from, T* to, uint64_t count, bool post) {
      constexpr int kPerLine = 8 / sizeof(T);
      constexpr bool kReduce = kRecv && kLocal;
      union Data {
        uint32_t word[2];
        T one[kPerLine];
      };
      const uint64_t lines = (count + kPerLine - 1) / kPerLine;
      for (uint64_t l = owner_.workers_.index; l < lines; l += owner_.workers_.count) {
        const int have = count - l * kPerLine < kPerLine ? int(count - l * kPerLine) : kPerLine;
        Data value{}, got{};
        A sum[kPerLine];
        if constexpr (kLocal)
          for (int e = 0; e < have; ++e) value.one[e] = from[l * kPerLine + e], sum[e] = E::widen(value.one[e]);
        for (int i = 0; kRecv && i < in_count_; ++i) {
          const auto* line = reinterpret_cast<const LlLine*>(slot(in_[i], in_step_[i])) + l;
          if (!owner_.read_line(in_[i], line, uint32_t(in_step_[i] + 1), in_step_[i], got.word)) return;
          if constexpr (kReduce) {
            for (int e = 0; e < have; ++e) sum[e] = Op::apply(sum[e], E::widen(got.one[e]));
          } else {
            value = got;
          }
        }
        if constexpr (kReduce)
          for (int e = 0; e < have; ++e) value.one[e] = E::narrow(post ? Op::finish(sum[e], owner_.work_.nranks) : sum[e]);
        if constexpr (kKeep)
          for (int e = 0; e < have; ++e) to[l * kPerLine + e] = value.one[e];
        for (int i = 0; kSend && i < out_count_; ++i)
          store_line(reinterpret_cast<LlLine*>(slot(out_[i], out_step_[i])) + l, value.word, uint32_t(out_step_[i] + 1));
      }
      // Near the wrap of the 32-bit flag, lines that this slice leaves unused would keep flags that match again 2^32
      // steps later: give them a current one.
      if constexpr (kSend)
        for (int i = 0; i < out_count_; ++i)
          if ((out_step_[i] & 0x7ffffff8) == 0x7ffffff8)
            for (uint64_t l = lines + owner_.workers_.index; l < out_[i]->slot_bytes / sizeof(LlLine);
                 l += owner_.workers_.count) {
              const uint32_t none[2] = {0, 0};
              store_line(reinterpret_cast<LlLine*>(slot(out_[i], out_step_[i])) + l, none, uint32_t(out_step_[i] + 1));
            }
    }

    // After all threads have moved their share: one thread makes it visible and frees what was read.
    template <bool kRecv, bool kSend>
    __device__ void publish(uint64_t count) {
      owner_.failed_ = owner_.workers_.sync_or(owner_.gave_up_);
      if (owner_.workers_.index == 0 && !owner_.failed()) {
        if constexpr (kSend) {
          if constexpr (kProtocol == Protocol::simple) __threadfence_system();  // data before tail
          for (int i = 0; i < out_count_; ++i) {
            if (out_[i]->records != nullptr) {
              const uint64_t lines = (count * sizeof(T) + 7) / 8;
              out_[i]->records[out_step_[i] % out_[i]->slot_count].bytes =
                  uint32_t(kProtocol == Protocol::simple ? count * sizeof(T) : lines * sizeof(LlLine));
              __threadfence_system();
            }
            if (kProtocol == Protocol::simple || (out_[i]->flags & kFifoProxyReads) != 0)
              store_volatile(out_[i]->tail, out_step_[i] + 1);
          }
        }
        if constexpr (kRecv)
          for (int i = 0; i < in_count_; ++i) store_volatile(in_[i]->head, in_step_[i] + 1);
      }
      if constexpr (kRecv)
        for (int i = 0; i < in_count_; ++i) ++in_step_[i];
      if constexpr (kSend)
        for (int i = 0; i < out_count_; ++i) ++out_step_[i];
    }

    static __device__ uint8_t* slot(const Fifo* f, uint64_t step) {
      return f->slots + (step % f->slot_count) * f->slot_bytes;
    }
    // Slots are written by others while this kernel runs: never through a stale L1 line.
    static __device__ uint4 load_pack(const uint4* p) {
      uint4 v;
      asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
      return v;
    }
    static __device__ void store_line(LlLine* line, const uint32_t (&word)[2], uint32_t flag) {
      asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(line), "r"(word[0]), "r"(flag), "r"(word[1]),
                   "r"(flag)
                   : "memory");
    }

    FifoBackend& owner_;
    const T* input_;
    T* output_;
    Fifo* in_[kFanIn > 0 ? kFanIn : 1] = {};
    Fifo* out_[kFanOut > 0 ? kFanOut : 1] = {};
    uint64_t in_step_[kFanIn > 0 ? kFanIn : 1] = {};
    uint64_t out_step_[kFanOut > 0 ? kFanOut : 1] = {};
    int in_count_ = 0, out_count_ = 0;
  };

 private:
  // Waits until *counter > step. Ends by the value, the abort word or the deadline.
  __device__ void wait_above(const Fifo* fifo, const uint64_t* counter, uint64_t above, WaitSide side, uint64_t step) {
    uint64_t seen = load_volatile(counter);
    if (seen > above) return;
    const long long start = clock_ns();
    for (int spins = 0; seen <= above; ++spins) {
      if (spins % 1024 == 1023 && give_up(fifo, side, step, seen, above + 1, start)) return;
      seen = load_volatile(counter);
    }
  }

  __device__ bool read_line(const Fifo* fifo, const LlLine* line, uint32_t flag, uint64_t step, uint32_t (&word)[2]) {
    LlLine v;
    long long start = 0;
    for (int spins = 0;; ++spins) {
      asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.low), "=r"(v.flag_low), "=r"(v.high), "=r"(v.flag_high)
                   : "l"(line));
      if (v.flag_low == flag && v.flag_high == flag) break;
      if (spins == 0) start = clock_ns();
      if (spins % 1024 == 1023 && give_up(fifo, WaitSide::recv, step, v.flag_low, flag, start)) return false;
    }
    word[0] = v.low;
    word[1] = v.high;
    return true;
  }

  // True when the work is given up: somebody raised the abort word, or this wait took too long.
  __device__ bool give_up(const Fifo* fifo, WaitSide side, uint64_t step, uint64_t seen, uint64_t wanted, long long start) {
    const bool aborted = *reinterpret_cast<volatile uint32_t*>(context_.abort_word) != 0;
    const bool late = clock_ns() - start > context_.timeout_ns;
    if (!aborted && !late) return false;
    if (atomicCAS(reinterpret_cast<unsigned*>(&context_.report->code), 0u,
                  unsigned(late && !aborted ? ReportCode::timeout : ReportCode::aborted)) == 0u) {
      Report& r = *context_.report;
      r.side = side;
      r.rank = work_.rank;
      r.peer = fifo->peer;
      r.channel = work_.channel;
      r.protocol = kProtocol;
      r.algorithm = work_.algorithm;
      r.collective = work_.collective;
      r.step = step;
      r.seen = seen;
      r.wanted = wanted;
      r.op_count = work_.op_count;
    }
    gave_up_ = true;
    if (late) *reinterpret_cast<volatile uint32_t*>(context_.abort_word) = 1;
    __threadfence_system();
    return true;
  }

  const Work& work_;
  const ChannelLinks& links_;
  const DeviceContext& context_;
  Workers workers_;
  bool gave_up_ = false;  // this thread's own wait ended without its value
  bool failed_ = false;   // any thread's, agreed on at a barrier
};

}  // namespace collctl::kernels::cuda
