// Inspection of a machine for faults: links that run below what both ends can do (x8 of x16, 16 of
// 18 NVLinks), slots narrower than their cards, ports without a link, devices that differ from
// their equals, and switches whose uplink is slower than what hangs below. Also the common names of
// its parts. Used by `collctl topo`. Pure; threads: any.
#pragma once
#include <string>
#include <vector>

#include "topology/types.h"

namespace collctl::topology {

struct Oddity {
  BusId device;
  int host = 0;      // as in Graph
  std::string mark;  // a few words for the tree: "x8 of x16"
  Finding finding;
  std::string net;  // the network device it is about; empty: the whole card
};

// In the order of the file. `source` names it in findings.
std::vector<Oddity> inspect(const System& system, const std::string& source);
// Links of GPUs that run slower than they could right now. An idle GPU does that to save power, so
// it is not a fault by itself; for those who ask.
std::vector<Finding> idle_links(const System& system, const std::string& source);

// "gen5 x16", "gen3 x16 (assumed)"
std::string pci_link_text(const Pci& pci);
// "A100", or "" when the device is not known by name here.
std::string pci_device_name(const Pci& pci);
// "Intel Sapphire Rapids", "AMD family 25 model 80", "ARM"; empty when nothing is said.
std::string processor_name(const Cpu& cpu);
// Logical processors by the affinity mask; 0: unknown.
int processor_threads(const Cpu& cpu);

}  // namespace collctl::topology
