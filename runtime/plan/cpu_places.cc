#include "runtime/plan/cpu_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/host_facts.h"
#include "topology/bandwidth.h"

namespace collctl::runtime {
namespace {

double memory_of_node(const base::Processors& processors, const base::NumaDomain& node) {
  if (node.memory_gbps > 0) return node.memory_gbps;
  const auto& model = processors.model;
  const double socket = topology::memory_bandwidth(model.vendor, model.family, model.model);
  const double nodes = double(processors.nodes.size());
  return nodes > 0 ? socket * std::max(1, processors.packages) / nodes : 0;
}

double between_nodes(const base::Processors& processors) {
  if (processors.nodes.size() < 2) return 0;
  const auto& model = processors.model;
  const auto found =
      topology::cpu_bandwidth(base::machine_name(), model.vendor, model.family, model.model);
  return found.assumed.empty() ? found.gbps : 0;
}

// The links of the ranks of one host, in their order.
LocalLinks links_of(const std::vector<int32_t>& ranks, std::span<const CpuPlace> places) {
  LocalLinks links;
  std::map<std::pair<int, int>, int> crossings;  // ring edges from NUMA node to NUMA node
  std::map<int, int> on_node, on_cache;
  const auto place = [&](size_t i) -> const CpuPlace& { return places[size_t(ranks[i])]; };
  for (size_t i = 0; i < ranks.size(); ++i) {
    const CpuPlace &a = place(i), &b = place((i + 1) % ranks.size());
    links.farthest = std::max(links.farthest, uint8_t(nearness(a, b)));
    if (a.numa != b.numa) ++crossings[{a.numa, b.numa}];
    ++on_node[a.numa];
    ++on_cache[a.cache];
  }
  const CpuPlace& first = place(0);
  for (const auto& [nodes, count] : crossings) links.crossings = std::max(links.crossings, count);
  for (const auto& [node, count] : on_node)
    links.ranks_per_node = std::max(links.ranks_per_node, count);
  int on_fullest = 1;
  for (const auto& [cache, count] : on_cache) on_fullest = std::max(on_fullest, count);
  links.cache_bytes = (uint64_t{first.cache_kib} << 10) / uint64_t(on_fullest);
  links.memory_gbps = double(first.memory_gbps);
  links.socket_gbps = double(first.socket_gbps);
  const Calibration& measured =
      places[size_t(*std::min_element(ranks.begin(), ranks.end()))].calibration;
  links.line_us = double(measured.line_us[std::min<int>(links.farthest, kNearnessCount - 1)]);
  std::copy(std::begin(measured.window_gbps), std::end(measured.window_gbps),
            links.window_gbps.begin());
  return links;
}

// The lower limit of the two; 0 stands for unknown.
template <class T>
T lower(T a, T b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

}  // namespace

CpuPlace cpu_place(const base::Processors& processors, std::span<const int> allowed) {
  CpuPlace place;
  const base::Processor* first = nullptr;
  for (const int id : allowed) {
    const base::Processor* at = processors.find(id);
    if (at == nullptr) continue;
    if (first == nullptr) first = at;
    const Nearness far = at->package != first->package             ? Nearness::host
                         : at->cache_domain != first->cache_domain ? Nearness::socket
                                                                   : Nearness::cache;
    place.span = std::max(place.span, uint8_t(far));
  }
  if (first == nullptr) return place;
  place.cache = first->cache_domain;
  place.package = int16_t(std::min(first->package, 32767));
  place.numa = int16_t(first->numa);
  place.cache_kib = uint32_t(std::min<uint64_t>(processors.cache_bytes >> 10, ~0u));
  place.memory_gbps = float(memory_of_node(processors, processors.nodes[size_t(first->numa)]));
  place.socket_gbps = float(between_nodes(processors));
  return place;
}

void sanitize(CpuPlace& place) {
  place.span = std::min(place.span, uint8_t(kNearnessCount - 1));
  for (float* gbps : {&place.memory_gbps, &place.socket_gbps})
    if (!(*gbps > 0 && *gbps < 1e6F)) *gbps = 0;
  sanitize(place.calibration);
}

Nearness nearness(const CpuPlace& a, const CpuPlace& b) {
  const Nearness apart = a.package != b.package                   ? Nearness::host
                         : a.cache != b.cache || a.numa != b.numa ? Nearness::socket
                                                                  : Nearness::cache;
  return Nearness(std::max({uint8_t(apart), a.span, b.span}));
}

HostGroups by_nearness(const HostGroups& hosts, std::span<const CpuPlace> places) {
  HostGroups near = hosts;
  const auto key = [&](int32_t rank) {
    const CpuPlace& at = places[size_t(rank)];
    return std::make_tuple(at.package, at.numa, at.cache, rank);
  };
  for (auto& host : near)
    std::sort(host.begin(), host.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return near;
}

LocalLinks local_links(const HostGroups& near, std::span<const CpuPlace> places) {
  LocalLinks worst;
  for (const auto& host : near) {
    const LocalLinks links = links_of(host, places);
    worst.farthest = std::max(worst.farthest, links.farthest);
    worst.crossings = std::max(worst.crossings, links.crossings);
    worst.ranks_per_node = std::max(worst.ranks_per_node, links.ranks_per_node);
    worst.cache_bytes = lower(worst.cache_bytes, links.cache_bytes);
    worst.memory_gbps = lower(worst.memory_gbps, links.memory_gbps);
    worst.socket_gbps = lower(worst.socket_gbps, links.socket_gbps);
    worst.line_us = std::max(worst.line_us, links.line_us);
    for (size_t i = 0; i < worst.window_gbps.size(); ++i)
      worst.window_gbps[i] = lower(worst.window_gbps[i], links.window_gbps[i]);
  }
  return worst;
}

}  // namespace collctl::runtime
