// Curves of a burn-in over time.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "cmd/check/burn.h"
#include "cmd/measure/gpu_clocks.h"
#include "cmd/text/sizes.h"
#include "cmd/text/svg.h"

namespace collctl::cmd {
namespace {

constexpr double kBurnLeft = 64, kBurnWidth = 780, kBurnHeight = 150, kBurnText = 11;
constexpr size_t kMostBurnCurves = 24;
constexpr size_t kBurnColours = 8;  // path.curve0 .. path.curve7 of the style sheet

struct BurnPanel {
  const char* title;
  double BurnSample::*value;
};
constexpr BurnPanel kBurnPanels[] = {{"power, W", &BurnSample::power_W},
                                     {"clock, MHz", &BurnSample::clock_MHz},
                                     {"temperature, C", &BurnSample::temperature_C},
                                     {"temperature of memory, C", &BurnSample::memory_C}};

void burn_label(Picture& picture, Point at, const std::string& what, const char* style = "",
                bool bold = false) {
  picture.texts.push_back({at, what, style, kBurnText, bold, false, false});
}

// The height it ends at; the same where no sample has the value.
double add_panel(Picture& picture, double y, const BurnPanel& panel,
                 std::span<const BurntDevice* const> devices, double seconds) {
  double most = 0;
  for (const BurntDevice* burnt : devices)
    for (const BurnSample& sample : burnt->device.samples)
      most = std::max(most, sample.*panel.value);
  if (most <= 0) return y;
  const double step = std::pow(10, std::floor(std::log10(most)));
  const double top = step * std::ceil(most / step);
  burn_label(picture, {kBurnLeft, y + kBurnText}, panel.title, "", true);
  y += kBurnText + 10;
  for (int i = 0; i <= 4; ++i) {
    const double at = y + kBurnHeight * (1 - i / 4.0);
    picture.lines.push_back(
        {{{kBurnLeft, at}, {kBurnLeft + kBurnWidth, at}}, 0.5, "sys", "", false, false});
    const std::string label = format("{:g}", top * i / 4);
    burn_label(picture, {kBurnLeft - 8 - text_width(label, kBurnText, false), at + 4}, label,
               "muted");
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    std::vector<Point> points;
    for (const BurnSample& sample : devices[d]->device.samples)
      if (sample.*panel.value > 0)
        points.push_back({kBurnLeft + kBurnWidth * sample.at_s / seconds,
                          y + kBurnHeight * (1 - sample.*panel.value / top)});
    if (points.size() > 1)
      picture.lines.push_back({std::move(points), 1.5, format("curve{}", d % kBurnColours),
                               format("{} {}", devices[d]->host, devices[d]->device.device), false,
                               false});
  }
  const std::string end = duration_text(seconds);
  burn_label(picture, {kBurnLeft, y + kBurnHeight + 16}, "0 s", "muted");
  burn_label(picture,
             {kBurnLeft + kBurnWidth - text_width(end, kBurnText, false), y + kBurnHeight + 16},
             end, "muted");
  return y + kBurnHeight + 34;
}

}  // namespace

std::string burn_svg(const std::vector<BurntDevice>& burnt) {
  std::vector<const BurntDevice*> devices;
  double seconds = 0;
  for (const BurntDevice& one : burnt) {
    if (one.device.samples.empty()) continue;
    devices.push_back(&one);
    seconds = std::max(seconds, one.device.samples.back().at_s);
  }
  if (devices.empty() || seconds <= 0) return "";
  // Those with faults first, then as they come.
  std::stable_partition(devices.begin(), devices.end(),
                        [](const BurntDevice* one) { return !one->device.wrong.empty(); });
  const size_t all = devices.size();
  if (all > kMostBurnCurves) devices.resize(kMostBurnCurves);
  Picture picture;
  picture.title = all == devices.size()
                      ? "Burn-in over time"
                      : format("Burn-in over time, {} of {} devices", devices.size(), all);
  picture.width = kBurnLeft + kBurnWidth + 40;
  double y = 24;
  burn_label(picture, {kBurnLeft, y}, picture.title, "", true);
  y += 18;
  for (const BurnPanel& panel : kBurnPanels) y = add_panel(picture, y, panel, devices, seconds);
  for (size_t d = 0; d < devices.size(); ++d, y += 17) {
    picture.lines.push_back({{{kBurnLeft, y + 6}, {kBurnLeft + 26, y + 6}},
                             2,
                             format("curve{}", d % kBurnColours),
                             "",
                             false,
                             false});
    uint64_t throttled = 0;
    for (const BurnSample& sample : devices[d]->device.samples) throttled |= sample.throttled;
    burn_label(
        picture, {kBurnLeft + 34, y + 10},
        format("{} {} {}{}", devices[d]->host, devices[d]->device.device, devices[d]->device.model,
               throttled == 0 ? "" : ", throttled: " + throttle_words(throttled)));
  }
  picture.height = y + 12;
  return write_svg(picture);
}

}  // namespace collctl::cmd
