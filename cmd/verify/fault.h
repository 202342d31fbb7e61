// What a data check found wrong, as it is reported. A value.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace collctl::cmd {

// One thing wrong with the data, in words and as fields.
struct DataFault {
  int rank = -1;  // whose output
  uint64_t first_element = 0, first_byte = 0, last_byte = 0, bad_elements = 0;
  int channel = -1;
  uint64_t chunk = 0, step = 0;
  int peer = -1;  // whose contribution
  // Where it may have gone wrong: what `to` received from `from`, in all of the row's faults alike.
  struct Hop {
    int from = -1, to = -1;
    bool operator==(const Hop&) const = default;
  };
  std::vector<Hop> hops;  // empty: not known
  std::string kind;       // "missing", "doubled", "corrupted", "foreign", "unwritten"
  std::string message;
};

}  // namespace collctl::cmd
