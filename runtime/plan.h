// Plan: values only. What the planner decided for one submission: per channel the Work structs, and
// why.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/contract/work.h"

namespace collctl::runtime {

struct ChannelShape {
  std::vector<int32_t> ring;  // ranks in ring order
  kernels::TreeLinks tree;    // this rank's place in the channel's tree
};

// What the planner needs to know of the communicator. Pure data.
struct CommShape {
  int rank = 0, nranks = 1;
  std::vector<ChannelShape> channels;
  uint32_t slot_bytes[kernels::kProtocolCount] = {};  // wire bytes of a slot
  uint32_t slot_count = 8;
  bool all_on_one_host = true;
};

struct PlannedOp {
  kernels::AlgorithmId algorithm = kernels::AlgorithmId::ring;
  kernels::Protocol protocol = kernels::Protocol::simple;
  int channels = 0;
  std::vector<kernels::Work>
      works;  // one per channel in use; pointers refer to `keep` and the caller's buffers
  std::string why;
};

struct Plan {
  std::vector<PlannedOp> ops;
  // Storage that Work points to (ring orders, pair steps); moves with the plan.
  std::vector<std::shared_ptr<const std::vector<int32_t>>> orders;
  std::vector<std::shared_ptr<const std::vector<kernels::PairStep>>> pairs;
};

}  // namespace collctl::runtime
