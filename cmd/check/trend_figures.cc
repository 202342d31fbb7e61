// Speeds of past checks as series, and whether one declines.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/format.h"
#include "cmd/check/trend.h"
#include "cmd/measure/timing.h"
#include "cmd/report/compare.h"
#include "cmd/text/hosts.h"

namespace collctl::cmd {
namespace {

constexpr size_t kLeastValues = 6;   // that a trend is made of
constexpr double kSureTrend = 3;     // standard errors
constexpr double kLeastGBps = 1e-6;  // nothing passes: its logarithm

// The first or the second of two in the middle.
double middle(std::vector<double> values, bool second) {
  std::ranges::sort(values);
  return values[second ? values.size() / 2 : (values.size() - 1) / 2];
}

// Hosts that took part in the suite, of a figure that is of all of them.
std::string partners(const CheckReport& report, size_t suite) {
  std::vector<std::string> names;
  for (const Host& host : report.hosts) {
    const auto out = report.out.find(host);
    if (out == report.out.end() || suite_of(out->second) >= suite) names.push_back(host.name);
  }
  return folded_hosts(names);
}

}  // namespace

void judge_figure(TrendFigure& figure, double below) {
  std::ranges::stable_sort(figure.values,
                           [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<double> all, steps;
  for (const auto& [time, value] : figure.values) {
    if (!all.empty())
      steps.push_back(std::log(std::max(value, kLeastGBps) / std::max(all.back(), kLeastGBps)));
    all.push_back(value);
  }
  if (all.empty()) return;
  figure.first = all.front();
  figure.last = all.back();
  figure.median = median(all);
  figure.worst = *std::ranges::min_element(all);
  if (all.size() < kLeastValues) return;
  // In the middle of two: the one that speaks against a decline: a value that is alone is none.
  const auto third = ptrdiff_t(all.size() / 3);
  figure.early = middle({all.begin(), all.begin() + third}, false);
  figure.late = middle({all.end() - third, all.end()}, true);
  // From one value to the next a slow decline is about the same: the rest is how they scatter.
  const double usual = median(steps);
  for (double& step : steps) step = std::fabs(step - usual);
  const double scatter = 1.4826 / std::sqrt(2.0) * middle(std::move(steps), true);
  const double doubt = kSureTrend * 1.2533 * scatter * std::sqrt(2.0 / double(third));
  const double loss =
      std::log(std::max(figure.early, kLeastGBps) / std::max(figure.late, kLeastGBps));
  figure.declines = figure.late < below * figure.early && loss > doubt;
}

void TrendMaker::add_figures(const PastCheck& check) {
  const CheckReport& report = check.report;
  struct One {
    double GBps;
    bool spoilt;
  };
  std::map<Key, One> found;
  const std::string level = kCheckLevels[size_t(report.level)];
  for (const Finding& finding : report.findings) {
    if (finding.unit != "GB/s" || finding.at.kind == SubjectKind::link) continue;
    const double GBps = finding.figure();
    if (!std::isfinite(GBps) || GBps <= 0) continue;  // a rank alone on its host has none
    const std::string size = finding.basis.starts_with("bus bandwidth at ")
                                 ? finding.basis.substr(0, finding.basis.find(';'))
                                 : "";
    const std::string hosts =
        finding.at.host.named() ? "" : partners(report, suite_of(finding.name));
    found[{finding.name, finding.at, level, check.version, hosts, size}] = {
        GBps, finding.reason == kBusyHost};
  }
  for (const auto& [name, path] : path_figures(report.paths)) {
    Subject at{.kind = SubjectKind::link, .host = path.from, .peer = path.to};
    // "path node01 eth0 -> node02 eth0"
    const size_t arrow = name.first.find(" -> ");
    const size_t nic = 5 + path.from.name.size() + 1,
                 peer_nic = arrow + 4 + path.to.name.size() + 1;
    if (nic < arrow) at.device = name.first.substr(nic, arrow - nic);
    if (peer_nic < name.first.size()) at.peer_device = name.first.substr(peer_nic);
    found[{"path", at, level, check.version, "", ""}] = {path.number, path.spoilt};
  }
  for (const auto& [key, one] : found) {
    TrendFigure& figure = figures_[key];
    std::tie(figure.what, figure.at, figure.level, figure.version, figure.hosts, figure.size) = key;
    if (one.spoilt)
      ++figure.spoilt;
    else
      figure.values.emplace_back(check.unix_s, one.GBps);
  }
}

}  // namespace collctl::cmd
