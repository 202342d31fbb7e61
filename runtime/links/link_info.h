// A link by its place, and one of a rank as reports name it. Values.
#pragma once
#include <compare>
#include <string>

namespace collctl::runtime {

struct Edge {
  int channel, from, to;
  auto operator<=>(const Edge&) const = default;
};

struct LinkInfo {
  int channel, from, to;
  std::string via;
  std::string nic =
      {};  // of this rank's end, as the topology has it; empty: none is needed or known
  std::string why = {};  // it is so, where there was a choice; of this rank's end
  int relay = -1;        // the rank whose GPU sends it for its sender (PXN)
};

}  // namespace collctl::runtime
