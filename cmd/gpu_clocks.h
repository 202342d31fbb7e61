// What NVML says of a GPU's clocks. Threads: any.
#pragma once
#include <string>

namespace collctl::cmd {

// Why the GPU at this PCI address runs slower than it could, in words: "throttled: power cap; SM
// clock 1200 of 1980 MHz". Empty when it does not, or when NVML does not say.
std::string clock_note(const std::string& bus_id);

}  // namespace collctl::cmd
