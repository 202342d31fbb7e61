#include "runtime/bootstrap/roll_call.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::runtime {
namespace {

enum class Kind : uint32_t { hello, card, answer };

constexpr uint32_t kRollTag = 0x57000000;
// A card sent before the deadline may still be in flight.
constexpr int64_t kLateMs = 50;
constexpr double kAnswerSeconds = 5;
constexpr uint32_t kMostCardBytes = 1 << 24;

uint32_t tag_of(uint32_t number, Kind kind) {
  return kRollTag | (number & 0x3fffff) << 2 | uint32_t(kind);
}

Error missing_error(const std::string& what, std::span<const int32_t> missing) {
  std::string list;
  for (size_t i = 0; i < missing.size() && i < 8; ++i)
    list += format("{}{}", i == 0 ? "" : ", ", missing[i]);
  if (missing.size() > 8) list += format(" and {} more", missing.size() - 8);
  return Error(ErrorCode::deadline,
               format("{}: rank{} {} did not arrive", what, missing.size() > 1 ? "s" : "", list),
               "all ranks of the communicator must make this call, in the same order")
      .blame(missing[0]);
}

bool is_late(const Error& error) {
  return error.code == ErrorCode::deadline;
}

// Rank 0's result: the missing ranks, or all cards.
Bytes answer_of(std::span<const int32_t> missing, const std::vector<Bytes>& cards) {
  ByteWriter w;
  w.put(uint32_t(missing.size()));
  for (const int32_t rank : missing) w.put(rank);
  if (missing.empty())
    for (const Bytes& card : cards) w.put_bytes(card);
  return w.take();
}

Result<std::vector<Bytes>> read_answer(ByteView answer, int size, const std::string& what) {
  ByteReader r(answer);
  std::vector<int32_t> missing(std::min<uint32_t>(r.get<uint32_t>(), uint32_t(size)));
  for (int32_t& rank : missing) rank = r.get<int32_t>();
  if (!missing.empty() && r.ok()) return missing_error(what, missing);
  std::vector<Bytes> cards;
  for (int i = 0; i < size && r.ok(); ++i) {
    const ByteView card = r.get_bytes(kMostCardBytes);
    cards.emplace_back(card.begin(), card.end());
  }
  if (!r.ok() || !r.at_end())
    return Error(ErrorCode::defect, what + ": the answer of rank 0 is malformed");
  return cards;
}

Result<std::vector<Bytes>> lead(Bootstrap& bootstrap, uint32_t number, const std::string& what,
                                ByteView card, Deadline deadline) {
  const int size = bootstrap.size();
  const int64_t wait_ns = std::max<int64_t>(0, deadline.remaining_ns());
  for (int peer = 1; peer < size; ++peer)
    COLL_TRY_IN(bootstrap.send(peer, tag_of(number, Kind::hello), ByteWriter().put(wait_ns).bytes(),
                               deadline),
                what);
  std::vector<Bytes> cards;
  cards.resize(size_t(size));
  cards[0].assign(card.begin(), card.end());
  std::vector<int32_t> missing;
  for (int peer = 1; peer < size; ++peer) {
    const Deadline until =
        deadline.remaining_ns() > kLateMs * 1'000'000 ? deadline : Deadline::after_ms(kLateMs);
    auto theirs = bootstrap.recv(peer, tag_of(number, Kind::card), until);
    if (theirs)
      cards[size_t(peer)] = std::move(*theirs);
    else if (is_late(theirs.error()))
      missing.push_back(peer);
    else
      return std::move(theirs.error()).within(what);
  }
  const Bytes answer = answer_of(missing, cards);
  Status told;
  for (int peer = 1; peer < size; ++peer) {
    if (std::find(missing.begin(), missing.end(), peer) != missing.end()) continue;
    Status sent = bootstrap.send(peer, tag_of(number, Kind::answer), answer,
                                 Deadline::after_seconds(kAnswerSeconds));
    if (!sent && told) told = std::move(sent);
  }
  if (!missing.empty()) return missing_error(what, missing);
  COLL_TRY_IN(std::move(told), what);
  return cards;
}

Result<std::vector<Bytes>> follow(Bootstrap& bootstrap, uint32_t number, const std::string& what,
                                  ByteView card, Deadline deadline) {
  COLL_TRY_IN(bootstrap.send(0, tag_of(number, Kind::card), card, deadline), what);
  const auto hello = bootstrap.recv(0, tag_of(number, Kind::hello), deadline);
  if (!hello) {
    constexpr int32_t kLeader[] = {0};
    if (is_late(hello.error())) return missing_error(what, kLeader);
    return Error(hello.error()).within(what);
  }
  const auto wait_ns = ByteReader(*hello).get<int64_t>();
  const Deadline answered =
      Deadline::after_ns(std::max<int64_t>(0, wait_ns)).earlier(Deadline::after_seconds(1e6));
  const auto answer =
      bootstrap.recv(0, tag_of(number, Kind::answer),
                     Deadline::at_ns(answered.at() + int64_t(kAnswerSeconds * 1e9)));
  if (!answer) return Error(answer.error()).within(what);
  return read_answer(*answer, bootstrap.size(), what);
}

}  // namespace

Result<std::vector<Bytes>> roll_call(Bootstrap& bootstrap, uint32_t number, const std::string& what,
                                     ByteView card, Deadline deadline) {
  if (card.size() > kMostCardBytes)
    return Error(ErrorCode::usage,
                 format("{}: a card of {} bytes is too large", what, card.size()));
  if (bootstrap.size() == 1) return std::vector<Bytes>{Bytes(card.begin(), card.end())};
  return bootstrap.rank() == 0 ? lead(bootstrap, number, what, card, deadline)
                               : follow(bootstrap, number, what, card, deadline);
}

}  // namespace collctl::runtime
