// Which of the compiled architectures a device takes its code from. Pure; host only.
#pragma once
#include <string_view>

namespace collctl::kernels::cuda {

// `list` as in Launcher::architectures: compute capabilities ("80,90"), and "+PTX" when there is
// PTX of the last one. The capability whose code runs on a device of `capability`: the greatest
// machine code of the same generation that is not above it, else the PTX when that is not above it;
// 0: none.
constexpr int code_for(std::string_view list, int capability) {
  int best = 0, value = 0, last = 0;
  bool ptx = false;
  for (const char c : list) {
    if (c >= '0' && c <= '9') {
      value = value * 10 + (c - '0');
      last = value;
      continue;
    }
    ptx |= c == '+';
    if (value / 10 == capability / 10 && value <= capability && value > best) best = value;
    value = 0;
  }
  if (value != 0 && value / 10 == capability / 10 && value <= capability && value > best)
    best = value;
  if (best == 0 && ptx && last <= capability) best = last;
  return best;
}
static_assert(code_for("80,90+PTX", 90) == 90 && code_for("80,90+PTX", 86) == 80);
static_assert(code_for("80,90+PTX", 100) == 90 && code_for("80,90", 100) == 0);
static_assert(code_for("80,90+PTX", 75) == 0 && code_for("90", 80) == 0);

}  // namespace collctl::kernels::cuda
