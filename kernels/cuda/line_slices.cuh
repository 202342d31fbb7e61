// What LL and LL128 have in common: the data announces itself, so only free slots are waited for
// before a slice; all threads move, each looks for the flags of its own lines, and they meet
// behind.
//
// Lines is a protocol: kProtocol, wire_bytes(data bytes), Copy and Reduce<type, op>, each with
// run(LineArguments), called by all threads of the team.
#pragma once
#include "kernels/cuda/fifo_ends.cuh"
#include "kernels/cuda/lanes.cuh"

namespace collctl::kernels::cuda {

struct LineArguments {
  Team* team;
  const uint8_t* in;  // the caller's data, or null
  uint8_t* out;       // likewise
  int in_count, out_count;
  uint64_t bytes;  // of data
  Finish finish;

  __device__ const TeamScratch& scratch() const { return team->scratch; }
  __device__ const uint8_t* source(int i) const { return scratch().source[team->side()][i]; }
  __device__ uint64_t source_step(int i) const { return scratch().source_step[team->side()][i]; }
  __device__ uint8_t* target(int i) const { return scratch().target[team->side()][i]; }
  __device__ uint64_t target_step(int i) const { return scratch().target_step[team->side()][i]; }
  __device__ uint32_t target_fill(int i) const { return scratch().target_fill[team->side()][i]; }
  // For a thread that has waited for a line of source i since `start`: true when it must stop.
  __device__ bool gives_up(int i, uint64_t seen, uint64_t wanted, int64_t start) const {
    const WaitFor what{scratch().source_peer[team->side()][i], WaitSide::recv, source_step(i),
                       wanted};
    if (!team->give_up(what, seen, start)) return false;
    team->fail();
    return true;
  }
};

template <class Lines>
struct LineSlices {
  static constexpr Protocol kProtocol = Lines::kProtocol;
  static constexpr bool kPoster = false;

  __device__ void move(Team& team, FifoEnds& ends, const Motion& m, uint64_t bytes) {
    const bool receives = ends.receives(m), sends = ends.sends(m);
    if (receives) ends.offer_source(team, false);
    if (sends) ends.offer_target(team);
    team.sync();
    if (team.failed()) return;
    LineArguments a{};
    a.team = &team;
    a.in = m.in;
    a.out = m.out;
    a.in_count = m.receive ? ends.in_count : 0;
    a.out_count = m.send ? ends.out_count : 0;
    a.bytes = bytes;
    a.finish = {m.divisor, is_signed_integer(team.work().type)};
    if (m.in != nullptr && (a.in_count > 0 || m.divisor > 1))
      with_type_and_op<Lines::template Reduce>(team.work().type, team.work().op, a);
    else
      Lines::Copy::run(a);
    team.sync();
    if (team.failed()) return;
    if (sends) {
      if (ends.proxied()) {
        ends.record(ends.fills_slot() ? ends.slot_bytes() : Lines::wire_bytes(bytes));
        fence_system();
      }
      ends.publish();
    }
    if (receives) ends.release();
  }
  __device__ void close(Team&, FifoEnds&) {}
};

}  // namespace collctl::kernels::cuda
