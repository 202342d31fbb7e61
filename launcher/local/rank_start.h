// How a rank is started wherever it runs: what is executed, and the environment that it inherits.
// Used by the agent and by cmd for ranks of this host. Pure but for reading the environment.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/local/local.h"

namespace collctl::launcher {

// `argv` empty: this binary as a rank of ours, with the control descriptor.
RankProcess rank_process(const std::vector<std::string>& argv);

// Puts "NAME=value" in place of what the list has of that name.
void set_variable(std::vector<std::string>& list, const std::string& entry);
// Its value in such a list.
std::optional<std::string> find_variable(const std::vector<std::string>& list,
                                         const std::string& name);

// This process's environment without our secrets and without the variables of an engine that may
// have started it. `comm_id` false: also without the address of another job. On hosts with NVIDIA
// GPUs and with CUDA_DEVICE_ORDER, so that ranks number them as the driver's tools and devices= do.
std::vector<std::string> inherited_environment(bool comm_id);

}  // namespace collctl::launcher
