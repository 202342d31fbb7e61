#include "launcher/placement.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::launcher {

Result<BindTo> parse_bind_to(const std::string& text) {
  if (text == "none" || text.empty()) return BindTo::none;
  if (text == "core") return BindTo::core;
  if (text == "numa") return BindTo::numa;
  if (text == "device")
    return Error(ErrorCode::unavailable,
                 "--bind-to device: the ranks of this build are CPU ranks, they have no GPU",
                 "use --bind-to core or --bind-to numa");
  return Error(ErrorCode::usage, format("--bind-to {}: expected none, core, numa or device", text));
}

std::vector<std::vector<int>> place_local(int ranks, BindTo bind_to, const std::vector<int>& cores,
                                          const std::vector<base::NumaNode>& nodes) {
  std::vector<std::vector<int>> places(size_t(std::max(ranks, 0)));
  std::vector<std::vector<int>> units;  // what one rank is bound to
  if (bind_to == BindTo::core)
    for (const int core : cores) units.push_back({core});
  if (bind_to == BindTo::numa)
    for (const base::NumaNode& node : nodes) {
      std::vector<int> usable;
      for (const int core : node.cores)
        if (std::find(cores.begin(), cores.end(), core) != cores.end()) usable.push_back(core);
      if (!usable.empty()) units.push_back(std::move(usable));
    }
  if (units.empty()) return places;
  for (size_t rank = 0; rank < places.size(); ++rank)
    places[rank] =
        units[bind_to == BindTo::core ? rank % units.size() : rank * units.size() / places.size()];
  return places;
}

}  // namespace collctl::launcher
