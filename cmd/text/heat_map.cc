#include "cmd/text/heat_map.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.h"
#include "cmd/text/sizes.h"
#include "cmd/text/svg.h"

namespace collctl::cmd {
namespace {

constexpr double kMapMargin = 24, kMapGap = 30;
constexpr double kFont = 11, kTitleFont = 14;
constexpr double kHeight = 22;       // of a cell with its number
constexpr double kSmallCell = 9;     // of one without
constexpr size_t kMostNumbers = 24;  // columns that show numbers
constexpr int kShades = 8;           // rect.heat0 .. rect.heat7 of the style sheet
constexpr size_t kLegendSteps = 4;
constexpr double kWidestStraight = 44;                   // a longer name of a column is turned
constexpr double kWidestTurned = 150;                    // and this much of it is shown
constexpr double kTurnedUp = 0.77, kTurnedRight = 0.65;  // by 50 degrees

// Shades by the logarithm of how many times worse a value is than the median of its kind. One that
// is not worse by a twentieth is as light as one that is better: that is noise, not news.
class Scale {
 public:
  explicit Scale(const HeatMap& map) : less_is_better_(map.less_is_better) {
    std::map<std::string, std::vector<double>> values;
    for (const HeatCell& cell : map.cells)
      if (cell.value > 0) values[cell.kind].push_back(cell.value);
    for (auto& [kind, list] : values) {
      const auto middle = list.begin() + int64_t(list.size() / 2);
      std::nth_element(list.begin(), middle, list.end());
      median_[kind] = *middle;
    }
    for (const HeatCell& cell : map.cells)
      if (cell.value > 0) worst_ = std::max(worst_, times_worse(cell));
  }
  bool none() const { return median_.empty(); }
  double at(double part) const { return std::pow(worst_, part); }
  std::string shade(const HeatCell& cell) const { return shade(times_worse(cell)); }
  std::string shade(double times) const { return format("heat{}", step(times)); }
  // Dark, or a fault.
  bool stands_out(const HeatCell& cell) const {
    return cell.fault || (cell.value > 0 && step(times_worse(cell)) >= kDark);
  }

 private:
  static constexpr double kNoise = 1.05, kLeastWorst = 2;
  static constexpr int kDark = 5;
  int step(double times) const {
    const double part = times < kNoise ? 0 : std::log(times) / std::log(worst_);
    return std::clamp(int(part * kShades), 0, kShades - 1);
  }
  double times_worse(const HeatCell& cell) const {
    const double usual = median_.at(cell.kind);
    return less_is_better_ ? cell.value / usual : usual / cell.value;
  }
  bool less_is_better_;
  double worst_ = kLeastWorst;
  std::map<std::string, double> median_;
};

struct Panel {
  const HeatMap& map;
  Picture& picture;
  double label_width = 0, cell_w = kSmallCell, cell_h = kSmallCell;
  double turned_width = 0;  // of the longest name of a column, where names are turned
  bool numbers = false;

  Panel(const HeatMap& m, Picture& p) : map(m), picture(p) {
    numbers = map.columns.size() <= kMostNumbers;
    for (const std::string& row : map.rows)
      label_width = std::max(label_width, text_width(row, kFont, false));
    label_width = std::max(label_width, text_width(map.rows_are, kFont, false)) + 10;
    double widest = 0;
    for (const std::string& column : map.columns)
      widest = std::max(widest, text_width(column, kFont, false));
    if (widest > kWidestStraight) turned_width = std::min(widest, kWidestTurned);
    if (!numbers) return;
    cell_h = kHeight;
    cell_w = 30;
    for (const HeatCell& cell : map.cells)
      cell_w = std::max(cell_w, text_width(words(cell), kFont, false) + 10);
    if (turned_width == 0) cell_w = std::max(cell_w, widest + 8);
  }

  static std::string words(const HeatCell& cell) {
    return cell.value > 0 ? four_digits(cell.value) : cell.word;
  }
  void text(Point at, const std::string& what, const char* style = "", bool centred = false,
            double size = kFont, bool bold = false) {
    picture.texts.push_back({at, what, style, size, bold, centred, false});
  }
  // Which names of a large matrix there is room for: of what stands out most first.
  std::vector<size_t> named(size_t count, double each, const std::vector<size_t>& outliers) const {
    std::vector<size_t> order, chosen;
    for (size_t i = 0; i < count; ++i) order.push_back(i);
    if (each >= kFont + 2) return order;
    const size_t step = std::max<size_t>(1, count / 16);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      const bool even_a = a % step == 0, even_b = b % step == 0;
      return outliers[a] != outliers[b] ? outliers[a] > outliers[b] : even_a && !even_b;
    });
    for (const size_t i : order) {
      const bool wanted = outliers[i] > 0 || i % step == 0;
      const bool room = std::ranges::none_of(chosen, [&](size_t other) {
        return (i > other ? i - other : other - i) * each < kFont + 2;
      });
      if (wanted && room) chosen.push_back(i);
    }
    return chosen;
  }

  double draw(double y) {
    const Scale scale(map);
    const double left = kMapMargin + label_width;
    text({kMapMargin, y + kTitleFont}, map.title, "", false, kTitleFont - 1, true);
    y += kTitleFont + 22;
    text({left, y - 2}, map.columns_are, "muted");
    y += 16 + turned_width * kTurnedUp;
    std::vector<size_t> row_outliers(map.rows.size()), column_outliers(map.columns.size());
    for (size_t i = 0; i < map.cells.size(); ++i) {
      if (!scale.stands_out(map.cells[i])) continue;
      ++row_outliers[i / map.columns.size()];
      ++column_outliers[i % map.columns.size()];
    }
    // Straight names need room beside each other, turned ones a line's height.
    const double room = turned_width > 0 ? cell_w : cell_w / 2;
    for (const size_t c : named(map.columns.size(), numbers ? kFont * 2 : room, column_outliers)) {
      const std::string name = turned_width == 0
                                   ? map.columns[c]
                                   : fitted_text(map.columns[c], turned_width, kFont, false);
      text({left + (double(c) + 0.5) * cell_w, y - 3}, name, "muted", turned_width == 0);
      picture.texts.back().turned = turned_width > 0;
    }
    text({kMapMargin, y - 3}, map.rows_are, "muted");
    y += 3;
    for (size_t r = 0; r < map.rows.size(); ++r)
      for (size_t c = 0; c < map.columns.size(); ++c)
        cell(scale, r, c, left, y + double(r) * cell_h);
    for (const size_t r : named(map.rows.size(), cell_h, row_outliers))
      text({kMapMargin, y + (double(r) + 0.5) * cell_h + kFont * 0.36}, map.rows[r]);
    y += double(map.rows.size()) * cell_h + 8;
    picture.width = std::max(
        {picture.width,
         left + double(map.columns.size()) * cell_w + turned_width * kTurnedRight + kMapMargin,
         kMapMargin * 2 + text_width(map.title, kTitleFont, true)});
    return scale.none() ? y : legend(scale, left, y);
  }

  void cell(const Scale& scale, size_t r, size_t c, double left, double top) {
    const HeatCell& cell = map.cells[r * map.columns.size() + c];
    const Box box{left + double(c) * cell_w, top, cell_w, cell_h};
    const std::string shade = cell.value > 0 ? scale.shade(cell) : cell.fault ? "broken" : "heat";
    picture.boxes.push_back({box, shade, cell.tip, cell.fault, false});
    if (numbers && !words(cell).empty())
      picture.texts.push_back({{box.middle(), top + cell_h / 2 + kFont * 0.36},
                               words(cell),
                               cell.value > 0 || cell.fault ? "on" + shade : "muted",
                               kFont,
                               false,
                               true,
                               false});
  }

  double legend(const Scale& scale, double left, double y) {
    double x = left;
    for (size_t i = 0; i <= kLegendSteps; ++i) {
      const double value = scale.at(double(i) / kLegendSteps);
      const std::string label = format("{:.3g}", value);
      picture.boxes.push_back({{x, y, 14, 12}, scale.shade(value), "", false, false});
      text({x + 18, y + 10}, label, "muted");
      x += 18 + text_width(label, kFont, false) + 12;
    }
    const std::string what = "times worse than the median of its kind";
    text({x, y + 10}, what, "muted");
    x += text_width(what, kFont, false);
    picture.width = std::max(picture.width, x + kMapMargin);
    return y + 16;
  }
};

}  // namespace

std::string heat_map_svg(const std::string& title, const std::vector<HeatMap>& maps) {
  Picture picture;
  picture.title = title;
  picture.texts.push_back(
      {{kMapMargin, kMapMargin + kTitleFont}, title, "", kTitleFont, true, false, false});
  picture.width = text_width(title, kTitleFont, true) + 2 * kMapMargin;
  double y = kMapMargin + kTitleFont + 14;
  for (const HeatMap& map : maps) y = Panel(map, picture).draw(y) + kMapGap;
  picture.height = y - kMapGap + kMapMargin;
  return write_svg(picture);
}

}  // namespace collctl::cmd
