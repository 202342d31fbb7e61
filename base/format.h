// Formatting for messages: fmt's compile-checked format(), declarations only (cheap to include).
// Not for headers that nvcc sees.
#pragma once
#include <fmt/core.h>

namespace collctl::base {
using fmt::format;
}
namespace collctl {
using base::format;
}
