// Which rank this process is, when another engine has started it: read from the variables of
// torchrun (and of collctl itself), Open MPI, PMI and Slurm. Pure: the environment comes in as a
// function. Used by cmd before it launches anything.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace collctl::launcher {

struct Adopted {
  int rank = 0, size = 1;
  std::string from;  // the engine, for messages: "Open MPI (OMPI_COMM_WORLD_RANK)"
};

using Lookup = std::function<std::optional<std::string>(const char*)>;

// Empty: no engine's variables are there. Variables that contradict themselves (no number, rank not
// below size, one of the two missing) are a usage error that shows them.
Result<std::optional<Adopted>> adopted_rank(const Lookup& environment);

}  // namespace collctl::launcher
