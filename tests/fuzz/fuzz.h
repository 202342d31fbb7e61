// Shared by the fuzz targets: bytes as text, an input in parts, and a claim that ends the run.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/record.h"

namespace collctl::fuzz {

using base::Bytes;
using base::ByteView;

inline std::string_view text_of(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void must(bool holds) {
  if (!holds) std::abort();
}

// The first byte chooses among `kinds`, the rest is the input.
inline size_t choose(ByteView& input, size_t kinds) {
  if (input.empty()) return 0;
  const size_t chosen = input[0] % kinds;
  input = input.subspan(1);
  return chosen;
}

// Parts of a text that may hold any byte but 0, `count` at least.
inline std::vector<std::string> parts(ByteView input, size_t count) {
  std::vector<std::string> list(1);
  for (const uint8_t byte : input)
    if (byte == 0)
      list.emplace_back();
    else
      list.back() += char(byte);
  if (list.size() < count) list.resize(count);
  return list;
}

// An input that is taken means the same when it is sent on.
template <class Decode>
void survives(ByteView input, Decode decode) {
  const auto first = decode(input);
  if (!first) return;
  const Bytes sent = first->encode();
  const auto second = decode(ByteView(sent));
  must(bool(second) && second->encode() == sent);
}

// The same of a record with a description.
template <class T>
void survives(ByteView input) {
  const auto first = decoded<T>(input);
  if (!first) return;
  const Bytes sent = encoded(*first);
  const auto second = decoded<T>(sent);
  must(second.ok() && encoded(*second) == sent);
}

}  // namespace collctl::fuzz
