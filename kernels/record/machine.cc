#include "kernels/record/machine.h"

#include <algorithm>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "kernels/record/expect.h"
#include "kernels/slices.h"

namespace collctl::kernels {

Machine::Machine(std::span<const Schedule> schedules, const Wires& wires, int nranks)
    : wires_(wires), nranks_(nranks), memories_(inputs_of(schedules, nranks)) {
  const size_t n = static_cast<size_t>(nranks);
  sent_elements_.resize(n);
  sends_.resize(n);
  receives_.resize(n);
  size_t channels = 0;
  for (const Schedule& s : schedules) {
    channels = std::max(channels, size_t{s.work.channel} + 1);
    for (size_t part = 0; part < s.parts.size(); ++part)
      agents_.push_back({s.work.rank, s.work.channel, static_cast<int>(part),
                         element_size(s.work.type), &s.parts[part]});
  }
  pipe_of_.assign(channels * n * n, -1);
  window_.resize(channels * n);
  for (WindowPart& part : window_) part.banks.resize(static_cast<size_t>(wires.window_banks));
}

int Machine::pipe_index(int channel, int from, int to) {
  int32_t& index = pipe_of_[static_cast<size_t>((channel * nranks_ + from) * nranks_ + to)];
  if (index < 0) {
    index = static_cast<int32_t>(pipes_.size());
    pipes_.push_back({from, to, channel, -1, -1, 0, 0, std::vector<Slot>(wires_.slot_count)});
  }
  return index;
}

const Machine::Pipe* Machine::find_pipe(int channel, int from, int to) const {
  const int32_t i = pipe_of_[static_cast<size_t>((channel * nranks_ + from) * nranks_ + to)];
  return i < 0 ? nullptr : &pipes_[static_cast<size_t>(i)];
}

void Machine::run(int held, size_t held_at) {
  held_ = held;
  held_at_ = held_at;
  for (bool moved = true; moved && wrong_.empty();) {
    moved = false;
    for (int a = 0; a < static_cast<int>(agents_.size()) && wrong_.empty(); ++a)
      moved = advance(a) || moved;
  }
}

bool Machine::advance(int index) {
  Agent& agent = agents_[static_cast<size_t>(index)];
  bool moved = false;
  while (!agent.done() && wrong_.empty()) {
    if (index == held_ && agent.at == held_at_) break;
    const Event& event = (*agent.events)[agent.at];
    if (uses_window(event.verb)) {
      const bool begun = agent.slice > 0;
      if (!advance_window(agent, event)) return moved || agent.slice > uint64_t{begun};
      moved = true;
      agent.slice = 0;
      ++agent.at;
      continue;
    }
    const Slices slices = cut_into_slices(event.n, static_cast<uint32_t>(agent.element_bytes),
                                          wires_.slot_data_bytes);
    if (agent.slice == 0 && !check_peers(index, event)) break;
    if (slices.count > 0) {
      if (waits_for(agent, event).peer >= 0) break;
      const uint64_t first = agent.slice * slices.elements_each;
      const uint64_t elements = std::min(slices.elements_each, event.n - first);
      move_slice(agent, event, first * agent.element_bytes, elements * agent.element_bytes);
      ++slices_;
    }
    moved = true;
    if (++agent.slice < slices.count) continue;
    if (slices.count > 0) {
      sends_[static_cast<size_t>(agent.rank)] += event.send[0] >= 0;
      receives_[static_cast<size_t>(agent.rank)] += event.recv[0] >= 0;
    }
    agent.slice = 0;
    ++agent.at;
  }
  return moved;
}

// Peers must exist, and an end of a fifo belongs to one part: two would steal each other's slices.
bool Machine::check_peers(int index, const Event& event) {
  const Agent& agent = agents_[static_cast<size_t>(index)];
  const auto claim = [&](int peer, bool sends) {
    if (peer < 0) return true;
    if (peer >= nranks_ || peer == agent.rank) {
      fail(agent, format("rank {} is no peer", peer));
      return false;
    }
    Pipe& p = sends ? pipe(agent.channel, agent.rank, peer) : pipe(agent.channel, peer, agent.rank);
    int& owner = sends ? p.producer : p.consumer;
    if (owner < 0) owner = index;
    if (owner == index) return true;
    fail(agent,
         format("another part of this rank uses the fifo {} rank {}", sends ? "to" : "from", peer));
    return false;
  };
  for (int peer : event.recv)
    if (!claim(peer, false)) return false;
  for (int peer : event.send)
    if (!claim(peer, true)) return false;
  return true;
}

// All in-slots and out-slots of the verb must be ready before anything moves (block.h).
Machine::Wait Machine::waits_for(const Agent& agent, const Event& event) const {
  if (event.verb == Verb::arrive_and_wait) return {unarrived_peer(agent), true};
  for (int peer : event.recv) {
    if (peer < 0) break;
    const Pipe* p = find_pipe(agent.channel, peer, agent.rank);
    if (p == nullptr || p->tail == p->head) return {peer, true};
  }
  for (int peer : event.send) {
    if (peer < 0) break;
    const Pipe* p = find_pipe(agent.channel, agent.rank, peer);
    if (p != nullptr && p->tail - p->head == wires_.slot_count) return {peer, false};
  }
  return {};
}

void Machine::move_slice(const Agent& agent, const Event& event, uint64_t offset, uint64_t bytes) {
  moving_.clear();
  if (!gather_sources(agent, event, offset, bytes) || !finish(agent, event)) return;
  deliver(agent, event, offset, bytes);
}

// Gives what moves its final form where the verb says so.
bool Machine::finish(const Agent& agent, const Event& event) {
  if (!event.post) return true;
  const uint64_t all = nranks_ == 64 ? ~uint64_t{0} : (uint64_t{1} << nranks_) - 1;
  for (Piece& piece : moving_) {
    if (piece.value.ranks != all || piece.value.posted) {
      fail(agent, "gives the final form to " + describe(piece.value, agent.element_bytes));
      return false;
    }
    piece.value.posted = true;
  }
  return true;
}

bool Machine::gather_sources(const Agent& agent, const Event& event, uint64_t offset,
                             uint64_t bytes) {
  const VerbShape shape = shape_of(event.verb);
  if (shape.reads &&
      !memories_[static_cast<size_t>(agent.rank)].read(event.from + offset, bytes, moving_)) {
    fail(agent, "reads elements that nobody has written");
    return false;
  }
  for (int peer : event.recv) {
    if (peer < 0) break;
    Pipe& p = pipe(agent.channel, peer, agent.rank);
    const Slot& slot = p.slots[p.head % wires_.slot_count];
    ++p.head;
    if (slot.bytes != bytes) {
      fail(agent, format("expects {} bytes from rank {}, but gets {}", bytes, peer, slot.bytes));
      return false;
    }
    if (moving_.empty()) {
      moving_ = slot.pieces;
    } else if (!shape.reads) {
      fail(agent, "receives from several peers without reducing");
      return false;
    } else if (std::string bad = add_pieces(moving_, slot.pieces, agent.element_bytes);
               !bad.empty()) {
      fail(agent, format("with what rank {} sent: {}", peer, bad));
      return false;
    }
  }
  if (moving_.empty()) fail(agent, "has neither input nor a peer to receive from");
  return !moving_.empty();
}

void Machine::deliver(const Agent& agent, const Event& event, uint64_t offset, uint64_t bytes) {
  const size_t rank = static_cast<size_t>(agent.rank);
  if (shape_of(event.verb).writes && !(event.verb == Verb::copy_send && event.from == event.to)) {
    uint64_t address = event.to + offset;
    // A sum may grow in place over several receives; nothing else is written twice.
    const bool grows = shape_of(event.verb).reads && event.from == event.to;
    for (const Piece& piece : moving_) {
      if (!memories_[rank].write(address, {piece.bytes, piece.value, true}) && !grows)
        return fail(agent, "writes elements of the output a second time");
      address += piece.bytes;
    }
  }
  for (int peer : event.send) {
    if (peer < 0) break;
    Pipe& p = pipe(agent.channel, agent.rank, peer);
    Slot& slot = p.slots[p.tail % wires_.slot_count];
    ++p.tail;
    slot.bytes = bytes;
    slot.pieces = moving_;
    for (Piece& piece : slot.pieces) hops_ = std::max(hops_, ++piece.value.hops);
    sent_elements_[rank] += bytes / agent.element_bytes;
  }
}

void Machine::forget_scratch(std::span<const Schedule> schedules) {
  for (const Schedule& s : schedules)
    if (const uint64_t bytes = scratch_bytes(s.work); bytes > 0)
      memories_[static_cast<size_t>(s.work.rank)].forget(
          reinterpret_cast<uintptr_t>(s.work.scratch), bytes);
}

bool Machine::finished() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const Agent& a) { return a.done(); });
}

std::string Machine::leftover() const {
  for (const Pipe& p : pipes_)
    if (p.tail != p.head)
      return format("{} slices that rank {} sent to rank {} on channel {} were never received",
                    p.tail - p.head, p.from, p.to, p.channel);
  for (size_t i = 0; i < window_.size(); ++i) {
    bool wasted = window_[i].wasted;
    for (const Bank& bank : window_[i].banks) wasted = wasted || !bank.unread.empty();
    if (wasted)
      return format("rank {} staged on channel {} what nobody read",
                    i % static_cast<size_t>(nranks_), i / static_cast<size_t>(nranks_));
  }
  return {};
}

void Machine::describe_deadlock(Proof& proof) const {
  constexpr int kMostNamed = 8;
  std::vector<int> next(static_cast<size_t>(nranks_), -1);
  int named = 0, blocked = 0, start = -1;
  for (const Agent& agent : agents_) {
    if (agent.done()) continue;
    const Wait wait = waits_for(agent, (*agent.events)[agent.at]);
    ++blocked;
    if (start < 0) start = agent.rank;
    if (next[static_cast<size_t>(agent.rank)] < 0)
      next[static_cast<size_t>(agent.rank)] = wait.peer;
    if (named++ < kMostNamed)
      proof.what += format("{}{} waits for {} rank {}", named == 1 ? "" : "; ", where(agent),
                           agent.done() || (*agent.events)[agent.at].verb != Verb::arrive_and_wait
                               ? (wait.for_data ? "data from" : "a free slot to")
                               : "the arrival of",
                           wait.peer);
  }
  if (blocked > kMostNamed) proof.what += format("; and {} more", blocked - kMostNamed);
  // Follow who waits for whom until a rank comes again: from there on it is the cycle.
  std::vector<int> path;
  for (int at = start; at >= 0; at = next[static_cast<size_t>(at)]) {
    const auto seen = std::find(path.begin(), path.end(), at);
    if (seen != path.end()) {
      proof.cycle.assign(seen, path.end());
      return;
    }
    path.push_back(at);
  }
}

void Machine::measure(Proof& proof) const {
  proof.sent_elements = sent_elements_;
  proof.slices = slices_;
  proof.steps = hops_;
  for (size_t r = 0; r < sends_.size(); ++r)
    proof.steps = std::max({proof.steps, sends_[r], receives_[r]});
}

std::string Machine::where(const Agent& agent) const {
  const char* verb = agent.done() ? "the end" : name_of((*agent.events)[agent.at].verb);
  return format("rank {} (channel {}, part {}, event {}: {}, slice {})", agent.rank, agent.channel,
                agent.part, agent.at, verb, agent.slice);
}

void Machine::fail(const Agent& agent, const std::string& what) {
  if (wrong_.empty()) wrong_ = where(agent) + " " + what;
}

}  // namespace collctl::kernels
