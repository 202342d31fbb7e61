// Which rank this process is, when another engine has started it, and their rendezvous: read
// from the variables of collctl itself (COLLCTL_RANK, ...), Open MPI, PMI (Hydra, srun
// --mpi=pmi2), torchrun, Slurm steps, PMIx and Kubernetes' indexed jobs. Pure: the environment
// is passed as a function. Used by cmd before it launches anything.
//
// Engines nest (mpirun in a Slurm step, torchrun in a pod): the order above decides, and the outer
// engine's variables are not a contradiction. Variables that contradict each other otherwise are
// refused, with a list of them. Threads: any; values.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::launcher {

enum class Engine : uint8_t { collctl, open_mpi, pmi, torchrun, slurm, pmix, kubernetes };
const char* engine_name(Engine engine);

struct Adopted {
  Engine engine{};
  // size 0: the engine tells both only over its own connection (PMI_PORT, PMIx without more).
  int rank = 0, size = 1;
  int local_rank = -1, local_size = 0;  // on this host; -1 and 0: not told
  std::string from;                     // for messages: "Open MPI (OMPI_COMM_WORLD_RANK)"
  struct Source {
    std::string what;  // "rank", "size", "local rank", "local size"
    std::string variable, value;
  };
  std::vector<Source> sources;  // what was taken from where, for `collctl env`
};

using Lookup = std::function<std::optional<std::string>(const char*)>;

// Empty: no engine's variables are there. Variables that contradict themselves or each other (no
// number, rank not below size, one half missing, two engines that are not one inside the other)
// are a usage error that lists them.
Result<std::optional<Adopted>> adopted_rank(const Lookup& environment);

enum class RendezvousKind : uint8_t {
  alone,    // one rank: no peers
  address,  // a fixed address of rank 0, with COLLCTL_TOKEN
  pmi,      // the engine's key-value store, PMI-1 protocol
  pmix      // the same, by libpmix
};
struct Rendezvous {
  RendezvousKind kind = RendezvousKind::alone;
  std::string address;  // HOST:PORT
  std::string from;     // "COLLCTL_COMM_ID", "PMI_FD", "MASTER_ADDR and MASTER_PORT + 1", ...
};
// Where the ranks find each other. COLLCTL_COMM_ID, if set, takes precedence over the
// engine's own means. Without either: a usage error that says what to set for this engine.
Result<Rendezvous> rendezvous_of(const Adopted& adopted, const Lookup& environment);

// In the shell of an allocation of Slurm, outside any step, or of PBS: its hosts. Not a rank: such
// a process is a launcher.
struct Allocation {
  const char* scheduler;  // "Slurm", "PBS"
  std::string job;        // "4711"
  std::string nodes;      // "node[01-04]"; of PBS the file that lists them
  int node_count = 0;     // 0: not told
  const char* option;     // that takes its hosts
};
std::optional<Allocation> allocation_of(const Lookup& environment);

// The variables by which adopted_rank and the key-value stores take a process for a rank of their
// engine, except Slurm's and Kubernetes' (those describe what holds the process). A launcher that
// starts ranks of its own removes them from their environment.
const std::vector<const char*>& inner_rank_variables();

// How many tasks SLURM_STEP_TASKS_PER_NODE ("2(x3),1") gives the node of this index; 0: malformed
// or not among them.
int slurm_tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace collctl::launcher
