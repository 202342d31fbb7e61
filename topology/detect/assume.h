// A machine whose file lists only its PCI devices, with the GPUs and NICs that the user says are in
// it, so that it can be planned for away from it. All that is added is marked as assumed and is a
// finding. Called by cmd. Pure; threads: any.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/types.h"

namespace collctl::topology {

struct AssumedModel {
  const char* name;       // as --assume takes it
  const char* title;      // the GPU's name
  int sm;                 // compute capability x 10
  int nvlinks;            // of one GPU
  bool nvswitch;          // they lead to NVSwitches; else a file would have to say to whom
  int nic_gbps;           // network of a typical machine for each GPU, 1e9 bits/s
  uint32_t device;        // PCI device of NVIDIA
  const char* pci_speed;  // of its PCI link, x16
};
std::span<const AssumedModel> assumed_models();

struct Assumed {
  System system;
  std::vector<Finding> findings;
};
// GPU-class devices without <gpu> become GPUs of the model, NIC-class devices without <nic> network
// devices, numbered in the order of the file. A GPU that is listed keeps its attributes;
// without NVLinks it gets those of the model when its compute capability is the model's. A file
// without any GPU but with exactly eight switches gets a GPU below each, for models that come by
// eight. `nic_gbps`: of each network device; not given: what its PCI ids say, else its share of
// AssumedModel::nic_gbps for each GPU. `source` names the file. Errors: usage: no such model,
// nothing to assume it in.
Result<Assumed> assume(System system, const std::string& model, std::optional<double> nic_gbps,
                       const std::string& source);

}  // namespace collctl::topology
