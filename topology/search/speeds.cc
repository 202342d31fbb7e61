#include "topology/search/speeds.h"

#include <algorithm>

#include "topology/bandwidth.h"

namespace collctl::topology {
namespace {

constexpr int kAssumedSm = 80;

struct SpeedRow {
  int sm_from;
  std::vector<double> inside, network;
};

const std::vector<SpeedRow>& rows() {
  static const std::vector<SpeedRow> kRows = {
      {100,
       {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18},
       {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12}},
      {90,
       {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
       {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12}},
      {0,
       {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
       {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12}}};
  return kRows;
}

double gpu_total(const Node& gpu) {
  double nvlink = 0, pci = 0;
  for (const GraphLink& link : gpu.links) {
    if (link.kind == LinkKind::nvl) nvlink += link.gbps;
    if (link.kind == LinkKind::pci) pci = std::max(pci, link.gbps);
  }
  return std::max(nvlink, pci);
}

}  // namespace

const std::vector<double>& channel_speeds(int sm, bool network) {
  for (const SpeedRow& row : rows())
    if (sm >= row.sm_from) return network ? row.network : row.inside;
  return network ? rows().back().network : rows().back().inside;
}

SpeedLimits speed_limits(const SearchSite& site) {
  SpeedLimits limits{10000, 0, 0};
  const bool network = !site.nets().empty();
  for (const int gpu : site.gpus()) {
    const Node& node = site.graph().nodes[size_t(gpu)];
    limits.sm = std::min(limits.sm, node.amd || node.sm == 0 ? kAssumedSm : node.sm);
    limits.gpu_gbps = std::max(limits.gpu_gbps, gpu_total(node));
    for (const int end : network ? site.nets() : site.gpus())
      if (end != gpu && site.paths().at(gpu, end).type != PathType::dis)
        limits.path_gbps = std::max(limits.path_gbps, site.paths().at(gpu, end).gbps);
  }
  // A GPU by itself: nothing limits what it sends to itself.
  if (!network && site.gpus().size() == 1) limits.path_gbps = limits.gpu_gbps = kLocalGBps;
  return limits;
}

size_t first_speed(const std::vector<double>& speeds, double path_gbps, double total_gbps,
                   int min_channels) {
  size_t at = 0;
  while (at + 1 < speeds.size() &&
         (speeds[at] > path_gbps || speeds[at] * min_channels > total_gbps))
    ++at;
  return at;
}

}  // namespace collctl::topology
