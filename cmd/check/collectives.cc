#include "cmd/check/collectives.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kMostAtLevel[] = {1u << 20, 4u << 20, kMostBytesOnCores};
constexpr int kIterations[] = {5, 10, 20};

}  // namespace

std::vector<kernels::Collective> check_collectives(CheckLevel level) {
  using kernels::Collective;
  if (level == CheckLevel::quick) return {Collective::all_reduce, Collective::all_to_all};
  std::vector<Collective> all;
  for (int i = 0; i < kernels::kCollectiveCount; ++i) all.push_back(Collective(i));
  return all;
}

std::vector<std::string> node_sizes(CheckLevel level, bool longer) {
  return {"--min-bytes=8",
          "--max-bytes=" + std::to_string(kMostAtLevel[size_t(level)]),
          "--step-factor=32",
          "--iters=" + std::to_string(kIterations[size_t(level)] * (longer ? 4 : 1)),
          "--warmup=2",
          "--in-place=0"};
}

std::vector<std::string> way_sizes(CheckLevel level) {
  return {"--min-bytes=8",     level == CheckLevel::full ? "--max-bytes=2M" : "--max-bytes=128K",
          "--step-factor=128", "--iters=2",
          "--warmup=0",        "--in-place=0"};
}

double node_limit_s(CheckLevel level) {
  constexpr double kSeconds[] = {60, 120, 600};
  return kSeconds[size_t(level)];
}

BenchSpec cluster_spec(CheckLevel level, kernels::Collective collective) {
  BenchSpec spec;
  spec.collective = collective;
  spec.max_bytes = kMostAtLevel[size_t(level)];
  spec.max_bytes_given = true;
  spec.step_factor = 32;
  spec.iterations = kIterations[size_t(level)];
  spec.warmup = 2;
  spec.in_place = InPlace::out_of_place;
  return spec;
}

}  // namespace collctl::cmd
