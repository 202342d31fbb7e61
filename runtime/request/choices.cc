#include "runtime/request/choices.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/split.h"
#include "kernels/algo/ids.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;

std::string normal(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == ' ') continue;
    out += c == '_' ? '-' : c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  }
  return out;
}

Result<uint32_t> parse_list(const std::string& text, const char* what, int known_count,
                            const char* (*name)(int)) {
  const uint32_t all = (1u << known_count) - 1;
  std::string list = normal(text);
  if (list.empty() || list == "all") return all;
  const bool exclude = list[0] == '^';
  if (exclude) list.erase(0, 1);
  std::string known;
  for (int i = 0; i < known_count; ++i) known += (i > 0 ? ", " : "") + std::string(name(i));
  uint32_t mask = 0;
  for (const std::string_view word : base::split(list, ',')) {
    uint32_t bits = word == "all" ? all : 0;
    for (int i = 0; i < known_count; ++i)
      if (word == name(i)) bits = 1u << i;
    if (bits == 0)
      return Error(ErrorCode::usage,
                   format("{} '{}': '{}' is unknown; expected a comma-separated list of {}", what,
                          text, word, known),
                   "a leading ^ excludes the whole list");
    mask |= bits;
  }
  if (exclude) mask = all & ~mask;
  if (mask == 0) return Error(ErrorCode::usage, format("{} '{}' excludes everything", what, text));
  return mask;
}

// Algorithms of NCCL that none of ours stands for.
constexpr std::string_view kForeign[] = {"nvls", "nvlstree", "pat", "collnetdirect",
                                         "collnetchain"};

}  // namespace

NcclList nccl_list(const std::string& text) {
  // "ring,tree;allgather:ring": what has no name of a collective is for all others.
  if (text.find_first_of(":;") != std::string::npos) {
    NcclList found;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(';', at), text.size());
      const std::string part = text.substr(at, end - at);
      at = end + 1;
      NcclList one{"", part};
      if (part.find(':') == std::string::npos) one = nccl_list(part);
      if (!one.ours.empty()) found.ours = one.ours;
      if (!one.left_out.empty())
        found.left_out += (found.left_out.empty() ? "" : ";") + one.left_out;
    }
    return found;
  }
  const std::string list = normal(text);
  const size_t first = list.starts_with('^') ? 1 : 0;
  NcclList found;
  for (const std::string_view word : base::split(std::string_view(list).substr(first), ',')) {
    const bool foreign = std::ranges::find(kForeign, word) != std::end(kForeign);
    std::string& to = foreign ? found.left_out : found.ours;
    to.append(to.empty() ? "" : ",").append(word);
  }
  if (found.left_out.empty()) return {text, ""};
  if (first != 0 && !found.ours.empty()) found.ours.insert(0, 1, '^');
  return found;
}

Result<Choices> parse_choices(const std::string& algo, const std::string& proto, int channels) {
  Choices choices;
  choices.algo = algo;
  choices.proto = proto;
  if (channels < 0 || channels > kernels::kMaxChannels)
    return Error(ErrorCode::usage, format("channels {}: expected 0 (planned) to {}", channels,
                                          kernels::kMaxChannels));
  choices.channels = channels;
  COLL_ASSIGN(choices.algorithms,
              parse_list(algo, "algorithm", kernels::kAlgorithmCount,
                         [](int i) { return kernels::name_of(AlgorithmId(i)); }));
  COLL_ASSIGN(choices.protocols, parse_list(proto, "protocol", kernels::kProtocolCount,
                                            [](int i) { return kernels::name_of(Protocol(i)); }));
  return choices;
}

}  // namespace collctl::runtime
