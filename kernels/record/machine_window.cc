// Machine's verbs over windows: what is staged, who may read it, who may write over it.
#include <algorithm>

#include "base/format.h"
#include "kernels/record/machine.h"

namespace collctl::kernels {

// False when the agent waits, with its arrival made (agent.slice says so).
bool Machine::advance_window(Agent& agent, const Event& event) {
  WindowPart& own = part(agent.channel, agent.rank);
  if (event.verb != Verb::next_piece && own.pieces.empty()) {
    fail(agent, "uses a bank before the first piece");
    return false;
  }
  moving_.clear();
  switch (event.verb) {
    case Verb::next_piece:
      next_piece(agent, event);
      break;
    case Verb::arrive_and_wait:
      if (agent.slice == 0) {
        ++own.arrivals;
        agent.slice = 1;
      }
      if (unarrived_peer(agent) >= 0) return false;
      own.waited = own.arrivals;
      receives_[static_cast<size_t>(agent.rank)] += nranks_ > 1;
      break;
    case Verb::stage:
      if (event.n == 0) break;
      if (!memories_[static_cast<size_t>(agent.rank)].read(event.from,
                                                           event.n * agent.element_bytes, moving_))
        fail(agent, "reads elements that nobody has written");
      else if (finish(agent, event))
        stage_moving(agent, event);
      break;
    case Verb::copy_from_peer:
      if (event.n > 0 && read_window(agent, event, event.recv[0], moving_) && finish(agent, event))
        deliver(agent, {.verb = event.verb, .to = event.to, .n = event.n}, 0,
                event.n * agent.element_bytes);
      break;
    default:
      if (event.n > 0) reduce_window(agent, event);
  }
  slices_ += event.n > 0 && event.verb != Verb::next_piece;
  return wrong_.empty();
}

void Machine::next_piece(const Agent& agent, const Event& event) {
  WindowPart& own = part(agent.channel, agent.rank);
  const uint64_t bytes = event.n * agent.element_bytes;
  if (event.post) return fail(agent, "gives the final form to nothing");
  if (bytes > wires_.window_bytes)
    return fail(agent, format("a piece of {} bytes does not fit into a bank of {}", bytes,
                              wires_.window_bytes));
  own.pieces.push_back(bytes);
  const size_t number = own.pieces.size();
  for (int r = 0; r < nranks_; ++r) {
    const WindowPart& other = part(agent.channel, r);
    if (other.pieces.size() >= number && other.pieces[number - 1] != bytes)
      return fail(agent, format("a piece of {} bytes is one of {} on rank {}", bytes,
                                other.pieces[number - 1], r));
  }
  Bank& turned = bank(own);
  own.wasted = own.wasted || !turned.unread.empty();
  turned.unread.clear();
  turned.data = {};  // what is not staged anew is of an older piece
  turned.staged.clear();
  std::erase_if(turned.reads, [&](const Read& read) { return read.ordered <= own.waited; });
}

int Machine::unarrived_peer(const Agent& agent) const {
  const auto arrivals = [&](int rank) {
    return window_[static_cast<size_t>(agent.channel * nranks_ + rank)].arrivals;
  };
  for (int k = 1; k < nranks_; ++k) {
    const int peer = (agent.rank + k) % nranks_;
    if (arrivals(peer) < arrivals(agent.rank)) return peer;
  }
  return -1;
}

// Appends what the peer has staged there.
bool Machine::read_window(const Agent& agent, const Event& event, int owner, Pieces& to) {
  if (owner < 0 || owner >= nranks_ || owner == agent.rank) {
    fail(agent, format("rank {} is no peer", owner));
    return false;
  }
  const WindowPart& own = part(agent.channel, agent.rank);
  WindowPart& theirs = part(agent.channel, owner);
  Bank& source = theirs.banks[(own.pieces.size() - 1) % theirs.banks.size()];
  const uint64_t begin = event.at, end = begin + event.n * agent.element_bytes;
  for (const Staged& s : source.staged)
    if (s.begin < end && begin < s.end && s.visible > own.waited) {
      fail(agent, format("reads what rank {} staged and has not announced before arrival {}", owner,
                         own.waited));
      return false;
    }
  if (!source.data.read(begin, end - begin, to)) {
    fail(agent, format("reads what rank {} has not staged", owner));
    return false;
  }
  for (Piece& piece : to) hops_ = std::max(hops_, ++piece.value.hops);
  mark_read(source, begin, end);
  source.reads.push_back({begin, end, own.arrivals + 1, agent.rank});
  sent_elements_[static_cast<size_t>(owner)] += event.n;
  return true;
}

void Machine::mark_read(Bank& bank, uint64_t begin, uint64_t end) {
  std::vector<Range> left;
  for (const Range& r : bank.unread) {
    if (r.begin < std::min(begin, r.end)) left.push_back({r.begin, std::min(begin, r.end)});
    if (std::max(end, r.begin) < r.end) left.push_back({std::max(end, r.begin), r.end});
  }
  bank.unread = std::move(left);
}

void Machine::stage_moving(const Agent& agent, const Event& event) {
  if (!wrong_.empty()) return;
  WindowPart& own = part(agent.channel, agent.rank);
  Bank& target = bank(own);
  const uint64_t begin = event.at, end = begin + event.n * agent.element_bytes;
  if (end > own.pieces.back()) return fail(agent, "stages beyond the end of its piece");
  for (const Staged& s : target.staged)
    if (s.begin < end && begin < s.end)
      return fail(agent, "stages the same place of a piece a second time");
  for (const Read& read : target.reads)
    if (read.begin < end && begin < read.end && read.ordered > own.waited)
      return fail(agent, format("writes what rank {} may still read", read.reader));
  uint64_t address = begin;
  for (const Piece& piece : moving_) {
    target.data.write(address, piece);
    address += piece.bytes;
  }
  target.staged.push_back({begin, end, own.arrivals + 1});
  target.unread.push_back({begin, end});
}

// Own input and every peer's staged elements, in the order of ranks.
void Machine::reduce_window(const Agent& agent, const Event& event) {
  const uint64_t bytes = event.n * agent.element_bytes;
  if (event.recv[0] >= 0) return fail(agent, "names one peer where it reads all");
  for (int r = 0; r < nranks_; ++r) {
    Pieces add;
    if (r == agent.rank) {
      if (!memories_[static_cast<size_t>(r)].read(event.from, bytes, add))
        return fail(agent, "reads elements that nobody has written");
    } else if (!read_window(agent, event, r, add)) {
      return;
    }
    if (r == 0) {
      moving_ = std::move(add);
    } else if (std::string bad = add_pieces(moving_, add, agent.element_bytes); !bad.empty()) {
      return fail(agent, format("with what rank {} staged: {}", r, bad));
    }
  }
  if (!finish(agent, event)) return;
  deliver(agent, {.verb = event.verb, .from = event.from, .to = event.to, .n = event.n}, 0, bytes);
  if (event.verb == Verb::reduce_and_stage) stage_moving(agent, event);
}

}  // namespace collctl::kernels
