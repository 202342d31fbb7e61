#include "cmd/check/gpus_usual.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/judge/usual.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr double kGpuBusyPart = 0.5;  // of what is asked of a host that others had meanwhile

// A figure as more is better; and back.
double gpu_goodness(double value, bool less) {
  return value <= 0 ? 0 : less ? 1 / value : value;
}

struct GpuAt {
  size_t report = 0;
  int gpu = 0;
  auto operator<=>(const GpuAt&) const = default;
};

// Board and paths to the others.
std::string end_kind(const GpuReport& report, size_t gpu) {
  std::vector<std::string> paths;
  for (const GpuPair& pair : report.pairs)
    if (size_t(pair.from) == gpu) paths.push_back(pair.why.empty() ? pair.path : "none");
  std::ranges::sort(paths);
  return report.gpus[gpu].model + " " + joined(paths);
}

template <class Kind>
std::map<Kind, double> middle_of(const std::map<Kind, std::vector<double>>& values) {
  std::map<Kind, double> usual;
  for (const auto& [kind, alike] : values) usual[kind] = nth_best(alike, (alike.size() + 1) / 2);
  return usual;
}

}  // namespace

GpuUsual::PairKind GpuUsual::kind_of(const GpuReport& report, const GpuPair& pair,
                                     PairFigure figure) {
  return {figure, report.gpus[size_t(pair.from)].model, report.gpus[size_t(pair.to)].model,
          pair.path};
}

GpuUsual::GpuUsual(std::span<const GpuReport> reports) {
  Usual<PairKind, GpuAt> pairs;
  std::map<TotalKind, std::vector<double>> totals;
  std::map<LegKind, std::vector<double>> legs;
  for (size_t r = 0; r < reports.size(); ++r) {
    const GpuReport& report = reports[r];
    for (const GpuPair& pair : report.pairs)
      for (size_t f = 0; f < kPairFigures; ++f)
        if (const double value = pair.figures[f]; value > 0)
          pairs.add(kind_of(report, pair, PairFigure(f)), {r, pair.from}, {r, pair.to},
                    gpu_goodness(value, less_is_better(PairFigure(f))));
    for (size_t g = 0; g < report.gpus.size(); ++g) {
      const std::string kind = end_kind(report, g);
      for (size_t t = 0; t < kGpuTotals.size(); ++t)
        if (const double value = report.gpus[g].*kGpuTotals[t].value; value > 0)
          totals[{t, kind}].push_back(value);
    }
    for (const HostLeg& leg : report.legs)
      for (size_t w = 0; w < kGpuLegWays.size(); ++w)
        legs[{w, report.gpus[size_t(leg.gpu)].model, leg.distance}].push_back(leg.*
                                                                              kGpuLegWays[w].value);
  }
  pairs_ = pairs.values();
  totals_ = middle_of(totals);
  legs_ = middle_of(legs);
}

double GpuUsual::pair(const GpuReport& report, const GpuPair& pair, PairFigure figure) const {
  const auto at = pairs_.find(kind_of(report, pair, figure));
  return at == pairs_.end() ? 0 : gpu_goodness(at->second, less_is_better(figure));
}

double GpuUsual::total(size_t total, const GpuReport& report, size_t gpu) const {
  return totals_.at({total, end_kind(report, gpu)});
}

double GpuUsual::leg(size_t way, const GpuReport& report, const HostLeg& leg) const {
  return legs_.at({way, report.gpus[size_t(leg.gpu)].model, leg.distance});
}

GpuFigure held_figure(double value, const GpuAsked& asked, const char* name, const char* unit) {
  GpuFigure out;
  out.text = format("{} {} {}", name, four_digits(value), unit);
  const double good = gpu_goodness(value, asked.less_is_better),
               usual = gpu_goodness(asked.usual, asked.less_is_better);
  if (usual > 0) {
    out.ratio = good / usual;
    out.text += format(", {} is usual", four_digits(asked.usual));
  }
  if (asked.floor != nullptr && value < asked.floor->GBps) {
    out.by_floor = true;
    out.ratio = std::min(out.ratio, value / asked.floor->GBps);
    out.text += ", " + asked.floor->text();
  }
  const bool short_of = out.by_floor || out.ratio < asked.below;
  out.pardoned = short_of && !asked.busy.empty() && out.ratio >= kGpuBusyPart * asked.below;
  out.bad = short_of && !out.pardoned;
  return out;
}

}  // namespace collctl::cmd
