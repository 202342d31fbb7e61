#include "cmd/report/paths.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/text/heat_map.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

struct End {
  size_t index = 0, failed = 0;
  double sum = 0;
  size_t passed = 0;
  double mean() const { return passed == 0 ? 0 : sum / double(passed); }
};

// In their order; of too many the worst.
std::vector<size_t> ends_to_draw(const PathMatrix& paths) {
  std::vector<End> ends(paths.ends.size());
  for (size_t from = 0; from < ends.size(); ++from) {
    ends[from].index = from;
    for (size_t to = 0; to < ends.size(); ++to) {
      const double value = paths.GBps[from][to];
      for (End* end : {&ends[from], &ends[to]}) {
        end->failed += value == 0;
        end->passed += value > 0;
        end->sum += std::max(value, 0.0);
      }
    }
  }
  if (ends.size() > kMostEnds) {
    std::ranges::stable_sort(ends, [](const End& a, const End& b) {
      return a.failed != b.failed ? a.failed > b.failed : a.mean() < b.mean();
    });
    ends.resize(kMostEnds);
  }
  std::vector<size_t> drawn;
  for (const End& end : ends) drawn.push_back(end.index);
  std::ranges::sort(drawn);
  return drawn;
}

}  // namespace

void fields(Record& io, PathMatrix& paths) {
  io.list("ends", paths.ends, [&](PathEnd& end) {
    std::string text = end.text();
    io.field("ends", text);
    if (!io.reading()) return;
    const size_t blank = text.find(' ');
    end.host = base::saved_host(text.substr(0, blank));
    end.nic = blank == std::string::npos ? "" : text.substr(blank + 1);
  });
  io.field("GBps", paths.GBps, Record::kMostEntries);
  if (io.has("busy", !paths.busy.empty()))
    io.list("busy", paths.busy, [&](Host& host) {
      io.field("busy", host.name);
      if (io.reading()) host = base::saved_host(host.name);
    });
  const size_t count = paths.ends.size();
  const auto fits = [&](const std::vector<double>& row) { return row.size() == count; };
  if (io.status() && (paths.GBps.size() != count || !std::ranges::all_of(paths.GBps, fits)))
    io.fail("GBps", "a row and a column for each of 'ends'");
}

void add_paths(PathMatrix& paths, const PathMatrix& more) {
  std::vector<size_t> place;
  for (const PathEnd& end : more.ends) {
    const auto known = std::ranges::find(paths.ends, end);
    place.push_back(size_t(known - paths.ends.begin()));
    if (known == paths.ends.end()) paths.ends.push_back(end);
  }
  for (const Host& host : more.busy)
    if (!paths.is_busy(host)) paths.busy.push_back(host);
  paths.GBps.resize(paths.ends.size());
  for (auto& row : paths.GBps) row.resize(paths.ends.size(), kNotTried);
  for (size_t i = 0; i < place.size(); ++i)
    for (size_t j = 0; j < place.size(); ++j)
      if (double& value = paths.GBps[place[i]][place[j]]; value == kNotTried)
        value = more.GBps[i][j];
}

std::string paths_svg(const std::string& title, const PathMatrix& paths) {
  const std::vector<size_t> drawn = ends_to_draw(paths);
  HeatMap map{.title = "from rows to columns, GB/s", .rows_are = "from", .columns_are = "to"};
  if (drawn.size() < paths.ends.size())
    map.title += format(" (the worst {} of {} ends)", drawn.size(), paths.ends.size());
  bool tried = false;
  for (const size_t from : drawn) {
    map.rows.push_back(paths.ends[from].text());
    map.columns.push_back(map.rows.back());
    for (const size_t to : drawn) {
      HeatCell& cell = map.cells.emplace_back();
      const double value = paths.GBps[from][to];
      if (value < 0) continue;
      tried = true;
      cell.value = value;
      cell.fault = value == 0;
      if (value == 0) cell.word = "X";
      cell.tip = format("{} to {}: {}", paths.ends[from].text(), paths.ends[to].text(),
                        value == 0 ? "nothing passes" : four_digits(value) + " GB/s");
    }
  }
  return tried ? heat_map_svg(title, {map}) : "";
}

}  // namespace collctl::cmd
