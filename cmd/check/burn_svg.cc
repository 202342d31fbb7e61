// Curves of a burn-in over time.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/burn.h"
#include "cmd/measure/gpu_clocks.h"
#include "cmd/text/chart.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostBurnCurves = 24;

struct BurnPanel {
  const char* title;
  double BurnSample::*value;
};
constexpr BurnPanel kBurnPanels[] = {{"power, W", &BurnSample::power_W},
                                     {"clock, MHz", &BurnSample::clock_MHz},
                                     {"temperature, C", &BurnSample::temperature_C},
                                     {"temperature of memory, C", &BurnSample::memory_C}};

ChartCurve curve_of(const BurntDevice& burnt, size_t colour, double BurnSample::*value) {
  ChartCurve curve{.name = format("{} {}", burnt.host, burnt.device.device), .colour = colour};
  for (const BurnSample& sample : burnt.device.samples)
    if (sample.*value > 0) curve.points.push_back({sample.at_s, sample.*value});
  return curve;
}

// Times in which something slowed it down, and the moments in which errors were counted.
ChartLane lane_of(const BurntDevice& burnt, size_t colour) {
  ChartLane lane{.name = format("{} {}", burnt.host, burnt.device.device), .colour = colour};
  const auto& samples = burnt.device.samples;
  for (size_t i = 0; i < samples.size();) {
    size_t end = i + 1;
    while (end < samples.size() && samples[end].throttled == samples[i].throttled) ++end;
    if (samples[i].throttled != 0)
      lane.spans.push_back({samples[i].at_s, samples[std::min(end, samples.size() - 1)].at_s,
                            "throttled: " + throttle_words(samples[i].throttled)});
    i = end;
  }
  for (const BurnEvent& event : burnt.device.events)
    lane.ticks.push_back(
        {event.at_s, format("{}: {} more at {:.4g} s", event.what, event.more, event.at_s), true});
  return lane;
}

}  // namespace

std::string burn_svg(const std::vector<BurntDevice>& burnt) {
  std::vector<const BurntDevice*> devices;
  double seconds = 0;
  for (const BurntDevice& one : burnt) {
    if (one.device.samples.empty() && one.device.events.empty()) continue;
    devices.push_back(&one);
    if (!one.device.samples.empty()) seconds = std::max(seconds, one.device.samples.back().at_s);
    for (const BurnEvent& event : one.device.events) seconds = std::max(seconds, event.at_s);
  }
  if (devices.empty() || seconds <= 0) return "";
  // Those with faults first, then as they come.
  std::stable_partition(devices.begin(), devices.end(), [](const BurntDevice* one) {
    return !one->device.wrong.empty() || !one->device.events.empty();
  });
  const size_t all = devices.size();
  if (all > kMostBurnCurves) devices.resize(kMostBurnCurves);
  Chart chart{.title = all == devices.size()
                           ? "Burn-in over time"
                           : format("Burn-in over time, {} of {} devices", devices.size(), all)};
  chart.high = seconds;
  chart.marks = {{0, "0 s"}, {seconds, duration_text(seconds)}};
  for (const BurnPanel& panel : kBurnPanels) {
    ChartPanel& made = chart.panels.emplace_back(ChartPanel{.title = panel.title});
    for (size_t d = 0; d < devices.size(); ++d)
      made.curves.push_back(curve_of(*devices[d], d, panel.value));
  }
  chart.lanes_title = "slowed down, and errors";
  for (size_t d = 0; d < devices.size(); ++d)
    if (ChartLane lane = lane_of(*devices[d], d); !lane.spans.empty() || !lane.ticks.empty())
      chart.lanes.push_back(std::move(lane));
  for (size_t d = 0; d < devices.size(); ++d) {
    uint64_t throttled = 0;
    for (const BurnSample& sample : devices[d]->device.samples) throttled |= sample.throttled;
    chart.list.push_back(
        {.name = format("{} {} {}{}", devices[d]->host, devices[d]->device.device,
                        devices[d]->device.model,
                        throttled == 0 ? "" : ", throttled: " + throttle_words(throttled)),
         .colour = d});
  }
  return chart_svg(chart);
}

}  // namespace collctl::cmd
