// The version of collctl, as project() in CMakeLists.txt says; ranks of one job must have the same.
#pragma once

namespace collctl::base {
inline constexpr const char* kVersion = "0.1.0";
}
