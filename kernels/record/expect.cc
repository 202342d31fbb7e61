#include "kernels/record/expect.h"

namespace collctl::kernels {
namespace {

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

// Elements of the input buffer that exist on this rank.
uint64_t input_elements(const Work& w) {
  switch (w.collective) {
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return w.count * static_cast<uint64_t>(w.nranks);
    case Collective::scatter:
      return w.rank == w.root ? w.count * static_cast<uint64_t>(w.nranks) : 0;
    case Collective::broadcast:
      return w.rank == w.root ? w.count : 0;
    default:
      return w.count;
  }
}

class Writer {
 public:
  Writer(const Work& work, Memory& memory) : work_(work), memory_(memory) {}

  // The work's part of the block that begins at element `out` of the output: what `ranks` have at
  // element `in` of their inputs.
  void part(uint64_t out, uint64_t ranks, uint64_t in, bool posted) {
    const uint64_t bytes = element_size(work_.type);
    Piece piece{work_.part_count * bytes, {}, false};
    piece.value.index = (in + work_.part_offset) * bytes;
    piece.value.ranks = ranks;
    piece.value.posted = posted && work_.nranks > 1;
    memory_.write(address_of(work_.output) + (out + work_.part_offset) * bytes, piece);
  }

 private:
  const Work& work_;
  Memory& memory_;
};

// send_recv has no meaning but its pairs: the k-th receive from a peer gets the peer's k-th send to
// this rank, on the same channel.
void write_receives(std::span<const Schedule> schedules, const Work& w, Memory& memory) {
  const uint64_t bytes = element_size(w.type);
  std::vector<uint32_t> taken(static_cast<size_t>(w.nranks), 0);
  for (uint32_t i = 0; i < w.pair_count; ++i) {
    const PairStep& mine = w.pairs[i];
    if (mine.recv_peer < 0 || mine.recv_count == 0) continue;
    for (const Schedule& other : schedules) {
      const Work& theirs = other.work;
      if (theirs.rank != mine.recv_peer || theirs.channel != w.channel) continue;
      uint32_t& skip = taken[static_cast<size_t>(mine.recv_peer)];
      uint32_t seen = 0;
      for (uint32_t k = 0; k < theirs.pair_count; ++k) {
        const PairStep& sent = theirs.pairs[k];
        if (sent.send_peer != w.rank || sent.send_count == 0 || seen++ != skip) continue;
        Piece piece{mine.recv_count * bytes, {}, false};
        piece.value.index = address_of(sent.send) - address_of(theirs.input);
        piece.value.ranks = uint64_t{1} << mine.recv_peer;
        memory.write(address_of(mine.recv), piece);
        ++skip;
        break;
      }
    }
  }
}

void write_outputs(std::span<const Schedule> schedules, const Work& w, Memory& memory) {
  Writer writer(w, memory);
  const uint64_t n = static_cast<uint64_t>(w.nranks), own = static_cast<uint64_t>(w.rank);
  const uint64_t all = n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  const uint64_t root = uint64_t{1} << w.root;
  switch (w.collective) {
    case Collective::all_reduce:
    case Collective::barrier:
      return writer.part(0, all, 0, true);
    case Collective::reduce_scatter:
      return writer.part(0, all, own * w.count, true);
    case Collective::reduce:
      if (w.rank == w.root) writer.part(0, all, 0, true);
      return;
    case Collective::broadcast:
      return writer.part(0, root, 0, false);
    case Collective::scatter:
      return writer.part(0, root, own * w.count, false);
    case Collective::gather:
      if (w.rank != w.root) return;
      [[fallthrough]];
    case Collective::all_gather:
      for (uint64_t q = 0; q < n; ++q) writer.part(q * w.count, uint64_t{1} << q, 0, false);
      return;
    case Collective::all_to_all:
      for (uint64_t q = 0; q < n; ++q)
        writer.part(q * w.count, uint64_t{1} << q, own * w.count, false);
      return;
    case Collective::send_recv:
      return write_receives(schedules, w, memory);
  }
}

}  // namespace

std::vector<Memory> inputs_of(std::span<const Schedule> schedules, int nranks) {
  std::vector<Memory> memories(static_cast<size_t>(nranks));
  for (const Schedule& s : schedules) {
    const Work& w = s.work;
    Memory& memory = memories[static_cast<size_t>(w.rank)];
    const auto put = [&](const void* from, uint64_t elements) {
      Piece piece{elements * element_size(w.type), {}, false};
      piece.value.index = address_of(from) - address_of(w.input);
      piece.value.ranks = uint64_t{1} << w.rank;
      memory.write(address_of(from), piece);
    };
    if (w.collective != Collective::send_recv) {
      put(w.input, input_elements(w));
      continue;
    }
    for (uint32_t i = 0; i < w.pair_count; ++i)
      if (w.pairs[i].send_peer >= 0) put(w.pairs[i].send, w.pairs[i].send_count);
  }
  return memories;
}

std::vector<Memory> outputs_of(std::span<const Schedule> schedules, int nranks) {
  std::vector<Memory> memories = inputs_of(schedules, nranks);
  for (const Schedule& s : schedules)
    write_outputs(schedules, s.work, memories[static_cast<size_t>(s.work.rank)]);
  return memories;
}

}  // namespace collctl::kernels
