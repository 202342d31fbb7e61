// What looks wrong with a machine by itself: devices that differ from their equals (a link at x8
// where the others run at x16, 16 NVLinks where the others have 18), and switches whose uplink is
// slower than what hangs below. Used by `collctl topo`. Pure; threads: any.
#pragma once
#include <string>
#include <vector>

#include "topology/types.h"

namespace collctl::topology {

struct Oddity {
  BusId device;
  int host = 0;      // as in Graph
  std::string mark;  // a few words for the tree: "the others x16"
  Finding finding;
};

// In the order of the file. `source` names it in findings.
std::vector<Oddity> inspect(const System& system, const std::string& source);

// "gen5 x16", "gen3 x16 (assumed)"
std::string pci_link_text(const Pci& pci);
// "A100", or "" when the device is not known by name here.
std::string pci_device_name(const Pci& pci);

}  // namespace collctl::topology
