#include "launcher/hosts/key_value.h"

#include <algorithm>
#include <cstdlib>

#include "base/format.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostAnswerBytes = 4096;
constexpr const char* kCountKey = "collctl-pieces";

std::string piece_key(size_t piece) {
  return format("collctl-{}", piece);
}

Status put_pieces(KeyValueStore& store, const std::string& text, Deadline deadline) {
  const size_t piece_bytes = std::max<size_t>(1, store.most_value_bytes());
  const size_t pieces = (text.size() + piece_bytes - 1) / piece_bytes;
  COLL_TRY(store.put(kCountKey, std::to_string(pieces), deadline));
  for (size_t piece = 0; piece < pieces; ++piece)
    COLL_TRY(store.put(piece_key(piece), text.substr(piece * piece_bytes, piece_bytes), deadline));
  return {};
}

Result<std::string> get_pieces(KeyValueStore& store, Deadline deadline) {
  COLL_ASSIGN(const std::string count, store.get(0, kCountKey, deadline));
  const size_t pieces = std::strtoul(count.c_str(), nullptr, 10);
  if (pieces > kMostAnswerBytes)
    return Error(ErrorCode::lost, format("rank 0 stored '{}' as {}: expected a small number",
                                         count.substr(0, 32), kCountKey))
        .blame(0);
  std::string text;
  for (size_t piece = 0; piece < pieces && text.size() <= kMostAnswerBytes; ++piece) {
    COLL_ASSIGN(const std::string part, store.get(0, piece_key(piece), deadline));
    text += part;
  }
  if (text.empty())
    return Error(ErrorCode::lost, "rank 0 could not open the job's rendezvous",
                 "see the output of rank 0")
        .blame(0);
  return text;
}

}  // namespace

Result<std::string> hand_round(KeyValueStore& store, const std::string& text, Deadline deadline) {
  if (store.rank() == 0) COLL_TRY(put_pieces(store, text, deadline));
  COLL_TRY(store.fence(deadline));
  if (store.rank() == 0) return text;
  return get_pieces(store, deadline);
}

}  // namespace collctl::launcher
