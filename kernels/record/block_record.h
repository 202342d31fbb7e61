// RecordBackend: the verbs of block.h as a record. Running an algorithm on it moves nothing; every
// verb becomes an Event for the sink. Used by record() and locate(); host only, in the caller's
// thread; the sink belongs to the caller and outlives the backend.
#pragma once
#include <cstdint>

#include "base/check.h"
#include "kernels/record/event.h"
#include "kernels/window_block.h"

namespace collctl::kernels {

class RecordBackend;

// One opened block: fills an event's peers and addresses in.
class RecordBlock {
 public:
  RecordBlock(RecordBackend& backend, const BlockSpec& spec) : backend_(backend), spec_(spec) {}

  void send(uint64_t in, uint64_t n) { put(Verb::send, in, 0, n); }
  void send_from_output(uint64_t out, uint64_t n) { put(Verb::send_from_output, out, 0, n); }
  void copy_send(uint64_t in, uint64_t out, uint64_t n) { put(Verb::copy_send, in, out, n); }
  void recv(uint64_t out, uint64_t n) { put(Verb::recv, 0, out, n); }
  void recv_send(uint64_t n) { put(Verb::recv_send, 0, 0, n); }
  void recv_copy_send(uint64_t out, uint64_t n) { put(Verb::recv_copy_send, 0, out, n); }
  void recv_reduce(uint64_t in, uint64_t out, uint64_t n, bool post) {
    put(Verb::recv_reduce, in, out, n, post);
  }
  void recv_reduce_send(uint64_t in, uint64_t n) { put(Verb::recv_reduce_send, in, 0, n); }
  void recv_reduce_copy_send(uint64_t in, uint64_t out, uint64_t n, bool post) {
    put(Verb::recv_reduce_copy_send, in, out, n, post);
  }

 private:
  void put(Verb verb, uint64_t in, uint64_t out, uint64_t n, bool post = false);

  RecordBackend& backend_;
  BlockSpec spec_;
};

// The verbs over a window, likewise.
class RecordWindow {
 public:
  RecordWindow(RecordBackend& backend, const WindowSpec& spec) : backend_(backend), spec_(spec) {}

  void next_piece(uint64_t n) { put(Verb::next_piece, 0, 0, 0, n); }
  void stage(uint64_t in, uint64_t at, uint64_t n) { put(Verb::stage, in, at, 0, n); }
  void arrive_and_wait() { put(Verb::arrive_and_wait, 0, 0, 0, 0); }
  void reduce_from_peers(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    put(Verb::reduce_from_peers, in, at, out, n, post);
  }
  void reduce_and_stage(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post) {
    put(Verb::reduce_and_stage, in, at, out, n, post);
  }
  void copy_from_peer(int peer, uint64_t at, uint64_t out, uint64_t n) {
    put(Verb::copy_from_peer, 0, at, out, n, false, peer);
  }

 private:
  void put(Verb verb, uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post = false,
           int peer = -1);

  RecordBackend& backend_;
  WindowSpec spec_;
};

class RecordBackend {
 public:
  RecordBackend(const Work& work, EventSink& sink, int part = 0)
      : sink_(sink), element_bytes_(element_size(work.type)), part_(part) {}

  template <int kFanIn, int kFanOut, class Body>
  void block(const BlockSpec& spec, Body body) {
    for (int i = kFanIn; i < kMaxFanIn; ++i) COLL_CHECK(spec.recv[i] < 0);
    for (int i = kFanOut; i < kMaxFanOut; ++i) COLL_CHECK(spec.send[i] < 0);
    RecordBlock b(*this, spec);
    body(b);
  }

  static constexpr bool kWindows = true;
  template <class Body>
  void window(const WindowSpec& spec, Body body) {
    RecordWindow w(*this, spec);
    body(w);
  }

  // Only as the whole of a work: then both halves start with it and end with it, and a schedule
  // needs no forks and joins.
  template <class Up, class Down>
  void split(Up up, Down down) {
    COLL_CHECK_NOTE(part_ == 0 && events_ == 0 && !divided_, "a split must be the whole work");
    up(*this);
    RecordBackend half(*this);
    half.part_ = 1;
    half.events_ = 0;
    down(half);
    divided_ = true;
  }

  void copy(const void* from, void* to, uint64_t n) {
    Event event;
    event.verb = Verb::copy;
    event.from = reinterpret_cast<uintptr_t>(from);
    event.to = reinterpret_cast<uintptr_t>(to);
    event.n = n;
    put(event);
  }
  bool failed() const { return false; }

  uint64_t element_bytes() const { return element_bytes_; }
  void put(const Event& event) {
    COLL_CHECK_NOTE(!divided_, "a split must be the whole work");
    ++events_;
    sink_.event(part_, event);
  }

 private:
  EventSink& sink_;
  uint64_t element_bytes_;
  uint64_t events_ = 0;
  int part_;
  bool divided_ = false;
};

inline void RecordBlock::put(Verb verb, uint64_t in, uint64_t out, uint64_t n, bool post) {
  const VerbShape shape = shape_of(verb);
  Event event;
  event.verb = verb;
  event.post = post;
  event.n = n;
  int peers = 0;
  for (int i = 0; shape.receives && i < kMaxFanIn; ++i)
    if (spec_.recv[i] >= 0) event.recv[peers++] = spec_.recv[i];
  peers = 0;
  for (int i = 0; shape.sends && i < kMaxFanOut; ++i)
    if (spec_.send[i] >= 0) event.send[peers++] = spec_.send[i];
  const void* source = verb == Verb::send_from_output ? spec_.output : spec_.input;
  if (shape.reads) event.from = reinterpret_cast<uintptr_t>(source) + in * backend_.element_bytes();
  if (shape.writes)
    event.to = reinterpret_cast<uintptr_t>(spec_.output) + out * backend_.element_bytes();
  backend_.put(event);
}

inline void RecordWindow::put(Verb verb, uint64_t in, uint64_t at, uint64_t out, uint64_t n,
                              bool post, int peer) {
  const VerbShape shape = shape_of(verb);
  const uint64_t bytes = backend_.element_bytes();
  Event event;
  event.verb = verb;
  event.post = post;
  event.n = n;
  event.recv[0] = peer;
  event.at = at * bytes;
  if (shape.reads) event.from = reinterpret_cast<uintptr_t>(spec_.input) + in * bytes;
  if (shape.writes) event.to = reinterpret_cast<uintptr_t>(spec_.output) + out * bytes;
  backend_.put(event);
}

}  // namespace collctl::kernels
