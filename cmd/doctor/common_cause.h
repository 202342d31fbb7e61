// Whose fault it is that hosts cannot be reached: what the launcher lacks (a host's key, a name),
// or one reason that holds for most hosts, is told once as the launcher's, and no host is accused
// of it. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::cmd {

inline constexpr const char* kOfLauncher = "launcher";  // reason of a finding: not the host's fault

struct Unreached {
  std::string host;
  Error error;
};
struct CommonCause {
  std::vector<size_t> of;  // indexes into the list
  std::string evidence;
};
// `hosts`: how many there are altogether.
std::vector<CommonCause> common_causes(const std::vector<Unreached>& list, size_t hosts);

}  // namespace collctl::cmd
