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

// Torn-store test of every path: data, then a signal, again and again at the same place. Who has
// the signal must see this round's data and nothing of the round before.
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

}  // namespace collctl::cmd
