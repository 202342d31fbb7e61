// A machine as its kernel and drivers show it, by NCCL's rules: PCI devices from each GPU and
// NIC up to the root complex (an upstream port stands for its switch), NUMA nodes, NVLinks, network
// devices. Works without GPUs, without NVML, without /sys: what is missing is a finding. Called by
// cmd (and by rank 0 for its dump). Pure but for the Reader; threads: one.
#pragma once
#include <optional>
#include <vector>

#include "base/processors.h"
#include "topology/detect/reader.h"
#include "topology/types.h"

namespace collctl::topology {

struct Detected {
  System system;
  base::Processors processors;
  std::vector<Finding> findings;
};
Detected discover(Reader& reader);

}  // namespace collctl::topology
