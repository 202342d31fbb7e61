// PCI addresses as text and as one number, as NCCL has them: domain, bus, device and function in
// hexadecimal digits, so 0000:0f:00.0 is 0xf000. Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace collctl::base {

// "0000:0f:00.0", upper or lower case (a domain of up to 8 digits); empty when it is none.
std::optional<int64_t> bus_number(const std::string& text);
std::string bus_text(int64_t number);  // lower case

}  // namespace collctl::base
