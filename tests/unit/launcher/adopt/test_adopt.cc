// Which rank another engine made of this process, and where its ranks meet.
#include <map>
#include <random>

#include "launcher/adopt/adopt.h"
#include "tests/catch.h"

namespace adopt_adopt_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup(const Variables& environment) {
  return [environment](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_RANK", "5"},
                            {"PMIX_NAMESPACE", "462684161"}};
const Variables kHydra = {{"PMI_RANK", "2"},
                          {"PMI_SIZE", "4"},
                          {"PMI_FD", "6"},
                          {"MPI_LOCALRANKID", "0"},
                          {"MPI_LOCALNRANKS", "2"}};
const Variables kTorchrun = {{"RANK", "3"},         {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"},
                             {"COLLCTL_TOKEN", "t"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_STEP_NUM_TASKS", "5"},
                          {"SLURM_NTASKS", "16"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2,1,2"},
                          {"SLURM_JOB_NODELIST", "n[1-3]"}};
const Variables kSlurmPmi2 =
    kSlurm + Variables{{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"PMI_FD", "9"}};

Adopted taken(const Variables& environment) {
  const auto found = adopted_rank(lookup(environment));
  REQUIRE(found.ok());
  REQUIRE(found->has_value());
  return **found;
}

std::string refused(const Variables& environment) {
  const auto found = adopted_rank(lookup(environment));
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().code == ErrorCode::usage);
  CHECK_FALSE(found.error().hint.empty());
  return found.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_place(const Adopted& a, Engine engine, int rank, int size, int local_rank,
                 int local_size) {
  INFO(a.from);
  CHECK(a.engine == engine);
  CHECK(a.rank == rank);
  CHECK(a.size == size);
  CHECK(a.local_rank == local_rank);
  CHECK(a.local_size == local_size);
}

}  // namespace

TEST_CASE("no engine: nothing") {
  const auto none = adopted_rank(lookup({{"HOME", "/"}, {"RANK", ""}, {"COLLCTL_SIZE", ""}}));
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
}

TEST_CASE("each engine's variables") {
  check_place(taken(kOpenMpi), Engine::open_mpi, 5, 8, 1, 4);
  check_place(taken(kHydra), Engine::pmi, 2, 4, 0, 2);
  check_place(taken(kTorchrun), Engine::torchrun, 3, 4, 1, 2);
  check_place(taken(kSlurm), Engine::slurm, 3, 5, 0, 2);
  check_place(taken(kSlurmPmi2), Engine::pmi, 3, 5, 0, 2);
  check_place(taken({{"JOB_COMPLETION_INDEX", "1"}, {"COLLCTL_SIZE", "3"}}), Engine::kubernetes, 1,
              3, -1, 0);
  check_place(taken({{"COLLCTL_RANK", "1"},
                     {"COLLCTL_SIZE", "3"},
                     {"COLLCTL_LOCAL_RANK", "0"},
                     {"COLLCTL_LOCAL_SIZE", "1"}}),
              Engine::collctl, 1, 3, 0, 1);
}

TEST_CASE("what was taken from where is told") {
  const Adopted a = taken(kSlurm);
  CHECK(a.from == "Slurm (SLURM_PROCID)");
  REQUIRE(a.sources.size() == 4);
  CHECK(a.sources[1].variable == "SLURM_STEP_NUM_TASKS");
  CHECK(a.sources[1].value == "5");
  CHECK(a.sources[3].variable == "SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("engines inside each other: the inner one counts") {
  check_place(taken(kOpenMpi + kSlurm), Engine::open_mpi, 5, 8, 1, 4);
  // mpirun whose daemons srun --mpi=pmi2 has started.
  check_place(taken(kOpenMpi + kSlurmPmi2), Engine::open_mpi, 5, 8, 1, 4);
  check_place(taken(kHydra + kSlurm), Engine::pmi, 2, 4, 0, 2);
  check_place(taken(kTorchrun + kSlurm), Engine::torchrun, 3, 4, 1, 2);
  check_place(taken(kTorchrun + Variables{{"JOB_COMPLETION_INDEX", "7"}}), Engine::torchrun, 3, 4,
              1, 2);
  // Nonsense of an outer engine is not ours to judge.
  check_place(
      taken(kOpenMpi +
            Variables{{"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "1"}}),
      Engine::open_mpi, 5, 8, 1, 4);
}

TEST_CASE("explicit variables go before every engine") {
  const Variables mine = {{"COLLCTL_RANK", "0"}, {"COLLCTL_SIZE", "2"}};
  check_place(taken(mine + kOpenMpi + kTorchrun), Engine::collctl, 0, 2, -1, 0);
}

TEST_CASE("engines that disagree are refused with their variables") {
  const std::string text = refused(kOpenMpi + kTorchrun);
  CHECK(has(text, "OMPI_COMM_WORLD_RANK='5'"));
  CHECK(has(text, "OMPI_COMM_WORLD_SIZE='8'"));
  CHECK(has(text, "RANK='3'"));
  CHECK(has(text, "WORLD_SIZE='4'"));
  CHECK(has(refused(kHydra + kTorchrun), "PMI and torchrun disagree"));
  CHECK(has(refused(kOpenMpi + kHydra), "Open MPI and PMI disagree"));
  // A wrapper that copies the engine's numbers disagrees with nobody.
  check_place(taken(kOpenMpi + Variables{{"RANK", "5"}, {"WORLD_SIZE", "8"}}), Engine::open_mpi, 5,
              8, 1, 4);
}

TEST_CASE("contradictions and missing halves are refused with the values") {
  const std::vector<Variables> bad = {
      {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "0"}},
      {{"WORLD_SIZE", "4"}},
      {{"RANK", "-1"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "one"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "1x"}, {"WORLD_SIZE", "4"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "99999999"}},
      {{"OMPI_COMM_WORLD_RANK", "1"}},
      {{"PMI_SIZE", "2"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}},
      {{"JOB_COMPLETION_INDEX", "3"}},
      {{"JOB_COMPLETION_INDEX", "3"}, {"COLLCTL_SIZE", "3"}},
      {{"COLLCTL_RANK", "0"}},
      {{"COLLCTL_SIZE", "2"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "8"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "x"}}};
  for (const Variables& variables : bad) {
    const std::string text = refused(variables);
    INFO(text);
    for (const auto& [name, value] : variables)
      if (name != "SLURM_STEP_ID") CHECK(has(text, name + "='" + value + "'"));
  }
  CHECK(has(refused({{"RANK", "0"}}), "WORLD_SIZE is not set"));
}

TEST_CASE("only the tasks of a Slurm step are ranks") {
  for (const char* step : {"", "4294967291", "4294967290", "4294967292", "batch"}) {
    const Variables shell = {{"SLURM_PROCID", "0"},  {"SLURM_NTASKS", "4"},
                             {"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n[1-4]"},
                             {"SLURM_NNODES", "4"},  {"SLURM_STEP_ID", step}};
    INFO(step);
    const auto found = adopted_rank(lookup(shell));
    REQUIRE(found.ok());
    CHECK_FALSE(found->has_value());
    const auto allocation = allocation_of(lookup(shell));
    REQUIRE(allocation.has_value());
    CHECK(allocation->job == "17");
    CHECK(allocation->nodes == "n[1-4]");
    CHECK(allocation->node_count == 4);
  }
  CHECK_FALSE(allocation_of(lookup(kSlurm)).has_value());
  CHECK_FALSE(allocation_of(lookup({})).has_value());
  const auto pbs =
      allocation_of(lookup({{"PBS_JOBID", "12.head"}, {"PBS_NODEFILE", "/var/spool/12"}}));
  REQUIRE(pbs.has_value());
  CHECK(std::string_view(pbs->scheduler) == "PBS");
  CHECK(pbs->nodes == "/var/spool/12");
}

TEST_CASE("tasks per node of a Slurm step") {
  CHECK(slurm_tasks_on_node("4", 0) == 4);
  CHECK(slurm_tasks_on_node("2(x3),1", 0) == 2);
  CHECK(slurm_tasks_on_node("2(x3),1", 2) == 2);
  CHECK(slurm_tasks_on_node("2(x3),1", 3) == 1);
  CHECK(slurm_tasks_on_node("2(x3),1", 4) == 0);
  for (const char* bad : {"", ",", "x", "2(", "2(x", "2(x3", "2(x0)", "-1", "2(x3)1", "0", "2,",
                          "2,,1", "99999999999"})
    CHECK(slurm_tasks_on_node(bad, 0) == 0);
}

TEST_CASE("engines that tell rank and size over their own connection") {
  const Adopted port = taken({{"PMI_PORT", "n1:4711"}, {"PMI_ID", "0"}});
  CHECK(port.engine == Engine::pmi);
  CHECK(port.size == 0);
  const Adopted pmix = taken({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}});
  CHECK(pmix.engine == Engine::pmix);
  CHECK(pmix.size == 0);
}

namespace {

Rendezvous rendezvous(const Variables& environment) {
  const auto m = rendezvous_of(taken(environment), lookup(environment));
  REQUIRE(m.ok());
  return *m;
}

Error no_rendezvous(const Variables& environment) {
  const auto m = rendezvous_of(taken(environment), lookup(environment));
  REQUIRE_FALSE(m.ok());
  CHECK(m.error().code == ErrorCode::usage);
  return m.error();
}

}  // namespace

TEST_CASE("where the ranks meet") {
  CHECK(rendezvous(kHydra).kind == RendezvousKind::pmi);
  CHECK(rendezvous(kHydra).from == "PMI_FD");
  CHECK(rendezvous(kSlurmPmi2).kind == RendezvousKind::pmi);
  CHECK(rendezvous(kOpenMpi).kind == RendezvousKind::pmix);
  // The store of srun's daemons counts other ranks than mpirun's.
  CHECK(rendezvous(kOpenMpi + kSlurmPmi2).kind == RendezvousKind::pmix);
  CHECK(rendezvous(kSlurm + Variables{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "x"}}).kind ==
        RendezvousKind::pmix);
  CHECK(rendezvous({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).kind == RendezvousKind::alone);
  // Explicit ranks use an engine's store only when it counts alike.
  const Variables mine = {{"COLLCTL_RANK", "2"}, {"COLLCTL_SIZE", "4"}};
  CHECK(rendezvous(mine + kHydra).kind == RendezvousKind::pmi);
  CHECK(no_rendezvous({{"COLLCTL_RANK", "1"},
                       {"COLLCTL_SIZE", "4"},
                       {"PMI_RANK", "2"},
                       {"PMI_SIZE", "4"},
                       {"PMI_FD", "6"}})
            .message.find("rank 1 of 4") != std::string::npos);
}

TEST_CASE("an address somebody has set goes before the engine's own means") {
  for (const Variables& engine : {kHydra, kOpenMpi, kSlurm, kTorchrun}) {
    const Rendezvous m = rendezvous(engine + Variables{{"COLLCTL_COMM_ID", "10.0.0.1:5000"}});
    CHECK(m.kind == RendezvousKind::address);
    CHECK(m.address == "10.0.0.1:5000");
    CHECK(m.from == "COLLCTL_COMM_ID");
  }
  CHECK(rendezvous(kSlurm + Variables{{"NCCL_COMM_ID", "n:1"}}).from == "NCCL_COMM_ID");
}

TEST_CASE("torchrun's ranks meet beside its own store, with a token only") {
  const Rendezvous m = rendezvous(kTorchrun);
  CHECK(m.kind == RendezvousKind::address);
  CHECK(m.address == "n1:29501");
  Variables v6 = kTorchrun;
  v6["MASTER_ADDR"] = "fd00::1";
  CHECK(rendezvous(v6).address == "[fd00::1]:29501");
  Variables open = kTorchrun;
  open.erase("COLLCTL_TOKEN");
  CHECK(has(no_rendezvous(open).hint, "COLLCTL_TOKEN"));
  for (const char* port : {"0", "65535", "x", "99999"}) {
    Variables bad = kTorchrun;
    bad["MASTER_PORT"] = port;
    CHECK(has(no_rendezvous(bad).message, port));
  }
  Variables homeless = kTorchrun;
  homeless.erase("MASTER_ADDR");
  CHECK(has(no_rendezvous(homeless).hint, "COLLCTL_COMM_ID"));
}

TEST_CASE("no rendezvous address: what to set is said") {
  const Error slurm = no_rendezvous(kSlurm);
  CHECK(has(slurm.message, "rank 3 of 5"));
  CHECK(has(slurm.hint, "srun --mpi=pmi2"));
  CHECK(has(slurm.hint, "COLLCTL_COMM_ID"));
  CHECK(has(no_rendezvous({{"JOB_COMPLETION_INDEX", "1"}, {"COLLCTL_SIZE", "3"}}).hint,
            "COLLCTL_COMM_ID"));
}

TEST_CASE("without its inner variables no engine claims a process") {
  for (Variables engine : {kHydra, kOpenMpi, kTorchrun, kSlurmPmi2}) {
    for (const char* name : inner_rank_variables()) engine.erase(name);
    const auto found = adopted_rank(lookup(engine));
    REQUIRE(found.ok());
    CHECK((!found->has_value() || (*found)->engine == Engine::slurm));
  }
}

TEST_CASE("whatever the variables say: a rank below its size, none, or an error with a hint") {
  const char* const names[] = {"COLLCTL_RANK",
                               "COLLCTL_SIZE",
                               "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_SIZE",
                               "PMI_RANK",
                               "PMI_SIZE",
                               "PMI_FD",
                               "RANK",
                               "WORLD_SIZE",
                               "LOCAL_RANK",
                               "LOCAL_WORLD_SIZE",
                               "SLURM_PROCID",
                               "SLURM_NTASKS",
                               "SLURM_STEP_ID",
                               "SLURM_NODEID",
                               "SLURM_STEP_TASKS_PER_NODE",
                               "JOB_COMPLETION_INDEX",
                               "PMIX_RANK",
                               "PMIX_NAMESPACE",
                               "MASTER_ADDR",
                               "MASTER_PORT",
                               "COLLCTL_TOKEN"};
  const char* const values[] = {"0",
                                "1",
                                "2",
                                "3",
                                "8",
                                "-1",
                                "x",
                                "",
                                " 1",
                                "1 ",
                                "2(x3)",
                                "4294967291",
                                "99999999999999999999",
                                "n1:5",
                                "\xff\xfe"};
  std::mt19937 random(1);
  int adopted = 0, errors = 0;
  for (int round = 0; round < 100000; ++round) {
    Variables environment;
    for (const char* name : names)
      if (random() % 6 == 0)
        environment[name] = values[random() % (random() % 4 == 0 ? std::size(values) : 5)];
    const auto found = adopted_rank(lookup(environment));
    if (!found.ok()) {
      ++errors;
      REQUIRE_FALSE(found.error().hint.empty());
      continue;
    }
    if (!found->has_value()) continue;
    ++adopted;
    const Adopted& a = **found;
    const bool sound = a.size == 0 || (a.rank >= 0 && a.rank < a.size && a.local_size <= a.size);
    REQUIRE(sound);
    const auto meeting = rendezvous_of(a, lookup(environment));
    if (!meeting.ok()) REQUIRE_FALSE(meeting.error().hint.empty());
  }
  CHECK(adopted > 1000);
  CHECK(errors > 1000);
}

}  // namespace adopt_adopt_tests
