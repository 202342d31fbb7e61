// Machine: executes recorded schedules on symbolic data, slice by slice, through fifos of bounded
// depth, and stops when none can continue. Used by interpret.cc only; one thread; the schedules
// belong to the caller and outlive it. Bounded: every slice moves once, a fifo holds slot_count.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/record/interpret.h"
#include "kernels/record/value.h"

namespace collctl::kernels {

// One part of one rank's work: what a backend gives its own workers.
struct Agent {
  int rank, channel, part;
  uint64_t element_bytes;
  const std::vector<Event>* events;
  size_t at = 0;       // event
  uint64_t slice = 0;  // of that event

  bool done() const { return at == events->size(); }
};

class Machine {
 public:
  Machine(std::span<const Schedule> schedules, const Wires& wires, int nranks);

  // Runs until all is done, none can move, or something is wrong. With `held` >= 0 that agent
  // stops before its event `held_at`.
  void run(int held = -1, size_t held_at = 0);

  const std::vector<Agent>& agents() const { return agents_; }
  const std::vector<Memory>& memories() const { return memories_; }
  void forget_scratch(std::span<const Schedule> schedules);  // nobody's output
  const std::string& wrong() const { return wrong_; }
  bool finished() const;
  std::string leftover() const;  // a fifo that still holds slices, in words
  void describe_deadlock(Proof& proof) const;
  void measure(Proof& proof) const;

 private:
  struct Slot {
    uint64_t bytes = 0;
    Pieces pieces;
  };
  struct Pipe {
    int from, to, channel;
    int producer = -1, consumer = -1;  // agents that own the ends
    uint64_t tail = 0, head = 0;
    std::vector<Slot> slots;
  };
  // Data that is staged in a bank, and the ranks that have read it since. `visible` and `ordered`
  // are numbers of arrivals: who has waited for that many may read, or may write over it.
  struct Staged {
    uint64_t begin, end, visible;
  };
  struct Read {
    uint64_t begin, end, ordered;
    int reader;
  };
  struct Range {
    uint64_t begin, end;
  };
  struct Bank {
    Memory data;
    std::vector<Staged> staged;
    std::vector<Read> reads;
    std::vector<Range> unread;  // staged and not read yet
  };
  struct WindowPart {  // of one rank on one channel
    uint64_t arrivals = 0, waited = 0;
    std::vector<uint64_t> pieces;  // bytes of each
    std::vector<Bank> banks;
    bool wasted = false;  // some piece staged what no rank read
  };
  struct Wait {
    int peer = -1;
    bool for_data = false;
  };

  bool advance(int agent);
  bool check_peers(int agent, const Event& event);
  Wait waits_for(const Agent& agent, const Event& event) const;
  void move_slice(const Agent& agent, const Event& event, uint64_t offset, uint64_t bytes);
  bool finish(const Agent& agent, const Event& event);
  bool gather_sources(const Agent& agent, const Event& event, uint64_t offset, uint64_t bytes);
  void deliver(const Agent& agent, const Event& event, uint64_t offset, uint64_t bytes);
  // machine_window.cc
  bool advance_window(Agent& agent, const Event& event);
  void next_piece(const Agent& agent, const Event& event);
  bool read_window(const Agent& agent, const Event& event, int owner, Pieces& to);
  static void mark_read(Bank& bank, uint64_t begin, uint64_t end);
  void stage_moving(const Agent& agent, const Event& event);
  void reduce_window(const Agent& agent, const Event& event);
  int unarrived_peer(const Agent& agent) const;
  WindowPart& part(int channel, int rank) {
    return window_[static_cast<size_t>(channel * nranks_ + rank)];
  }
  Bank& bank(WindowPart& part) { return part.banks[(part.pieces.size() - 1) % part.banks.size()]; }
  int pipe_index(int channel, int from, int to);
  const Pipe* find_pipe(int channel, int from, int to) const;
  Pipe& pipe(int channel, int from, int to) {
    return pipes_[static_cast<size_t>(pipe_index(channel, from, to))];
  }
  void fail(const Agent& agent, const std::string& what);
  std::string where(const Agent& agent) const;

  Wires wires_;
  int nranks_;
  std::vector<Agent> agents_;
  std::vector<Memory> memories_;
  std::vector<int32_t> pipe_of_;  // [(channel * n + from) * n + to], -1 for none yet
  std::vector<Pipe> pipes_;
  std::vector<WindowPart> window_;  // [channel * n + rank]
  Pieces moving_;                   // the slice in flight, reused
  std::string wrong_;
  int held_ = -1;
  size_t held_at_ = 0;
  uint64_t slices_ = 0;
  uint32_t hops_ = 0;
  std::vector<uint64_t> sent_elements_, sends_, receives_;  // by rank
};

}  // namespace collctl::kernels
