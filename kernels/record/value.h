// Symbolic data of the interpreter: instead of numbers, a byte range holds whose input it is the
// sum of. Ranges that run on are kept as one piece, so the cost is per chunk and not per element.
// Used by interpret.cc only; one thread; values.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace collctl::kernels {

// The sum over `ranks` (bit r = rank r, exactly once each) of their inputs, beginning at byte
// `index` of each input buffer and running on from there.
struct Value {
  uint64_t index = 0;
  uint64_t ranks = 0;
  uint32_t hops = 0;    // transfers that had to follow one another to make it
  bool posted = false;  // got its final form

  bool same_data(const Value& other) const {
    return index == other.index && ranks == other.ranks && posted == other.posted;
  }
};
std::string describe(const Value& value, uint64_t element_bytes);

struct Piece {
  uint64_t bytes = 0;
  Value value;
  bool written = false;  // in memory: by the operation, not before it
};
using Pieces = std::vector<Piece>;

// The buffers of one rank: pieces by address. Bytes that were never written are absent.
class Memory {
 public:
  // False when some of these bytes were written by the operation before: then the order of two
  // writes would decide.
  bool write(uint64_t address, const Piece& piece);
  // Appends what [address, address + bytes) holds; false when some of it was never written.
  bool read(uint64_t address, uint64_t bytes, Pieces& out) const;
  void forget(uint64_t address, uint64_t bytes);
  // The first difference to `wanted` in words, empty when there is none; hops do not count.
  std::string difference(const Memory& wanted, uint64_t element_bytes) const;

 private:
  void cut(uint64_t address);  // no piece runs across `address` afterwards
  std::map<uint64_t, Piece> pieces_;
};

// acc += add, piece by piece. Empty when fine; else what is wrong: a contribution twice, elements
// that do not belong together, or a sum that had its final form already. Equal total length.
std::string add_pieces(Pieces& acc, const Pieces& add, uint64_t element_bytes);

}  // namespace collctl::kernels
