// A topology file completed by what is detected, as NCCL does: the file's tree stays as it is;
// attributes that it lacks, GPUs, network devices and whole devices that it does not list are taken
// from the machine. Where they disagree the file is used, and a finding says so. Pure;
// threads: any.
#pragma once
#include <string>
#include <vector>

#include "topology/types.h"

namespace collctl::topology {

struct Merged {
  System system;
  std::vector<Finding> findings;
};
// `source` names the file.
Merged merge(const System& file, const System& detected, const std::string& source);

}  // namespace collctl::topology
