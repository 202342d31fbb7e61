// The strings of SSH's formats (RFC 4251, section 5): a big-endian length and that many bytes.
#pragma once
#include <optional>

#include "base/bytes.h"

namespace collctl::launcher {

// The string at `at`, which moves behind it; empty when the data ends before.
std::optional<Bytes> take_string(const Bytes& data, size_t& at);

}  // namespace collctl::launcher
