#include "runtime/communicator/members.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/number_ranges.h"

namespace collctl::runtime {

std::vector<int> split_members(std::span<const SplitCard> cards, int colour) {
  std::vector<int> members;
  for (int rank = 0; rank < int(cards.size()) && colour >= 0; ++rank)
    if (cards[size_t(rank)].colour == colour) members.push_back(rank);
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return cards[size_t(a)].key < cards[size_t(b)].key; });
  return members;
}

namespace {

constexpr int kMostListed = 1 << 16;

// Takes a number off the front of the text.
std::optional<int> number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text[0] == '-') return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return value;
}

// "0-3, 5" off the front: what "ranks" lists.
std::vector<int> list(std::string_view& text) {
  std::vector<int> numbers;
  std::string_view rest = text;
  while (const auto from = number(rest)) {
    int to = *from;
    if (std::string_view after = rest; after.starts_with('-')) {
      after.remove_prefix(1);
      if (const auto end = number(after)) {
        to = *end;
        rest = after;
      }
    }
    if (to < *from || to - *from > kMostListed) break;
    for (int each = *from; each <= to; ++each) numbers.push_back(each);
    text = rest;
    if (!rest.starts_with(", ")) break;
    rest.remove_prefix(2);
  }
  return numbers;
}

}  // namespace

int in_numbers_of(std::span<const int> members, int rank) {
  return rank >= 0 && size_t(rank) < members.size() ? members[size_t(rank)] : rank;
}

std::string in_numbers_of(std::span<const int> members, std::string_view text) {
  constexpr std::string_view kWord = "rank";
  std::string out;
  bool begins_word = true;
  while (!text.empty()) {
    std::string_view rest = text;
    if (begins_word && rest.starts_with(kWord)) {
      rest.remove_prefix(kWord.size());
      const bool several = rest.starts_with('s');
      if (several) rest.remove_prefix(1);
      if (rest.starts_with(' ') && rest.size() > 1 && std::isdigit(uint8_t(rest[1])) != 0) {
        rest.remove_prefix(1);
        std::vector<int> ranks;
        if (several)
          ranks = list(rest);
        else if (const auto one = number(rest))
          ranks = {*one};
        for (int& rank : ranks) rank = in_numbers_of(members, rank);
        std::sort(ranks.begin(), ranks.end());
        if (!ranks.empty()) {
          out += several ? "ranks " : "rank ";
          out += base::number_ranges(ranks, ", ");
          text = rest;
          begins_word = false;
          continue;
        }
      }
    }
    begins_word = std::isalnum(uint8_t(text[0])) == 0 && text[0] != '_';
    out += text[0];
    text.remove_prefix(1);
  }
  return out;
}

Error in_numbers_of(std::span<const int> members, Error error) {
  error.message = in_numbers_of(members, error.message);
  for (std::string& context : error.contexts) context = in_numbers_of(members, context);
  error.hint = in_numbers_of(members, error.hint);
  error.rank = in_numbers_of(members, error.rank);
  error.from = in_numbers_of(members, error.from);
  error.awaited = in_numbers_of(members, error.awaited);
  return error;
}

}  // namespace collctl::runtime
