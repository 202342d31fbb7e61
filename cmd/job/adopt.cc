// Whether this process is one rank of a job that an engine has started (launcher/adopt/adopt.h),
// and how its ranks find each other.
#include <unistd.h>

#include "base/drivers/mpi.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/split.h"
#include "cmd/job/loop.h"
#include "launcher/adopt/pmi1.h"
#include "launcher/adopt/pmix.h"

namespace collctl::cmd {
namespace {

using launcher::Adopted;
using launcher::RendezvousKind;

// Rank and size where the engine tells them by its own connection only.
Status ask_engine(LaunchOptions& options, Adopted& adopted) {
  options.rendezvous = {
      adopted.engine == launcher::Engine::pmi ? RendezvousKind::pmi : RendezvousKind::pmix, "",
      adopted.from};
  auto opened =
      open_store(options.rendezvous.kind, Deadline::after_seconds(options.start_timeout_s));
  if (!opened) return std::move(opened.error()).within("asking " + adopted.from);
  options.store = std::move(*opened);
  adopted.rank = options.store->rank();
  adopted.size = options.store->size();
  return {};
}

bool on_path(const std::string& program) {
  const std::string path = base::environment("PATH").value_or("");
  return std::ranges::any_of(base::split(path, ':'), [&](std::string_view folder) {
    return !folder.empty() && ::access(format("{}/{}", folder, program).c_str(), X_OK) == 0;
  });
}

}  // namespace

Result<std::unique_ptr<launcher::KeyValueStore>> open_store(RendezvousKind kind,
                                                            Deadline deadline) {
  std::unique_ptr<launcher::KeyValueStore> store;
  if (kind == RendezvousKind::pmi) {
    COLL_ASSIGN(store, launcher::Pmi1Client::open(base::environment, deadline));
  } else {
    COLL_ASSIGN(store, launcher::PmixClient::open(base::environment, deadline));
  }
  return store;
}

Status adopt(LaunchOptions& options) {
  if (options.joins() || options.launcher == LauncherKind::ssh) return {};
  if (options.launcher == LauncherKind::local && options.launcher_named) return {};
  COLL_ASSIGN(auto found, launcher::adopted_rank(base::environment));
  if (!found) {
    if (options.launcher != LauncherKind::adopt) return {};
    return Error(ErrorCode::usage, "--launcher adopt: no engine has given this process a rank",
                 "set COLLCTL_RANK and COLLCTL_SIZE, or use --join HOST:PORT --rank R --size N");
  }
  if (found->size == 0) COLL_TRY(ask_engine(options, *found));
  if (options.ranks_by_gpus && options.ranks == 1) options.ranks = 0;  // each process has one
  if (options.ranks != 0 && options.ranks != found->size)
    return Error(ErrorCode::usage,
                 format("{} ranks are asked for, but {} has started {}", options.ranks, found->from,
                        found->size),
                 "leave --ranks out; or give --launcher local to start ranks on this host");
  if (!options.store || found->size == 1 || !base::knob_text(base::KnobId::comm_id).empty()) {
    COLL_ASSIGN(options.rendezvous, launcher::rendezvous_of(*found, base::environment));
    // The engine has told what was asked; its store is not needed.
    if (options.store)
      COLL_TRY(options.store->finish(Deadline::after_seconds(options.start_timeout_s)));
    options.store.reset();
  }
  options.join_rank = found->rank;
  options.join_size = found->size;
  options.local_ranks = found->local_size;
  options.join_local_rank = found->local_rank;
  return {};
}

Status adopt_by_mpi(LaunchOptions& options, const std::string& command) {
  constexpr const char* kHint =
      "install Open MPI (openmpi-bin) or MPICH (mpich), or name its folder in LD_LIBRARY_PATH";
  if (const auto& missing = base::drivers::mpi().missing; !missing.empty())
    return Error(ErrorCode::unavailable, "--vs mpi: " + missing, kHint);
  const std::string type_this =
      format("mpirun -n {} collctl {} --vs mpi",
             options.ranks > 0 ? options.ranks : base::usable_cores(), command);
  COLL_ASSIGN(const auto found, launcher::adopted_rank(base::environment));
  using launcher::Engine;
  const bool by_mpi = options.joins() && options.join.empty() && found &&
                      (found->engine == Engine::open_mpi || found->engine == Engine::pmi ||
                       found->engine == Engine::pmix || found->engine == Engine::slurm);
  if (!by_mpi)
    return Error(ErrorCode::unavailable,
                 "--vs mpi: only MPI's own launcher makes one MPI job of the ranks, and it has not "
                 "started them",
                 type_this);
  if (options.store)
    return Error(
        ErrorCode::unavailable,
        format("--vs mpi: {} tells rank and size over the connection that MPI itself needs",
               found->from),
        type_this);
  options.meet_in_mpi = true;
  return {};
}

void note_hosts(const LaunchOptions& options, const std::string& command, Console& console) {
  for (const std::string& warning : options.hosts.warnings) console.note(warning);
  if (!options.hosts.hosts.empty() || options.launcher != LauncherKind::local || options.joins())
    return;
  const auto allocation = launcher::allocation_of(base::environment);
  if (!allocation || allocation->node_count == 1) return;
  const bool by_srun =
      std::string_view(allocation->scheduler) == "Slurm" && command != "check" && on_path("srun");
  console.note(
      format("{} job {} has {}, of which this host alone is used. All of them: collctl {} {}{}",
             allocation->scheduler, allocation->job, allocation->nodes, command, allocation->option,
             by_srun ? ", or srun --mpi=pmi2 collctl " + command : std::string()));
}

}  // namespace collctl::cmd
