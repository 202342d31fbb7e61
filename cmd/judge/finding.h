// One thing that was looked at and what came of it: the word that doctor, window-test, rails, topo and
// the checks all speak. Values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::cmd {

enum class FindingStatus : uint8_t { pass, warn, fail, not_tested };
struct Finding {
  std::string name;                // of the check
  std::string host, peer, device;  // where: a host, the host at the other end, a GPU or NIC
  FindingStatus status = FindingStatus::pass;
  bool odd = false;                      // differs from what most hosts have
  std::string measured, expected, unit;  // numbers are plain decimal
  std::string cell;                      // for the table; empty: measured and unit
  std::string message, remedy;
};
struct Culprit {
  std::string kind, name;  // host, gpu, nic or link
  double confidence = 0;   // failed of tried
  std::string evidence;
  bool unreachable = false;  // could not be asked at all
};

}  // namespace collctl::cmd
