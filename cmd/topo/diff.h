// How two machines differ: device by device, in words. Used by `topo --diff` and `topo -H`. Pure;
// threads: any.
#pragma once
#include <string>
#include <vector>

#include "topology/types.h"

namespace collctl::cmd {

// Which device of one machine is which of the other.
enum class MatchBy : uint8_t {
  bus_id,  // by its address: the same machine at two times, or two of one build
  place    // by where it hangs: the second GPU below the first switch of CPU 0
};
struct CompareOptions {
  MatchBy match = MatchBy::bus_id;
  // Also what names a device rather than describes it: its number, rank, name and GUID.
  bool identity = true;
};

enum class ChangeKind : uint8_t { missing, added, changed };
const char* change_name(ChangeKind kind);

struct Difference {
  ChangeKind kind = ChangeKind::changed;
  std::string device;              // "GPU 3 H100 0000:44:00.0"
  std::string place;               // "below switch 0000:40:00.0"; empty for a CPU
  std::string attribute, was, is;  // of changed; "none" when it was not there
  std::string below;               // of missing and added: what goes with it; or empty
  bool operator==(const Difference&) const = default;
};
// In the order of `was`, then what was added. Changes that come by themselves (the speed of an idle
// GPU's link) do not count.
std::vector<Difference> compare_machines(const topology::System& was, const topology::System& is,
                                         const CompareOptions& options = {});
// The share of devices of `was` whose bus ids `is` has too, 0 to 1.
double shared_bus_ids(const topology::System& was, const topology::System& is);

// "GPU 3 H100 0000:44:00.0, below switch 0000:40:00.0: missing"
std::string difference_text(const Difference& difference);
struct DiffNames {
  std::string was, is;  // where the two machines come from
};
std::string diff_text(const std::vector<Difference>& differences, const DiffNames& names);
// collctl.topo-diff/1
std::string diff_json(const std::vector<Difference>& differences, const DiffNames& names);

}  // namespace collctl::cmd
