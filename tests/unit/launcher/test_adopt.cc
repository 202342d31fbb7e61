// Which rank another engine made of this process.
#include <map>

#include "launcher/adopt.h"
#include "tests/catch.h"

using namespace collctl;
using namespace collctl::launcher;

namespace {

Result<std::optional<Adopted>> adopted(const std::map<std::string, std::string>& environment) {
  return adopted_rank([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

}  // namespace

TEST_CASE("no engine: nothing") {
  auto none = adopted({{"HOME", "/"}});
  REQUIRE(none.ok());
  CHECK_FALSE(none->has_value());
}

TEST_CASE("each engine's variables; the inner one wins") {
  auto torchrun = adopted({{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  REQUIRE((torchrun.ok() && torchrun->has_value()));
  CHECK((*torchrun)->rank == 3);
  CHECK((*torchrun)->size == 4);
  auto both = adopted({{"SLURM_PROCID", "0"},
                       {"SLURM_NTASKS", "1"},
                       {"SLURM_STEP_ID", "0"},
                       {"OMPI_COMM_WORLD_RANK", "5"},
                       {"OMPI_COMM_WORLD_SIZE", "8"}});
  REQUIRE((both.ok() && both->has_value()));
  CHECK((*both)->rank == 5);
  auto slurm = adopted({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}});
  REQUIRE((slurm.ok() && slurm->has_value()));
  CHECK((*slurm)->from == "Slurm (SLURM_PROCID)");
}

TEST_CASE("a batch script is no rank") {
  auto batch = adopted({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  REQUIRE(batch.ok());
  CHECK_FALSE(batch->has_value());
}

TEST_CASE("contradictions show the variables") {
  for (const std::map<std::string, std::string>& bad :
       {std::map<std::string, std::string>{{"RANK", "4"}, {"WORLD_SIZE", "4"}},
        {{"RANK", "1"}},
        {{"RANK", "-1"}, {"WORLD_SIZE", "4"}},
        {{"RANK", "one"}, {"WORLD_SIZE", "4"}},
        {{"RANK", "99999999999"}, {"WORLD_SIZE", "4"}}}) {
    auto wrong = adopted(bad);
    REQUIRE_FALSE(wrong.ok());
    CHECK(wrong.error().code == ErrorCode::usage);
    CHECK(wrong.error().message.find("RANK='" + bad.at("RANK") + "'") != std::string::npos);
  }
}
