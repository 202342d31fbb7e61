#include "base/bus_id.h"

#include "base/format.h"

namespace collctl::base {
namespace {

// Hexadecimal digits up to `end`, at least one and at most `most`; the position moves behind `end`.
std::optional<int64_t> hex_until(const std::string& text, size_t& at, char end, size_t most) {
  int64_t value = 0;
  size_t digits = 0;
  for (; at < text.size() && text[at] != end; ++at, ++digits) {
    const char c = text[at];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0 || digits == most) return std::nullopt;
    value = value << 4 | digit;
  }
  if (digits == 0 || (end != 0 && at == text.size())) return std::nullopt;
  ++at;
  return value;
}

}  // namespace

std::optional<int64_t> bus_number(const std::string& text) {
  if (text.find('\0') != std::string::npos) return std::nullopt;
  size_t at = 0;
  const auto domain = hex_until(text, at, ':', 8);
  const auto bus = domain ? hex_until(text, at, ':', 2) : std::nullopt;
  const auto device = bus ? hex_until(text, at, '.', 2) : std::nullopt;
  const auto function = device ? hex_until(text, at, '\0', 1) : std::nullopt;
  if (!function) return std::nullopt;
  return *domain << 20 | *bus << 12 | *device << 4 | *function;
}

std::string bus_text(int64_t number) {
  return format("{:04x}:{:02x}:{:02x}.{:x}", number >> 20, (number >> 12) & 0xff,
                (number >> 4) & 0xff, number & 0xf);
}

}  // namespace collctl::base
