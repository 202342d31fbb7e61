#include "kernels/record/value.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace collctl::kernels {
namespace {

std::string rank_list(uint64_t ranks) {
  std::string text;
  for (int r = 0; r < 64; ++r)
    if (ranks >> r & 1) text += format("{}{}", text.empty() ? "" : ",", r);
  return text.empty() ? "no rank" : "rank " + text;
}

Value moved_on(Value value, uint64_t bytes) {
  value.index += bytes;
  return value;
}

std::string add_value(Value& acc, const Value& add, uint64_t element_bytes) {
  if (acc.index != add.index)
    return format("adds {} to {}", describe(add, element_bytes), describe(acc, element_bytes));
  if ((acc.ranks & add.ranks) != 0)
    return format("the contribution of {} to element {} is added twice",
                  rank_list(acc.ranks & add.ranks), acc.index / element_bytes);
  if (acc.posted || add.posted)
    return format("adds to element {} after its final form was written", acc.index / element_bytes);
  acc.ranks |= add.ranks;
  acc.hops = std::max(acc.hops, add.hops);
  return {};
}

}  // namespace

std::string describe(const Value& value, uint64_t element_bytes) {
  return format("element {} of {}{}", value.index / element_bytes, rank_list(value.ranks),
                value.posted ? " in final form" : "");
}

void Memory::cut(uint64_t address) {
  auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return;
  auto& [begin, piece] = *std::prev(after);
  if (begin == address || begin + piece.bytes <= address) return;
  const uint64_t kept = address - begin;
  pieces_.emplace_hint(after, address,
                       Piece{piece.bytes - kept, moved_on(piece.value, kept), piece.written});
  piece.bytes = kept;
}

bool Memory::write(uint64_t address, const Piece& piece) {
  if (piece.bytes == 0) return true;
  bool first = true;
  cut(address);
  cut(address + piece.bytes);
  auto at = pieces_.lower_bound(address);
  while (at != pieces_.end() && at->first < address + piece.bytes) {
    first = first && !at->second.written;
    at = pieces_.erase(at);
  }
  pieces_.emplace_hint(at, address, piece);
  return first;
}

void Memory::forget(uint64_t address, uint64_t bytes) {
  cut(address);
  cut(address + bytes);
  pieces_.erase(pieces_.lower_bound(address), pieces_.lower_bound(address + bytes));
}

bool Memory::read(uint64_t address, uint64_t bytes, Pieces& out) const {
  auto at = pieces_.upper_bound(address);
  if (at == pieces_.begin()) return bytes == 0;
  --at;
  while (bytes > 0) {
    if (at == pieces_.end() || address < at->first) return false;
    const uint64_t skip = address - at->first;
    if (skip >= at->second.bytes) return false;
    const uint64_t taken = std::min(bytes, at->second.bytes - skip);
    out.push_back({taken, moved_on(at->second.value, skip), false});
    address += taken;
    bytes -= taken;
    ++at;
  }
  return true;
}

std::string Memory::difference(const Memory& wanted, uint64_t element_bytes) const {
  auto have = pieces_.begin();
  auto want = wanted.pieces_.begin();
  uint64_t have_used = 0, want_used = 0;  // bytes of the two pieces that were compared already
  while (have != pieces_.end() || want != wanted.pieces_.end()) {
    const bool extra = want == wanted.pieces_.end() ||
                       (have != pieces_.end() && have->first + have_used < want->first + want_used);
    const bool absent =
        !extra && (have == pieces_.end() || want->first + want_used < have->first + have_used);
    if (extra)
      return format("holds {} where nothing may be written",
                    describe(moved_on(have->second.value, have_used), element_bytes));
    const Value wants = moved_on(want->second.value, want_used);
    if (absent) return format("has no {}", describe(wants, element_bytes));
    const Value has = moved_on(have->second.value, have_used);
    if (!has.same_data(wants))
      return format("holds {} instead of {}", describe(has, element_bytes),
                    describe(wants, element_bytes));
    const uint64_t both = std::min(have->second.bytes - have_used, want->second.bytes - want_used);
    have_used += both;
    want_used += both;
    if (have_used == have->second.bytes) ++have, have_used = 0;
    if (want_used == want->second.bytes) ++want, want_used = 0;
  }
  return {};
}

std::string add_pieces(Pieces& acc, const Pieces& add, uint64_t element_bytes) {
  size_t a = 0;
  uint64_t used = 0;  // bytes of add[b] that are in already
  for (size_t b = 0; b < add.size();) {
    COLL_CHECK_NOTE(a < acc.size(), "pieces of unequal length");
    const uint64_t left = add[b].bytes - used;
    if (acc[a].bytes > left) {
      const Piece tail{acc[a].bytes - left, moved_on(acc[a].value, left), false};
      acc[a].bytes = left;
      acc.insert(acc.begin() + static_cast<std::ptrdiff_t>(a) + 1, tail);
    }
    if (std::string bad = add_value(acc[a].value, moved_on(add[b].value, used), element_bytes);
        !bad.empty())
      return bad;
    used += acc[a].bytes;
    ++a;
    if (used == add[b].bytes) ++b, used = 0;
  }
  return {};
}

}  // namespace collctl::kernels
