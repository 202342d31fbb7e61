// The one interface through which the topology sees a machine: files of the kernel, facts of
// drivers, what the host is called. Live, it is this machine; else a snapshot of one (snapshot.h).
// Made by the command, used by discover. Threads: one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/detect/driver_facts.h"
#include "topology/detect/file_tree.h"

namespace collctl::topology {

struct Reader {
  std::unique_ptr<FileTree> files;
  DriverFacts drivers;
  std::string host;  // its name; may be empty
  std::string arch;  // "x86_64", "arm64", "ppc64"; may be empty
  // Missing parts (a snapshot without driver facts).
  std::vector<Finding> findings;
};

// This machine. Never fails: what is missing is a finding of discover.
Reader live_reader();

// NCCL's name of an architecture that the kernel calls "aarch64".
std::string field_arch(const std::string& machine);

}  // namespace collctl::topology
