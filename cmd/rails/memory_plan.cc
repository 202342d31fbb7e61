#include <algorithm>
#include <set>

#include "cmd/judge/blame.h"
#include "cmd/rails/memory.h"

namespace collctl::runtime {
namespace {

bool go_together(const RailNic& from, const RailNic& to, int roce_version) {
  return judge_rail(from, to, roce_version).end == RailEnd::ok;
}

// -1: none.
int partner_of(const RailNic& nic, const RailHost& there, int roce_version) {
  int first = -1;
  for (size_t j = 0; j < there.nics.size(); ++j) {
    if (!go_together(nic, there.nics[j], roce_version)) continue;
    if (there.nics[j].name == nic.name) return int(j);
    if (first < 0) first = int(j);
  }
  return first;
}

int nearest_nic(const RailGpu& gpu) {
  const auto at = std::ranges::find_if(gpu.nics, [](const GpuToNic& nic) { return nic.near; });
  return at == gpu.nics.end() ? -1 : int(at - gpu.nics.begin());
}

}  // namespace

std::vector<MemoryTrial> plan_trials(const RailHost& from, const RailHost& to,
                                     const std::pair<int, int>& hosts, bool one_host,
                                     bool every_nic, int roce_version) {
  std::vector<MemoryTrial> gpus;
  const auto add = [&](int from_gpu, int from_nic, int to_gpu, int to_nic) {
    if (gpus.size() < kMostTrials / 2)
      gpus.push_back({.from = hosts.first,
                      .to = hosts.second,
                      .from_gpu = from_gpu,
                      .to_gpu = to_gpu,
                      .from_nic = from_nic,
                      .to_nic = to_nic,
                      .there = {},
                      .back = {},
                      .curve = {}});
  };
  for (size_t g = 0; g < from.gpus.list.size(); ++g)
    for (size_t n = 0; n < from.gpus.list[g].nics.size(); ++n)
      if (every_nic || from.gpus.list[g].nics[n].near)
        if (const int other = partner_of(from.nics[n], to, roce_version); other >= 0)
          add(int(g), int(n), kHostMemory, other);
  if (!one_host) {
    for (size_t g = 0; g < to.gpus.list.size(); ++g)
      for (size_t n = 0; n < to.gpus.list[g].nics.size(); ++n)
        if (every_nic || to.gpus.list[g].nics[n].near)
          if (const int other = partner_of(to.nics[n], from, roce_version); other >= 0)
            add(kHostMemory, other, int(g), int(n));
    for (size_t g = 0; g < std::min(from.gpus.list.size(), to.gpus.list.size()); ++g) {
      const int a = nearest_nic(from.gpus.list[g]), b = nearest_nic(to.gpus.list[g]);
      if (a >= 0 && b >= 0 && go_together(from.nics[size_t(a)], to.nics[size_t(b)], roce_version))
        add(int(g), a, int(g), b);
    }
  }
  std::set<std::pair<int, int>> nics;
  std::vector<MemoryTrial> plan;
  for (MemoryTrial trial : gpus) {
    if (!nics.emplace(trial.from_nic, trial.to_nic).second) continue;
    trial.from_gpu = trial.to_gpu = kHostMemory;
    plan.push_back(std::move(trial));
  }
  plan.insert(plan.end(), gpus.begin(), gpus.end());
  return plan;
}

uint64_t large_size(uint64_t largest, uint64_t least, double GBps, double seconds) {
  constexpr double kTimes = 3;
  for (uint64_t size = largest; size > least; size /= kCurveStep)
    if (kTimes * double(size) <= GBps * 1e9 * seconds) return size;
  return 0;
}

namespace {

// The rounds of a tournament from one on, as far as each of these meets its partners.
HostRounds rounds_from(size_t first, const std::vector<bool>& wanted) {
  std::vector<int> partners(wanted.size(), 0);
  const auto lacks = [&](int host) {
    return wanted[size_t(host)] && partners[size_t(host)] < kMemoryPartners;
  };
  HostRounds rounds;
  const auto all = cmd::tournament(int(wanted.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    HostRounds::value_type made;
    for (const auto& [a, b] : all[(first + i) % all.size()])
      if (lacks(a) || lacks(b)) made.emplace_back(a, b);
    for (const auto& [a, b] : made) ++partners[size_t(a)], ++partners[size_t(b)];
    if (!made.empty()) rounds.push_back(std::move(made));
  }
  return rounds;
}

}  // namespace

HostRounds memory_rounds(const std::vector<bool>& with_gpus) {
  return rounds_from(0, with_gpus);
}

HostRounds memory_rounds_again(const std::vector<int>& open, int hosts, int round) {
  std::vector<bool> wanted(size_t(hosts), false);
  for (const int host : open) wanted[size_t(host)] = true;
  return rounds_from(size_t(kMemoryPartners) * size_t(1 + round), wanted);
}

}  // namespace collctl::runtime
