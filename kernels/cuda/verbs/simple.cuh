// Protocol Simple: data in bulk, announced by the tail. A slice: the threads that look after fifos
// wait (one per peer), all movers sync, move and go on; the poster warp fences and publishes behind
// them, so that a mover is at most one slice ahead of what is published.
#pragma once
#include "kernels/cuda/verbs/fifo_ends.cuh"
#include "kernels/cuda/verbs/simple_loops.cuh"

namespace collctl::kernels::cuda {

struct SimpleSlices {
  static constexpr Protocol kProtocol = Protocol::simple;
  static constexpr bool kPoster = true;

  // One slice, all threads of the team.
  __device__ void move(Team& team, FifoEnds& ends, const Motion& m, uint64_t bytes) {
    if (team.is_poster())
      post_behind(team, ends, m, bytes);
    else
      move_slice(team, ends, m, bytes);
  }
  // The last slices moved are published when nothing follows.
  __device__ void close(Team& team, FifoEnds& ends) {
    if (team.is_poster()) publish(ends);
  }

 private:
  static __device__ void move_slice(Team& team, FifoEnds& ends, const Motion& m, uint64_t bytes) {
    const bool receives = ends.receives(m), sends = ends.sends(m);
    if (receives) ends.offer_source(team, true);
    if (sends) ends.offer_target(team);
    team.sync();
    if (!team.failed()) {
      const uint8_t* const* sources = team.scratch.source[team.side()];
      LoopArguments a{};
      int received = m.receive ? ends.in_count : 0;
      if (m.in != nullptr) {
        a.first = m.in;
        a.others = sources;
        a.other_count = received;
      } else {
        a.first = received > 0 ? sources[0] : nullptr;
      }
      a.kept = m.out;
      a.targets = team.scratch.target[team.side()];
      a.target_count = m.send ? ends.out_count : 0;
      a.bytes = bytes;
      a.index = team.index;
      a.count = team.movers;
      a.finish = {m.divisor, is_signed_integer(team.work().type)};
      if (a.other_count > 0 || a.finish.divisor > 1)
        with_type_and_op<ReduceLoop>(team.work().type, team.work().op, a);
      else if (a.first != nullptr)
        copy_loop(a);
      if (receives || sends) ends.advance();
    }
    team.movers_arrive();
  }

  // Publishes the slice before while the movers are at this one.
  __device__ void post_behind(Team& team, FifoEnds& ends, const Motion& m, uint64_t bytes) {
    team.poster_arrives();
    publish(ends);
    team.poster_waits();
    if (team.failed()) return;
    receive_ = ends.receives(m);
    send_ = ends.sends(m);
    bytes_ = uint32_t(bytes);
  }
  __device__ void publish(FifoEnds& ends) {
    if (__any_sync(~0u, send_)) {
      if (send_) ends.record(bytes_);
      fence_system();
    }
    if (send_) ends.publish();
    if (receive_) ends.release();
    send_ = receive_ = false;
  }

  // State of the poster's lane: what it has yet to publish.
  bool send_ = false, receive_ = false;
  uint32_t bytes_ = 0;
};

}  // namespace collctl::kernels::cuda
