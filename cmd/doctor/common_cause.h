// Hosts that cannot be reached, and no fault of theirs: the launcher lacks a host's key or a name,
// or one reason holds for most hosts. That is told once as the launcher's. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::cmd {

inline constexpr const char* kOfLauncher = "launcher";  // reason of a finding: not the host's fault

struct Unreached {
  Host host;
  Error error;
};
struct CommonCause {
  std::vector<size_t> of;  // indexes into the list
  std::string evidence;
};
// `hosts`: how many there are altogether.
std::vector<CommonCause> common_causes(const std::vector<Unreached>& list, size_t hosts);

}  // namespace collctl::cmd
