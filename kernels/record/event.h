// Event: one verb of one rank, written down. The recorder makes them, the interpreter and the
// locator read them. Values; addresses are plain numbers (bytes) and are never followed. Slices are
// not part of an event: they follow from n and the slot size (slices.h).
#pragma once
#include <cstdint>

#include "kernels/block.h"

namespace collctl::kernels {

enum class Verb : uint8_t {
  send,
  send_from_output,
  copy_send,
  recv,
  recv_send,
  recv_copy_send,
  recv_reduce,
  recv_reduce_send,
  recv_reduce_copy_send,
  copy,
  // Over a window (window_block.h).
  next_piece,
  stage,
  arrive_and_wait,
  reduce_from_peers,
  reduce_and_stage,
  copy_from_peer
};
inline constexpr int kVerbCount = 16;
constexpr bool uses_window(Verb verb) {
  return verb >= Verb::next_piece;
}
// It reads the window of every other rank; the event names none.
constexpr bool reads_all_peers(Verb verb) {
  return verb == Verb::reduce_from_peers || verb == Verb::reduce_and_stage;
}
const char* name_of(Verb verb);

struct Event {
  Verb verb = Verb::send;
  bool post = false;
  int32_t recv[kMaxFanIn] = {-1, -1, -1};  // peers, filled from the front, -1 for none
  int32_t send[kMaxFanOut] = {-1, -1, -1};
  uint64_t from = 0;  // address read here, when reads(verb)
  uint64_t to = 0;    // address written here, when writes(verb)
  uint64_t n = 0;     // elements
  uint64_t at = 0;    // over a window: bytes from the bank's begin
};

struct VerbShape {
  bool receives, reads, writes, sends;
};
constexpr VerbShape shape_of(Verb verb) {
  switch (verb) {
    case Verb::send:
    case Verb::send_from_output:
      return {false, true, false, true};
    case Verb::copy_send:
      return {false, true, true, true};
    case Verb::recv:
      return {true, false, true, false};
    case Verb::recv_send:
      return {true, false, false, true};
    case Verb::recv_copy_send:
      return {true, false, true, true};
    case Verb::recv_reduce:
      return {true, true, true, false};
    case Verb::recv_reduce_send:
      return {true, true, false, true};
    case Verb::recv_reduce_copy_send:
      return {true, true, true, true};
    case Verb::copy:
      return {false, true, true, false};
    case Verb::next_piece:
    case Verb::arrive_and_wait:
      return {false, false, false, false};
    case Verb::stage:
      return {false, true, false, false};
    case Verb::reduce_from_peers:
    case Verb::reduce_and_stage:
      return {true, true, true, false};
    case Verb::copy_from_peer:
      return {true, false, true, false};
  }
  return {};
}

// Receives the events of a work, in the order of each part. Part 0 is the work itself; a split puts
// its second half into a part of its own that runs beside the first.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void event(int part, const Event& event) = 0;
};

}  // namespace collctl::kernels
