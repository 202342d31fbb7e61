// Which processors the ranks of a host are bound to (placement.h).
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/split.h"
#include "launcher/hosts/placement.h"

namespace collctl::launcher {
namespace {

base::Processor known_or_alone(int id, const base::Processors& processors) {
  const base::Processor* known = processors.find(id);
  return known != nullptr ? *known : base::Processor{.id = id, .core = id};
}

// Units to bind one rank to: the allowed processors of a physical core, or of a NUMA node, in the
// order in which they are near each other.
std::vector<std::vector<int>> units_of(BindTo bind_to, const std::vector<int>& allowed,
                                       const base::Processors& processors) {
  std::map<std::array<int, 3>, std::vector<int>> units;
  for (const int id : allowed) {
    const base::Processor p = known_or_alone(id, processors);
    const bool core = bind_to == BindTo::core;
    units[{p.numa, core ? p.cache_domain : 0, core ? p.core : 0}].push_back(id);
  }
  std::vector<std::vector<int>> list;
  for (auto& [key, unit] : units) list.push_back(std::move(unit));
  return list;
}

// A share of the allowed cores for each of at least two ranks; nothing where they are too few.
std::vector<std::vector<int>> shares_of(size_t ranks, const std::vector<int>& allowed,
                                        const base::Processors& processors) {
  auto units = units_of(BindTo::core, allowed, processors);
  if (units.size() < ranks) {  // threads of one core, then
    std::vector<std::vector<int>> single;
    for (const auto& unit : units)
      for (const int id : unit) single.push_back({id});
    units = std::move(single);
  }
  std::vector<std::vector<int>> shares(ranks);
  if (ranks < 2 || units.size() < ranks) return shares;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const size_t begin = rank * units.size() / ranks, end = (rank + 1) * units.size() / ranks;
    const int node = known_or_alone(units[(begin + end) / 2][0], processors).numa;
    for (size_t i = begin; i < end; ++i)
      if (known_or_alone(units[i][0], processors).numa == node)
        shares[rank].insert(shares[rank].end(), units[i].begin(), units[i].end());
    std::sort(shares[rank].begin(), shares[rank].end());
  }
  return shares;
}

// The number of an entry of CUDA_VISIBLE_DEVICES that is one.
std::optional<int> ordinal_of(const std::string& entry) {
  constexpr size_t kMostDigits = 4;
  if (entry.empty() || entry.size() > kMostDigits ||
      entry.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoi(entry);
}

// Its entries, without spaces.
std::vector<std::string> entries_of(const std::string& visible) {
  std::vector<std::string> list;
  for (const std::string_view entry : base::split(visible, ','))
    std::erase(list.emplace_back(entry), ' ');
  return list;
}

// The index of the GPU that an entry of CUDA_VISIBLE_DEVICES names, -1 for a part of one; nothing
// when it names none.
std::optional<int> named_gpu(const std::string& entry, const std::vector<base::NvidiaGpu>& gpus) {
  if (entry.rfind("MIG-", 0) == 0) return -1;
  if (entry.rfind("GPU-", 0) == 0) {
    // The beginning of a UUID is enough where it fits one only.
    std::optional<int> found;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (gpus[i].uuid.rfind(entry, 0) != 0) continue;
      if (found) return std::nullopt;
      found = int(i);
    }
    return found;
  }
  const std::optional<int> index = ordinal_of(entry);
  return index && *index < int(gpus.size()) ? index : std::nullopt;
}

// The allowed processors of a NUMA node, by the kernel's number.
std::vector<int> processors_of(int node, const std::vector<int>& allowed,
                               const base::Processors& processors) {
  std::vector<int> near;
  for (const int id : allowed) {
    const base::Processor* p = processors.find(id);
    if (p != nullptr && size_t(p->numa) < processors.nodes.size() &&
        processors.nodes[size_t(p->numa)].id == node)
      near.push_back(id);
  }
  return near;
}

}  // namespace

Result<BindTo> parse_bind_to(const std::string& text) {
  if (text == "none" || text.empty()) return BindTo::none;
  if (text == "own") return BindTo::own;
  if (text == "core") return BindTo::core;
  if (text == "numa") return BindTo::numa;
  if (text == "device") return BindTo::device;
  return Error(ErrorCode::usage, format("--bind-to {}: expected none, core, numa or device", text));
}

const char* name_of(BindTo bind_to) {
  switch (bind_to) {
    case BindTo::own:
      return "own";
    case BindTo::core:
      return "core";
    case BindTo::numa:
      return "numa";
    case BindTo::device:
      return "device";
    default:
      return "none";
  }
}

Result<BindTo> bind_of(const std::string& text, bool on_gpus) {
  if (text.empty()) return on_gpus ? BindTo::device : BindTo::own;
  COLL_ASSIGN(const BindTo bind_to, parse_bind_to(text));
  if (bind_to == BindTo::device && !on_gpus)
    return Error(ErrorCode::unavailable, "--bind-to device: these are CPU ranks, they have no GPU",
                 "use --bind-to core or --bind-to numa");
  return bind_to;
}

std::vector<int> visible_gpus(const std::optional<std::string>& visible,
                              const std::vector<base::NvidiaGpu>& gpus) {
  std::vector<int> list;
  if (!visible) {
    for (size_t i = 0; i < gpus.size(); ++i) list.push_back(int(i));
    return list;
  }
  std::set<int> seen;
  for (const std::string& entry : entries_of(*visible)) {
    const std::optional<int> gpu = named_gpu(entry, gpus);
    if (!gpu) break;
    if (*gpu >= 0 && !seen.insert(*gpu).second) return {};
    list.push_back(*gpu);
  }
  return list;
}

int gpus_left(const std::string& visible, int gpus) {
  std::set<std::string> seen;
  for (const std::string& entry : entries_of(visible)) {
    const std::optional<int> index = ordinal_of(entry);
    const bool named = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!named && (!index || *index >= gpus)) break;
    if (!seen.insert(index ? format("{}", *index) : entry).second) return 0;
  }
  return std::min(int(seen.size()), gpus);
}

std::vector<int> gpu_nodes(int ranks, const std::optional<std::string>& visible,
                           const std::vector<base::NvidiaGpu>& gpus) {
  const std::vector<int> ordinals = visible_gpus(visible, gpus);
  std::vector<int> nodes(size_t(std::max(ranks, 0)), -1);
  for (size_t rank = 0; rank < nodes.size() && !ordinals.empty(); ++rank)
    if (const int gpu = ordinals[rank % ordinals.size()]; gpu >= 0)
      nodes[rank] = gpus[size_t(gpu)].numa;
  return nodes;
}

std::vector<std::vector<int>> place_local(int ranks, BindTo bind_to,
                                          const std::vector<int>& allowed,
                                          const base::Processors& processors,
                                          const std::vector<int>& nodes) {
  std::vector<std::vector<int>> places(size_t(std::max(ranks, 0)));
  if (bind_to == BindTo::none) return places;
  if (bind_to == BindTo::device) {
    for (size_t rank = 0; rank < std::min(places.size(), nodes.size()); ++rank)
      places[rank] = processors_of(nodes[rank], allowed, processors);
    return places;
  }
  if (bind_to == BindTo::own) return shares_of(places.size(), allowed, processors);
  const auto units = units_of(bind_to, allowed, processors);
  if (units.empty()) return places;
  for (size_t rank = 0; rank < places.size(); ++rank)
    places[rank] = units[rank * units.size() / places.size()];
  return places;
}

std::vector<std::vector<int>> place_here(int ranks, BindTo bind_to,
                                         const std::optional<std::string>& visible) {
  if (bind_to == BindTo::own && ranks > base::usable_cores()) bind_to = BindTo::none;
  std::vector<int> nodes;
  if (bind_to == BindTo::device) nodes = gpu_nodes(ranks, visible, base::nvidia_gpus_here());
  return place_local(ranks, bind_to, base::affinity_cores(), base::host_processors(), nodes);
}

std::vector<std::vector<int>> place_here(int ranks, BindTo bind_to) {
  return place_here(ranks, bind_to, base::environment("CUDA_VISIBLE_DEVICES"));
}

}  // namespace collctl::launcher
