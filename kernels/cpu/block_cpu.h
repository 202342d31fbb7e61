// The Backend of kernels/block.h on host threads: blocks over fifos with protocols Simple and LL.
// Byte based: what depends on the element type is one function pointer. Made by run_work() on its
// stack; every object is used by one thread (a split gives its second part a backend of its own).
#pragma once
#include <utility>

#include "base/check.h"
#include "kernels/block.h"
#include "kernels/cpu/cpu_work.h"
#include "kernels/cpu/fifo_end.h"
#include "kernels/cpu/shared_cpu.h"
#include "kernels/cpu/wait.h"
#include "kernels/cpu/window_cpu.h"
#include "kernels/slices.h"

namespace collctl::kernels {

// A message to a peer that can read this process's memory is lent: its chunks are so large, each is
// one step, and the work ends when all were read.
inline constexpr uint64_t kLentBytes = 4 << 20;
// Where a proxy sends out of any memory, a slice from here on. The work ends when it was sent.
// Likewise what a proxy can receive into any memory.
inline constexpr uint64_t kLentSliceBytes = 16 << 10;
// Waits until what the work has lent was read; takes it back where the work failed.
void end_lending(CpuWork& work);

struct Line;

class CpuBlock {
 public:
  CpuBlock(CpuWork& work, const BlockSpec& spec);
  ~CpuBlock();
  CpuBlock(const CpuBlock&) = delete;
  CpuBlock& operator=(const CpuBlock&) = delete;

  void send(uint64_t in, uint64_t n) { move({.in = input(in), .send = true}, n); }
  void send_from_output(uint64_t out, uint64_t n) { move({.in = output(out), .send = true}, n); }
  void copy_send(uint64_t in, uint64_t out, uint64_t n) {
    move({.in = input(in), .out = output(out), .send = true}, n);
  }
  void recv(uint64_t out, uint64_t n) { move({.out = output(out), .receive = true}, n); }
  void recv_send(uint64_t n) { move({.receive = true, .send = true}, n); }
  void recv_copy_send(uint64_t out, uint64_t n) {
    move({.out = output(out), .receive = true, .send = true}, n);
  }
  void recv_reduce(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move({.in = input(in), .out = output(out), .divisor = divisor(post), .receive = true}, n);
  }
  void recv_reduce_send(uint64_t in, uint64_t n) {
    move({.in = input(in), .receive = true, .send = true}, n);
  }
  void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n, bool post) {
    move({.in = input(in),
          .out = output(out),
          .divisor = divisor(post),
          .receive = true,
          .send = true},
         n);
  }

  // For works by Simple with a mark: elements of a chunk of a message of n elements that is sent,
  // and of the one that comes next (after a wait for its first slice): the work's chunk_count, or
  // more where it is lent.
  uint64_t send_chunk(uint64_t n);
  uint64_t recv_chunk();
  // Chunks that may be sent before the first is received.
  uint64_t send_ahead() const { return lends_ ? send_[0].fifo->slot_count : 1; }

 private:
  // A verb: what it reads and writes besides slots. With `receive` and `in` it reduces.
  struct Motion {
    const uint8_t* in = nullptr;
    uint8_t* out = nullptr;
    uint32_t divisor = 1;
    bool receive = false;
    bool send = false;
  };

  const uint8_t* input(uint64_t element) const { return input_ + element * work_.element_bytes; }
  uint8_t* output(uint64_t element) const { return output_ + element * work_.element_bytes; }
  uint32_t divisor(bool post) const { return post ? work_.post_divisor : 1; }

  void move(const Motion& motion, uint64_t n);
  void lend(const uint8_t* from, uint64_t bytes);
  bool may_lend_slices() const;
  bool wait_until_sent();
  bool lends_slice(const Motion& motion, uint64_t bytes) const;
  void put_lent(FifoEnd& end, const uint8_t* from, uint64_t bytes);
  bool borrow(uint8_t* to, uint64_t bytes);
  bool has_halves() const;
  bool wants_places(const Motion& motion) const;
  static bool is_placed(const FifoEnd& end);
  void place_slices(uint8_t* to, uint64_t bytes, uint64_t each);
  bool move_simple_slice(const Motion& motion, uint64_t bytes);
  bool move_ll_slice(const Motion& motion, uint64_t bytes);
  bool move_ll_piece(const Motion& motion, uint64_t at, uint64_t bytes, FaultKind fault);
  void combine(const Motion& motion, const void* const* received, int received_count,
               void* const* destinations, int destination_count, uint64_t bytes, FaultKind fault);
  void combine_and_stream(const Motion& motion, const void* const* received, int received_count,
                          void* const* destinations, int destination_count, uint64_t bytes);
  bool has_size(const FifoEnd& end, uint64_t bytes);
  bool wrong_size(const FifoEnd& end, uint64_t sent, uint64_t due);
  bool unreadable(const FifoEnd& end, int error);
  bool has_due_lines(const FifoEnd& end);
  bool wait_for_data(FifoEnd& end);
  bool wait_for_slot(FifoEnd& end);
  bool unpack(FifoEnd& end, uint64_t at, uint8_t* to, uint64_t bytes);
  bool wait_for_line(FifoEnd& end, Line* line, uint64_t& data);
  void publish(FifoEnd& end, uint32_t wire_bytes, bool announce);
  void release(FifoEnd& end);
  FaultKind due_fault(const Motion& motion);

  CpuWork& work_;
  const uint8_t* input_;
  uint8_t* output_;
  uint64_t slot_data_bytes_ = 0;  // 0 without fifos
  int recv_count_ = 0, send_count_ = 0;
  bool lends_ = false, borrows_ = false;
  FifoEnd recv_[kMaxFanIn];
  FifoEnd send_[kMaxFanOut];
};

class CpuBackend {
 public:
  explicit CpuBackend(CpuWork& work) : work_(work) {}

  template <int kFanIn, int kFanOut, class Body>
  void block(const BlockSpec& spec, Body&& body) {
    static_assert(kFanIn <= kMaxFanIn && kFanOut <= kMaxFanOut);
    if (failed()) return;
    CpuBlock b(work_, spec);
    body(b);
  }

  static constexpr bool kWindows = true;
  template <class Body>
  void window(const WindowSpec& spec, Body&& body) {
    if (failed()) return;
    CpuWindow w(work_, spec);
    body(w);
  }

  static constexpr bool kLends = true;

  static constexpr bool kShared = true;
  template <class Body>
  void shared(Body&& body) {
    if (failed()) return;
    CpuShared s(work_);
    body(s);
  }

  // `down` runs on a helper thread while `up` runs here.
  template <class Up, class Down>
  void split(Up&& up, Down&& down) {
    COLL_CHECK_NOTE(work_.context.helpers != nullptr, "a split needs a pool of helpers");
    HelperPool::Ticket ticket = work_.context.helpers->run([this, &down] {
      CpuBackend part(work_);
      down(part);
    });
    up(*this);
    ticket.wait();
  }

  void copy(const void* from, void* to, uint64_t n) {
    if (!failed() && n > 0) copy_to_all(from, &to, 1, n * work_.element_bytes);
  }
  bool failed() const { return work_.failed(); }

 private:
  CpuWork& work_;
};

}  // namespace collctl::kernels
