// The Backend of kernels/block.h for one CUDA thread block. One block runs one Work at a time; all
// its threads call every verb together. Byte based: the algorithms are compiled once a protocol,
// and what depends on the type and the operation is a loop that is called once a slice.
//
// Mover is the protocol: kProtocol, kPoster, move(team, ends, motion, bytes) for one slice and
// close(team, ends), see simple.cuh and line_slices.cuh.
#pragma once
#include "kernels/cuda/verbs/block_window.cuh"
#include "kernels/cuda/verbs/fifo_ends.cuh"
#include "kernels/cuda/verbs/simple_loops.cuh"

namespace collctl::kernels::cuda {

template <class Mover>
class FifoBlock {
 public:
  __device__ __noinline__ FifoBlock(Team& team, const BlockSpec& spec)
      : team_(team),
        input_(static_cast<const uint8_t*>(spec.input)),
        output_(static_cast<uint8_t*>(spec.output)),
        element_bytes_(element_size(team.work().type)),
        divisor_(team.work().op == RedOp::avg ? uint32_t(team.work().nranks) : 1) {
    ends_.open(team, spec, Mover::kProtocol);
  }
  __device__ __noinline__ void close() {
    mover_.close(team_, ends_);
    ends_.close(team_);
  }

  __device__ void send(uint64_t in, uint64_t n) { move({.in = input(in), .send = true}, n); }
  __device__ void send_from_output(uint64_t out, uint64_t n) {
    move({.in = output(out), .send = true}, n);
  }
  __device__ void copy_send(uint64_t in, uint64_t out, uint64_t n) {
    uint8_t* const to = input(in) == output(out) ? nullptr : output(out);
    move({.in = input(in), .out = to, .send = true}, n);
  }
  __device__ void recv(uint64_t out, uint64_t n) { move({.out = output(out), .receive = true}, n); }
  __device__ void recv_send(uint64_t n) { move({.receive = true, .send = true}, n); }
  __device__ void recv_copy_send(uint64_t out, uint64_t n) {
    move({.out = output(out), .receive = true, .send = true}, n);
  }
  __device__ void recv_reduce(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move({.in = input(in), .out = output(out), .divisor = divisor(post), .receive = true}, n);
  }
  __device__ void recv_reduce_send(uint64_t in, uint64_t n) {
    move({.in = input(in), .receive = true, .send = true}, n);
  }
  __device__ void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move({.in = input(in),
          .out = output(out),
          .divisor = divisor(post),
          .receive = true,
          .send = true},
         n);
  }

 private:
  __device__ const uint8_t* input(uint64_t element) const {
    return input_ + element * element_bytes_;
  }
  __device__ uint8_t* output(uint64_t element) const { return output_ + element * element_bytes_; }
  __device__ uint32_t divisor(bool post) const { return post ? divisor_ : 1; }

  // A chunk, slice by slice. Out of line: every verb of every algorithm uses it.
  __device__ __noinline__ void move(const Motion& motion, uint64_t n) {
    if (n == 0 || team_.failed()) return;
    if (motion.in == nullptr && ends_.in_count == 0) return;  // nothing is received
    uint64_t left = n * element_bytes_;
    uint64_t each = left;
    // Most small operations fit, and divisions of 64 bits are slow.
    if (ends_.slot_data_bytes > 0 && left > ends_.slot_data_bytes)
      each =
          cut_into_slices(n, element_bytes_, ends_.slot_data_bytes).elements_each * element_bytes_;
    Motion slice = motion;
#pragma unroll 1
    while (left > 0) {
      const uint64_t bytes = left < each ? left : each;
      mover_.move(team_, ends_, slice, bytes);
      if (team_.failed()) return;
      left -= bytes;
      if (slice.in != nullptr) slice.in += bytes;
      if (slice.out != nullptr) slice.out += bytes;
    }
  }

  Team& team_;
  const uint8_t* input_;
  uint8_t* output_;
  const uint32_t element_bytes_, divisor_;
  FifoEnds ends_;
  Mover mover_;
};

// Present where a backend has windows: for Simple only, as the line protocols have their own
// kernels for them.
template <bool kHas>
struct HasWindows {};
template <>
struct HasWindows<true> {
  static constexpr bool kWindows = true;
};

template <class Mover>
class FifoBackend : public HasWindows<Mover::kProtocol == Protocol::simple> {
 public:
  __device__ explicit FifoBackend(Team& team) : team_(team) {}

  __device__ bool failed() const { return team_.failed(); }

  __device__ __noinline__ void copy(const void* from, void* to, uint64_t n) {
    if (n == 0 || from == to || team_.failed() || team_.is_poster()) return;
    LoopArguments a{};
    a.first = static_cast<const uint8_t*>(from);
    a.kept = static_cast<uint8_t*>(to);
    a.bytes = n * element_size(team_.work().type);
    a.index = team_.index;
    a.count = team_.movers;
    copy_loop(a);
  }

  template <int kFanIn, int kFanOut, class Body>
  __device__ void block(const BlockSpec& spec, Body body) {
    if (team_.failed()) return;
    FifoBlock<Mover> b(team_, spec);
    body(b);
    b.close();
  }

  // Warps are divided: half to each part for Simple, about 70 to 30 for the lines, as reducing
  // costs more than sending. Both parts have at least two warps with a poster, one without.
  template <class Up, class Down>
  __device__ void split(Up up, Down down) {
    if (team_.failed()) return;
    const int warps = team_.count / kWarp;
    const int up_warps = Mover::kPoster ? warps / 2 : (warps * 7 + 9) / 10;
    const int up_threads = (up_warps < warps ? up_warps : warps - 1) * kWarp;
    const bool is_up = team_.index < up_threads;
    Team part(team_.block(), team_.shared(), is_up ? 1 : 2,
              is_up ? team_.index : team_.index - up_threads,
              is_up ? up_threads : team_.count - up_threads, Mover::kPoster);
    FifoBackend half(part);
    if (is_up)
      up(half);
    else
      down(half);
    if (part.failed()) team_.fail();
    team_.sync();
  }

  template <class Body>
  __device__ void window(const WindowSpec& spec, Body body) {
    if (team_.failed()) return;
    WindowBlock w(team_, *team_.links().window, spec);
    body(w);
    w.close();
  }

 private:
  Team& team_;
};

}  // namespace collctl::kernels::cuda
