// Two-level Broadcom switches are one piece of hardware; NCCL counts them as one switch.
#include <algorithm>

#include "topology/graph/graph.h"

namespace collctl::topology {
namespace {

// The generation of a Broadcom switch by device and subsystem (gen4: 1000:c010 with subsystem
// 1000:axxx at both levels; gen5: 1000:c030 with 1000:0xxx outside and 1000:1xxx inside); 0: none.
int broadcom_generation(const Pci& pci, bool inner) {
  if (pci.vendor != 0x1000u || pci.subsystem_vendor != 0x1000u || !pci.subsystem_device) return 0;
  const uint32_t family = *pci.subsystem_device & 0xf000;
  if (pci.device == 0xc010u && family == 0xa000) return 4;
  if (pci.device == 0xc030u && family == (inner ? 0x1000u : 0u)) return 5;
  return 0;
}

bool is_switch(const Pci& pci) {
  return !pci.gpu && pci.nics.empty();
}

// Outside first: what a switch takes in brings its own children along, and these are looked at
// next.
void flatten(Pci& pci) {
  const int generation = is_switch(pci) ? broadcom_generation(pci, false) : 0;
  if (generation != 0) {
    std::vector<Pci> kept;
    for (Pci& child : pci.children) {
      if (!is_switch(child) || broadcom_generation(child, true) != generation) {
        kept.push_back(std::move(child));
        continue;
      }
      for (Pci& grandchild : child.children) kept.push_back(std::move(grandchild));
      pci.peers.insert(pci.peers.end(), child.peers.begin(), child.peers.end());
    }
    pci.children = std::move(kept);
  }
  for (Pci& child : pci.children) flatten(child);
}

}  // namespace

void flatten_switches(System& system) {
  for (Cpu& cpu : system.cpus)
    for (Pci& pci : cpu.children) flatten(pci);
}

}  // namespace collctl::topology
