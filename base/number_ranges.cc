#include "base/number_ranges.h"

#include "base/format.h"

namespace collctl::base {

std::string number_ranges(const std::vector<int>& numbers, const char* separator) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += format("{}{}", text.empty() ? "" : separator, numbers[i]);
    if (end - i > 1) text += format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace collctl::base
