// The kind of a PCI element, and whether a job uses it. Used by graph and inspect. Pure.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "topology/types.h"

namespace collctl::topology {

inline constexpr uint32_t kNvidia = 0x10de;
inline constexpr uint32_t kClassGpu = 0x030200, kClassSwitch = 0x068000;  // an NVSwitch

inline bool is_gpu_class(const std::optional<uint32_t>& device_class) {
  // Displays and 3D controllers; "processing accelerators" on AMD's side.
  return device_class && (*device_class >> 16 == 0x03 || *device_class >> 16 == 0x12);
}
inline bool is_nic_class(const std::optional<uint32_t>& device_class) {
  return device_class && *device_class >> 16 == 0x02;
}

inline bool has_nets(const std::vector<Nic>& nics) {
  return std::any_of(nics.begin(), nics.end(), [](const Nic& nic) { return !nic.nets.empty(); });
}

// Rank -1: the driver knows the GPU, no rank has it.
inline bool is_used_gpu(const Pci& pci) {
  return pci.gpu && pci.gpu->rank != -1;
}

inline bool is_used(const Pci& pci) {
  return is_used_gpu(pci) || has_nets(pci.nics) ||
         std::any_of(pci.children.begin(), pci.children.end(), is_used);
}

}  // namespace collctl::topology
