#include "launcher/adopt/adopt.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "base/whole_number.h"

namespace collctl::launcher {
namespace {

constexpr int kMostAdopted = 1 << 20;
// Slurm's steps that are no steps of tasks: pending, extern, batch, interactive (slurm.h).
constexpr long long kFirstSpecialStep = 0xfffffff0LL;

std::string value_of(const Lookup& environment, const char* name) {
  return environment(name).value_or("");  // an empty variable counts as unset
}

std::optional<int> count_in(const std::string& text) {
  const auto value = base::whole_number(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// One engine's variables. Several names: the first that is set.
struct LauncherRow {
  Engine engine;
  const char* rank;
  std::vector<const char*> size;
  const char* local_rank;
  const char* local_size;
};

const std::vector<LauncherRow>& rows() {
  static const std::vector<LauncherRow> table = {
      {Engine::collctl,
       "COLLCTL_RANK",
       {"COLLCTL_SIZE"},
       "COLLCTL_LOCAL_RANK",
       "COLLCTL_LOCAL_SIZE"},
      {Engine::open_mpi,
       "OMPI_COMM_WORLD_RANK",
       {"OMPI_COMM_WORLD_SIZE"},
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {Engine::pmi, "PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {Engine::torchrun, "RANK", {"WORLD_SIZE"}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
      // In a step SLURM_NTASKS is the step's too, unless somebody has exported the job's.
      {Engine::slurm,
       "SLURM_PROCID",
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
       "SLURM_LOCALID",
       ""},
      {Engine::kubernetes, "JOB_COMPLETION_INDEX", {"COLLCTL_SIZE"}, "", ""},
  };
  return table;
}

// The values of a row's variables, as texts.
struct FoundLauncher {
  const LauncherRow* row = nullptr;
  std::string rank, size, size_name;
};

std::string listed(const FoundLauncher& found) {
  const auto shown = [](const std::string& name, const std::string& value) {
    return value.empty() ? name + " is not set" : format("{}='{}'", name, value);
  };
  return shown(found.row->rank, found.rank) + ", " + shown(found.size_name, found.size);
}

FoundLauncher look(const LauncherRow& row, const Lookup& environment) {
  FoundLauncher found{&row, value_of(environment, row.rank), "", row.size.front()};
  for (const char* name : row.size) {
    found.size = value_of(environment, name);
    if (found.size.empty()) continue;
    found.size_name = name;
    break;
  }
  return found;
}

// Only the tasks of a step are ranks: an allocation's shell has SLURM_NTASKS, a batch script even
// SLURM_PROCID=0.
bool in_slurm_step(const Lookup& environment) {
  const auto step = base::whole_number<long long>(value_of(environment, "SLURM_STEP_ID"));
  return step && *step < kFirstSpecialStep && !value_of(environment, "SLURM_PROCID").empty();
}

bool present(const FoundLauncher& found, const Lookup& environment) {
  switch (found.row->engine) {
    case Engine::slurm:
      return in_slurm_step(environment);
    case Engine::kubernetes:
      return !found.rank.empty();
    case Engine::collctl:
      // COLLCTL_SIZE alone completes a Kubernetes index.
      return !found.rank.empty() ||
             (!found.size.empty() && value_of(environment, "JOB_COMPLETION_INDEX").empty());
    default:
      return !found.rank.empty() || !found.size.empty();
  }
}

Status check_numbers(const FoundLauncher& found) {
  const auto rank = count_in(found.rank), size = count_in(found.size);
  if (rank && size && *rank < *size && *size <= kMostAdopted) return {};
  const char* engine = engine_name(found.row->engine);
  std::string hint = "correct or unset them, or use --launcher local to start ranks here";
  if (found.row->engine == Engine::kubernetes && found.size.empty())
    hint = "set COLLCTL_SIZE to the job's completions (Kubernetes does not tell them to its pods)";
  return Error(
      ErrorCode::usage,
      format("the variables of {} do not give a valid rank: {}; expected both, with 0 <= rank < "
             "size",
             engine, listed(found)),
      hint);
}

bool same(const FoundLauncher& a, const FoundLauncher& b) {
  return a.rank == b.rank && a.size == b.size;
}

// Whether `inner` (adopted) explains that `other` says something else: a batch system's or a pod's
// variables are those of whatever holds the inner engine.
bool explained(const FoundLauncher& inner, const FoundLauncher& other,
               const std::vector<FoundLauncher>& all) {
  if (same(inner, other) || inner.row->engine == Engine::collctl) return true;
  if (other.row->engine == Engine::slurm || other.row->engine == Engine::kubernetes) return true;
  // srun --mpi=pmi2 gives its tasks, mpirun's daemons among them, PMI variables as well.
  if (other.row->engine == Engine::pmi)
    for (const FoundLauncher& found : all)
      if (found.row->engine == Engine::slurm && same(found, other)) return true;
  return false;
}

void take(Adopted& adopted, const char* what, const std::string& variable,
          const std::string& value) {
  adopted.sources.push_back({what, variable, value});
}

void take_slurm_local(Adopted& adopted, const Lookup& environment) {
  const std::string node = value_of(environment, "SLURM_NODEID");
  const std::string tasks = value_of(environment, "SLURM_STEP_TASKS_PER_NODE");
  const auto index = count_in(node);
  if (!index || tasks.empty()) return;
  adopted.local_size = slurm_tasks_on_node(tasks, *index);
  if (adopted.local_size > 0)
    take(adopted, "local size", "SLURM_STEP_TASKS_PER_NODE", format("{} (node {})", tasks, *index));
}

// Local rank and size are a help, not a need: what is not told stays unknown.
Status take_local(Adopted& adopted, const FoundLauncher& found, const Lookup& environment) {
  const LauncherRow& row = *found.row;
  const std::string rank = *row.local_rank == 0 ? "" : value_of(environment, row.local_rank);
  const std::string size = *row.local_size == 0 ? "" : value_of(environment, row.local_size);
  if (!rank.empty()) {
    take(adopted, "local rank", row.local_rank, rank);
    adopted.local_rank = count_in(rank).value_or(-1);
  }
  if (!size.empty()) {
    take(adopted, "local size", row.local_size, size);
    adopted.local_size = count_in(size).value_or(0);
  }
  if (row.engine == Engine::slurm) take_slurm_local(adopted, environment);
  const bool bad = (!rank.empty() && adopted.local_rank < 0) ||
                   (!size.empty() && adopted.local_size < 1) || adopted.local_size > adopted.size ||
                   (adopted.local_size > 0 && adopted.local_rank >= adopted.local_size);
  if (!bad) return {};
  std::string list;
  for (const auto& source : adopted.sources)
    list += format("{}{}='{}'", list.empty() ? "" : ", ", source.variable, source.value);
  return Error(ErrorCode::usage,
               format("{}: {} contradict each other: expected 0 <= local rank < local size <= size",
                      engine_name(row.engine), list),
               "correct or unset them, or use --launcher local to start ranks here");
}

// PMI_PORT without PMI_RANK (mpiexec -pmi-port) and PMIX_RANK alone: the rest is asked for later.
std::optional<Adopted> told_later(const Lookup& environment) {
  Adopted adopted;
  adopted.rank = -1;
  adopted.size = 0;
  const auto from = [&](Engine engine, const char* variable) {
    adopted.engine = engine;
    adopted.from = format("{} ({})", engine_name(engine), variable);
    take(adopted, "rank", variable, value_of(environment, variable));
    return adopted;
  };
  if (!value_of(environment, "PMI_PORT").empty() && !value_of(environment, "PMI_ID").empty())
    return from(Engine::pmi, "PMI_PORT");
  if (!value_of(environment, "PMIX_RANK").empty() &&
      !value_of(environment, "PMIX_NAMESPACE").empty())
    return from(Engine::pmix, "PMIX_RANK");
  return std::nullopt;
}

Error disagreement(const FoundLauncher& a, const FoundLauncher& b) {
  return Error(ErrorCode::usage,
               format("{} and {} disagree about this process: {}; {}", engine_name(a.row->engine),
                      engine_name(b.row->engine), listed(a), listed(b)),
               "unset the variables of one of them, or set COLLCTL_RANK and COLLCTL_SIZE");
}

// Everything that is said about a rank here, in the order of precedence.
Result<std::vector<FoundLauncher>> everything_found(const Lookup& environment) {
  std::vector<FoundLauncher> all;
  for (const LauncherRow& row : rows()) {
    FoundLauncher found = look(row, environment);
    if (!present(found, environment)) continue;
    // An explicit setting of our own goes before all other variables.
    if (!all.empty() && all.front().row->engine == Engine::collctl) break;
    // A pod's index matters only when nothing else speaks.
    if (!all.empty() && row.engine == Engine::kubernetes) break;
    // The numbers of an outer engine are not ours to judge.
    if (all.empty() || row.engine != Engine::slurm) COLL_TRY(check_numbers(found));
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace

const char* engine_name(Engine engine) {
  switch (engine) {
    case Engine::collctl:
      return "collctl";
    case Engine::open_mpi:
      return "Open MPI";
    case Engine::pmi:
      return "PMI";
    case Engine::torchrun:
      return "torchrun";
    case Engine::slurm:
      return "Slurm";
    case Engine::pmix:
      return "PMIx";
    case Engine::kubernetes:
      return "Kubernetes";
  }
  return "?";
}

const std::vector<const char*>& inner_rank_variables() {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> list = {"PMI_FD", "PMI_PORT", "PMI_ID", "PMIX_RANK", "PMIX_NAMESPACE"};
    for (const LauncherRow& row : rows()) {
      if (row.engine == Engine::slurm || row.engine == Engine::kubernetes) continue;
      list.insert(list.end(), {row.rank, row.local_rank, row.local_size});
      list.insert(list.end(), row.size.begin(), row.size.end());
    }
    return list;
  }();
  return names;
}

int slurm_tasks_on_node(const std::string& tasks_per_node, int node) {
  const char* at = tasks_per_node.data();
  const char* const end = at + tasks_per_node.size();
  const auto number = [&](int& to) {
    const auto [next, failure] = std::from_chars(at, end, to);
    at = next;
    return failure == std::errc() && to > 0 && to <= kMostAdopted;
  };
  int answer = 0;
  while (at < end) {
    int tasks = 0, times = 1;
    if (!number(tasks)) return 0;
    if (at < end && *at == '(') {
      if (end - at < 3 || at[1] != 'x') return 0;
      at += 2;
      if (!number(times) || at == end || *at++ != ')') return 0;
    }
    if (node >= 0 && node < times) answer = tasks;
    node -= times;
    if (at < end && (*at++ != ',' || at == end)) return 0;
  }
  return answer;
}

Result<std::optional<Adopted>> adopted_rank(const Lookup& environment) {
  COLL_ASSIGN(const std::vector<FoundLauncher> all, everything_found(environment));
  if (all.empty()) return told_later(environment);
  const FoundLauncher& first = all.front();
  for (size_t i = 1; i < all.size(); ++i)
    if (!explained(first, all[i], all)) return disagreement(first, all[i]);
  Adopted adopted;
  adopted.engine = first.row->engine;
  adopted.rank = *count_in(first.rank);
  adopted.size = *count_in(first.size);
  adopted.from = format("{} ({})", engine_name(adopted.engine), first.row->rank);
  take(adopted, "rank", first.row->rank, first.rank);
  take(adopted, "size", first.size_name, first.size);
  COLL_TRY(take_local(adopted, first, environment));
  // srun's own PMI names no local ranks, its step does.
  if (adopted.engine == Engine::pmi && adopted.local_size == 0)
    for (const FoundLauncher& found : all)
      if (found.row->engine == Engine::slurm && same(found, first))
        COLL_TRY(take_local(adopted, found, environment));
  return std::optional<Adopted>(std::move(adopted));
}

namespace {

Result<Rendezvous> torch_rendezvous(const Lookup& environment) {
  const std::string host = value_of(environment, "MASTER_ADDR");
  const std::string port = value_of(environment, "MASTER_PORT");
  const char* const need =
      "set the same COLLCTL_TOKEN for all ranks (then rank 0 listens at MASTER_PORT + 1), and "
      "COLLCTL_COMM_ID=HOST:PORT where that port is taken";
  if (host.empty() || port.empty())
    return Error(
        ErrorCode::usage,
        "torchrun's ranks have no rendezvous address: MASTER_ADDR or MASTER_PORT is not set",
        "set COLLCTL_COMM_ID=HOST:PORT (a free port of rank 0's host) and COLLCTL_TOKEN "
        "for all ranks");
  if (value_of(environment, "COLLCTL_TOKEN").empty())
    return Error(ErrorCode::usage,
                 format("torchrun's MASTER_ADDR={} MASTER_PORT={} belong to its own store, and "
                        "there is no COLLCTL_TOKEN to protect another port from strangers",
                        host, port),
                 need);
  const auto number = count_in(port);
  if (!number || *number < 1 || *number > 65534)
    return Error(ErrorCode::usage, format("MASTER_PORT='{}': expected 1..65534", port), need);
  const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
  return Rendezvous{RendezvousKind::address,
                    format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", *number + 1),
                    "MASTER_ADDR and MASTER_PORT + 1"};
}

Error no_rendezvous(const Adopted& adopted) {
  std::string hint =
      "set COLLCTL_COMM_ID=HOST:PORT (a free port of rank 0's host) and the same COLLCTL_TOKEN for "
      "all ranks, or use --join HOST:PORT --rank R --size N";
  if (adopted.engine == Engine::slurm) hint = "start them with srun --mpi=pmi2; or " + hint;
  return Error(ErrorCode::usage,
               format("rank {} of {} by {} has no rendezvous address", adopted.rank, adopted.size,
                      adopted.from),
               hint);
}

}  // namespace

Result<Rendezvous> rendezvous_of(const Adopted& adopted, const Lookup& environment) {
  for (const char* name : {"COLLCTL_COMM_ID", "NCCL_COMM_ID"})
    if (const std::string at = value_of(environment, name); !at.empty())
      return Rendezvous{RendezvousKind::address, at, name};
  if (adopted.size == 1) return Rendezvous{RendezvousKind::alone, "", "one rank"};
  // An outer engine's store knows other ranks: only the one that counts them as we do.
  const auto counts_alike = [&](const char* rank, const char* size) {
    return count_in(value_of(environment, rank)) == adopted.rank &&
           count_in(value_of(environment, size)) == adopted.size;
  };
  if (adopted.engine == Engine::pmi || counts_alike("PMI_RANK", "PMI_SIZE"))
    for (const char* name : {"PMI_FD", "PMI_PORT"})
      if (!value_of(environment, name).empty()) return Rendezvous{RendezvousKind::pmi, "", name};
  const bool pmix = adopted.engine == Engine::pmix ||
                    counts_alike("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE") ||
                    (adopted.engine == Engine::slurm &&
                     count_in(value_of(environment, "PMIX_RANK")) == adopted.rank);
  if (pmix && !value_of(environment, "PMIX_NAMESPACE").empty())
    return Rendezvous{RendezvousKind::pmix, "", "PMIX_NAMESPACE"};
  if (adopted.engine == Engine::torchrun) return torch_rendezvous(environment);
  return no_rendezvous(adopted);
}

std::optional<Allocation> allocation_of(const Lookup& environment) {
  const std::string nodes = value_of(environment, "SLURM_JOB_NODELIST");
  if (const std::string file = value_of(environment, "PBS_NODEFILE");
      nodes.empty() && !file.empty())
    return Allocation{"PBS", value_of(environment, "PBS_JOBID"), file, 0,
                      "--hostfile \"$PBS_NODEFILE\""};
  if (nodes.empty() || in_slurm_step(environment)) return std::nullopt;
  std::string count = value_of(environment, "SLURM_JOB_NUM_NODES");
  if (count.empty()) count = value_of(environment, "SLURM_NNODES");
  return Allocation{"Slurm", value_of(environment, "SLURM_JOB_ID"), nodes,
                    count_in(count).value_or(0), "-H \"$SLURM_JOB_NODELIST\""};
}

}  // namespace collctl::launcher
