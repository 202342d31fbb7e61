// Judgement of GPU memory over NICs: each measurement is held against what is usual of its kind
// (the same ways to the memory, at the same distance, of GPUs of one model, over NICs of one rate),
// less where the same two NICs have less with host memory as well; cmd/judge/blame says whether a
// GPU, a NIC, what lies between the two, or a host is behind what is bad. All of a kind that are
// slower than host memory are told, and nobody is named unless a fact of the host explains it.
// Pure. Threads: values.
#pragma once
#include <string>
#include <vector>

#include "cmd/rails/rails.h"

namespace collctl::cmd {

struct MemoryFindings {
  // First the culprits ("blame"), then what is told of all ("gpudirect", "slower"), then every
  // direction measured with GPU memory ("gpu-path"), and those of host memory that fail
  // ("host-path"); not tested are GPUs whose NICs fail with host memory, too.
  std::vector<Finding> checks;
  std::vector<Culprit> culprits;
  std::vector<size_t> unexplained;  // of the checks: bad, and nobody is behind it
  std::vector<Finding> worst;       // of each host "sends" and "receives", beside host memory
  std::vector<std::string> summary;
  size_t tried = 0, good = 0;  // directions
};
MemoryFindings judge_memories(const RailsReport& report, double below);
// Hosts whose GPUs have something bad in their last measurement.
std::vector<int> gpus_in_doubt(const RailsReport& report, double below);

// A row for each GPU and NIC, and for two GPUs; sizes. Empty: nothing was measured.
std::vector<DocumentPart> memory_parts(const RailsReport& report);

}  // namespace collctl::cmd
