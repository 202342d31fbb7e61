// The stages of window-test about what moves: put, get, signal, barrier, and their order.
#include <algorithm>

#include "base/format.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {

namespace {

constexpr uint64_t kSlack = 64;             // for offsets that are not aligned
constexpr uint64_t kWindowOfAll = 8 << 20;  // the stripes of all writers together
constexpr int kOrderRounds = 100, kBarrierRounds = 50;
// Signals of these stages.
constexpr int kData = 0, kTaken = 1;

uint64_t stripe_of(int ranks) {
  return std::clamp<uint64_t>(kWindowOfAll / uint64_t(ranks) / 4096 * 4096, 4096, 128 << 10);
}

}  // namespace

// Many sizes at odd offsets to every rank, each with a signal; the owner looks when it has come,
// the writer gets them back.
Status WindowTest::moves(WindowFindings& found) {
  const uint64_t stripe = stripe_of(size());
  COLL_ASSIGN(Memory memory, make(stripe * uint64_t(size())));
  std::vector<uint8_t> buffer(stripe), back(stripe);
  const uint64_t mine = stripe * uint64_t(rank());
  uint64_t round = 0;
  for (const uint64_t asked :
       {uint64_t(1), uint64_t(3), uint64_t(8), uint64_t(63), uint64_t(4033), stripe - kSlack})
    for (const uint64_t offset : {uint64_t(0), uint64_t(1), uint64_t(13)}) {
      ++round;
      const uint64_t bytes = std::min(asked, stripe - kSlack);
      const auto piece = std::span(buffer).first(bytes), returned = std::span(back).first(bytes);
      for (int peer = 0; peer < size(); ++peer) {
        fill_pattern(piece, {peer, rank(), round}, mine + offset);
        COLL_TRY(one_sided_->put_signal({memory.window, peer, mine + offset}, piece.data(), bytes,
                                        kData, deadline()));
      }
      for (int peer = 0; peer < size(); ++peer) {
        COLL_TRY(one_sided_->wait(peer, kData, 1, deadline()));
        const uint64_t at = stripe * uint64_t(peer) + offset;
        COLL_TRY(read(static_cast<const uint8_t*>(memory.address) + at, piece));
        found.compare(piece, {rank(), peer, round}, at, size(),
                      format("a put of {} bytes by rank {}", bytes, peer));
        COLL_TRY(one_sided_->get({memory.window, peer, mine + offset}, returned.data(), bytes,
                                 deadline()));
        found.compare(returned, {peer, rank(), round}, mine + offset, size(),
                      format("a get of {} bytes from rank {}", bytes, peer));
      }
      COLL_TRY(barrier());
    }
  return give_back({&memory, 1});
}

// Torn-store test of every path: data, then a signal, again and again at the same place. A rank
// that has the signal must see this round's data and nothing of the round before.
Status WindowTest::ordering(WindowFindings& found) {
  const uint64_t stripe = std::min<uint64_t>(stripe_of(size()), 4096);
  COLL_ASSIGN(Memory memory, make(stripe * uint64_t(size())));
  std::vector<uint8_t> buffer(stripe);
  const uint64_t mine = stripe * uint64_t(rank());
  for (int round = 1; round <= kOrderRounds; ++round) {
    const auto key = uint64_t(round);
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      fill_pattern(buffer, {peer, rank(), key}, mine);
      COLL_TRY(one_sided_->put_signal({memory.window, peer, mine}, buffer.data(), stripe, kData,
                                      deadline()));
    }
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() - step + size()) % size();
      COLL_TRY(one_sided_->wait(peer, kData, 1, deadline()));
      const uint64_t at = stripe * uint64_t(peer);
      COLL_TRY(read(static_cast<const uint8_t*>(memory.address) + at, buffer));
      found.compare(buffer, {rank(), peer, key}, at, size(),
                    format("round {}: the signal of rank {} ({}) arrived before its data", round,
                           peer, one_sided_->path(peer)));
      COLL_TRY(one_sided_->signal(peer, kTaken));
    }
    // Nobody writes again before it was looked at.
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) COLL_TRY(one_sided_->wait(peer, kTaken, 1, deadline()));
  }
  COLL_TRY(barrier());
  return give_back({&memory, 1});
}

// Behind a barrier everything that anybody put before it is in place. Two words by turns: who is
// behind barrier k + 1 knows that all have looked at the words of barrier k.
Status WindowTest::barriers(WindowFindings& found) {
  const uint64_t line = 2 * sizeof(uint64_t);
  COLL_ASSIGN(Memory memory, make(line * uint64_t(size())));
  std::vector<uint64_t> words(size_t(size()) * 2);
  for (int round = 1; round <= kBarrierRounds; ++round) {
    const auto number = uint64_t(round);
    const uint64_t bank = number % 2 * sizeof(uint64_t);
    for (int peer = 0; peer < size(); ++peer)
      COLL_TRY(one_sided_->put({memory.window, peer, line * uint64_t(rank()) + bank}, &number,
                               sizeof number, deadline()));
    COLL_TRY(barrier());
    COLL_TRY(
        read(memory.address, {reinterpret_cast<uint8_t*>(words.data()), line * words.size() / 2}));
    found.looked();
    for (int writer = 0; writer < size(); ++writer)
      if (const uint64_t seen = words[size_t(writer) * 2 + number % 2]; seen != number)
        found.fail(ErrorCode::bad_data, writer,
                   format("behind barrier {} the number of rank {} is {}", round, writer, seen));
  }
  COLL_TRY(barrier());
  return give_back({&memory, 1});
}

namespace {

constexpr uint64_t kLook = 16;  // bytes behind a wrong one that say whose they are
constexpr uint64_t kRoundsBack = 4;
constexpr int kMostOwners = 256;  // that are looked through

uint64_t mixed(uint64_t x) {  // the finalizer of splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t seed_of(const PatternKey& key) {
  return mixed(mixed(mixed(uint64_t(uint32_t(key.owner))) + uint32_t(key.writer)) + key.round);
}

uint64_t word_at(uint64_t seed, uint64_t word) {
  return mixed(seed + word);
}

uint8_t byte_at(uint64_t seed, uint64_t offset) {
  return uint8_t(word_at(seed, offset / 8) >> (offset % 8 * 8));
}

bool matches(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset) {
  const uint64_t seed = seed_of(key);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_at(seed, offset + i)) return false;
  return true;
}

// Enough bytes in a row that chance does not make them another's.
std::string whose(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset,
                  int ranks) {
  if (bytes.size() < 4) return "";
  if (std::ranges::all_of(bytes, [](uint8_t b) { return b == 0; }))
    return "nothing was written there";
  for (uint64_t back = 1; back <= std::min(key.round, kRoundsBack); ++back)
    if (matches(bytes, {key.owner, key.writer, key.round - back}, offset))
      return format("it is what rank {} wrote {} round{} before", key.writer, back,
                    back == 1 ? "" : "s");
  for (int owner = 0; owner < std::min(ranks, kMostOwners); ++owner) {
    if (matches(bytes, {owner, owner, key.round}, offset) && owner != key.owner)
      return format("it is in the window of rank {}", owner);
    if (matches(bytes, {owner, key.writer, key.round}, offset) && owner != key.owner)
      return format("it was meant for rank {}", owner);
    if (matches(bytes, {key.owner, owner, key.round}, offset) && owner != key.writer)
      return format("it is what rank {} wrote", owner);
  }
  return "";
}

}  // namespace

uint8_t pattern_byte(const PatternKey& key, uint64_t offset) {
  return byte_at(seed_of(key), offset);
}

void fill_pattern(std::span<uint8_t> bytes, const PatternKey& key, uint64_t offset) {
  const uint64_t seed = seed_of(key);
  size_t i = 0;
  for (; i < bytes.size() && (offset + i) % 8 != 0; ++i) bytes[i] = byte_at(seed, offset + i);
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = word_at(seed, (offset + i) / 8);
    for (size_t k = 0; k < 8; ++k) bytes[i + k] = uint8_t(word >> (k * 8));
  }
  for (; i < bytes.size(); ++i) bytes[i] = byte_at(seed, offset + i);
}

std::optional<PatternFault> compare_pattern(std::span<const uint8_t> bytes, const PatternKey& key,
                                            uint64_t offset, int ranks) {
  PatternFault fault;
  const uint64_t seed = seed_of(key);
  uint64_t word = 0, word_number = ~uint64_t(0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = offset + i;
    if (at / 8 != word_number) {
      word_number = at / 8;
      word = word_at(seed, word_number);
    }
    const auto expected = uint8_t(word >> (at % 8 * 8));
    if (bytes[i] == expected) continue;
    if (fault.bad_bytes++ == 0) {
      fault.offset = at;
      fault.expected = expected;
      fault.found = bytes[i];
    }
  }
  if (fault.bad_bytes == 0) return std::nullopt;
  const uint64_t first = fault.offset - offset;
  const uint64_t count = std::min<uint64_t>({kLook, bytes.size() - first, fault.bad_bytes});
  fault.whose = whose(bytes.subspan(first, count), key, fault.offset, ranks);
  return fault;
}

std::string text_of(const PatternFault& fault) {
  std::string text =
      format("byte {} is {:02x}, not {:02x} ({} byte{} wrong)", fault.offset, fault.found,
             fault.expected, fault.bad_bytes, fault.bad_bytes == 1 ? "" : "s");
  return fault.whose.empty() ? text : text + "; " + fault.whose;
}

}  // namespace collctl::cmd
