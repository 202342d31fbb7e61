#include "launcher/adopt.h"

#include <cstdlib>

#include "base/format.h"

namespace collctl::launcher {
namespace {

struct Engine {
  const char* name;
  const char* rank;
  const char* size;
};

// In order of precedence: inside a Slurm allocation mpirun's ranks carry both engines' variables,
// and the inner one is right.
constexpr Engine kEngines[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS"},
};

std::optional<int> whole_number(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::atoi(text.c_str());
}

}  // namespace

Result<std::optional<Adopted>> adopted_rank(const Lookup& environment) {
  for (const Engine& engine : kEngines) {
    const auto rank_text = environment(engine.rank);
    if (!rank_text || rank_text->empty()) continue;
    // A batch script sees SLURM_PROCID=0 although it is no rank: only steps are.
    if (std::string(engine.name) == "Slurm" && environment("SLURM_STEP_ID").value_or("").empty())
      continue;
    const auto size_text = environment(engine.size);
    const auto rank = whole_number(*rank_text);
    const auto size = whole_number(size_text.value_or(""));
    if (!rank || !size || *rank >= *size)
      return Error(
          ErrorCode::usage,
          format("{}: {}='{}' and {}='{}' do not name a rank: expected 0 <= rank < size",
                 engine.name, engine.rank, *rank_text, engine.size, size_text.value_or("")));
    return std::optional<Adopted>(
        Adopted{*rank, *size, format("{} ({})", engine.name, engine.rank)});
  }
  return std::optional<Adopted>();
}

}  // namespace collctl::launcher
