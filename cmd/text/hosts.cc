#include "cmd/text/hosts.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>

#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostUnfolded = 3;
constexpr size_t kMostWords = 16;
constexpr size_t kMostDigits = 9;  // a number that fits

// "node", "07", ".rack7": the number is the last of the first label, of an address the last of all.
struct Name {
  std::string before = {}, digits = {}, after = {};
  long number = -1;
  // Names that are one word but for the number.
  auto kind() const { return std::tie(before, after); }
  auto order() const {
    return std::tuple(std::string_view(before), std::string_view(after), number, digits.size());
  }
};

Name name_of(const std::string& text) {
  const bool six = text.find(':') != std::string::npos;
  const bool address = six || text.find_first_not_of("0123456789.") == std::string::npos;
  const size_t label = address ? text.size() : std::min(text.find('.'), text.size());
  const auto is_digit = [&](size_t i) { return std::isdigit(uint8_t(text[i])) != 0; };
  size_t end = label;
  while (end > 0 && !is_digit(end - 1)) --end;
  size_t begin = end;
  while (begin > 0 && is_digit(begin - 1)) --begin;
  // The last group of an IPv6 address may be no decimal number.
  const bool hex = six && end != text.size();
  if (begin == end || end - begin > kMostDigits || hex) return {.before = text};
  return {text.substr(0, begin), text.substr(begin, end - begin), text.substr(end),
          std::stol(text.substr(begin, end - begin))};
}

}  // namespace

std::string folded_hosts(const std::vector<std::string>& names) {
  std::vector<Name> all;
  for (const std::string& name : names) all.push_back(name_of(name));
  std::ranges::sort(all, [](const Name& a, const Name& b) { return a.order() < b.order(); });
  all.erase(std::unique(all.begin(), all.end(),
                        [](const Name& a, const Name& b) { return a.order() == b.order(); }),
            all.end());
  std::string text;
  const bool folds = all.size() > kMostUnfolded;
  for (size_t i = 0, next, words = 0; i < all.size(); i = next) {
    if (words++ == kMostWords) return format("{} and {} more", text, all.size() - i);
    next = i + 1;
    while (folds && all[i].number >= 0 && next < all.size() && all[next].kind() == all[i].kind())
      ++next;
    text += (text.empty() ? "" : ", ") + all[i].before;
    if (next == i + 1) {
      text += all[i].digits + all[i].after;
      continue;
    }
    std::string numbers;
    for (size_t j = i, last; j < next; j = last + 1) {
      last = j;
      while (last + 1 < next && all[last + 1].number == all[last].number + 1 &&
             all[last + 1].digits.size() == all[last].digits.size())
        ++last;
      numbers += (numbers.empty() ? "" : ",") + all[j].digits;
      if (last > j) numbers += "-" + all[last].digits;
    }
    text += format("[{}]{}", numbers, all[i].after);
  }
  return text;
}

}  // namespace collctl::cmd
