// Matrices as pictures (SVG): one panel for each, a cell for each row and column, with its number
// while there is room and a tip in any case. A cell is the darker the worse its value is than the
// median of its kind, so that the bad ones stand out. Pure. Threads: any.
#pragma once
#include <string>
#include <vector>

namespace collctl::cmd {

struct HeatCell {
  double value = 0;       // <= 0: none
  std::string tip;        // all that is known of it
  std::string word;       // in place of a value: "-", "no route"
  std::string kind = {};  // cells that should be alike: a path, "NET/Socket"
  bool fault = false;
};
struct HeatMap {
  std::string title = {};
  std::string rows_are = {}, columns_are = {};  // "from rank", "to rank"
  std::vector<std::string> rows = {}, columns = {};
  std::vector<HeatCell> cells = {};  // by row
  bool less_is_better = false;
};

// Panels below one another under one title, with a legend each.
std::string heat_map_svg(const std::string& title, const std::vector<HeatMap>& maps);

}  // namespace collctl::cmd
