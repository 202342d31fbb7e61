// A topology file with its graph and paths, and small ones written in place.
#pragma once
#include <string>

#include "tests/catch.h"
#include "tests/unit/topology/data_files.h"
#include "topology/graph/decide.h"
#include "topology/xml/xml.h"

struct Machine {
  collctl::topology::Graph graph;
  collctl::topology::Paths paths;

  int gpu(int dev) const {
    for (const int at : graph.gpus)
      if (graph.nodes[size_t(at)].dev == dev) return at;
    FAIL("no GPU " << dev);
    return -1;
  }
  int net(int dev) const {
    for (const int at : graph.nets)
      if (graph.nodes[size_t(at)].dev == dev) return at;
    FAIL("no network device " << dev);
    return -1;
  }
  void check(int a, int b, collctl::topology::PathType type, double gbps, int hops) const {
    using namespace collctl::topology;
    const Path& path = paths.at(a, b);
    INFO(node_name(graph, a) << " to " << node_name(graph, b));
    CHECK(path_type_name(path.type) == std::string(path_type_name(type)));
    CHECK(path.gbps == Approx(gbps));
    CHECK(path.hops == hops);
  }
  void check_gpus(int a, int b, collctl::topology::PathType type, double gbps, int hops) const {
    check(gpu(a), gpu(b), type, gbps, hops);
  }
  void check_net(int dev, int net_dev, collctl::topology::PathType type, double gbps,
                 int hops) const {
    check(gpu(dev), net(net_dev), type, gbps, hops);
  }
  bool has_finding(const std::string& part) const {
    for (const auto& finding : graph.findings)
      if (finding.what.find(part) != std::string::npos) return true;
    return false;
  }
};

inline Machine parse(const std::string& text, const std::string& name = "f.xml") {
  const auto read = collctl::topology::read_xml(text, name);
  if (!read.ok()) FAIL(read.error().message);
  auto graph = collctl::topology::make_graph(read->system, name);
  if (!graph.ok()) FAIL(graph.error().message);
  Machine machine{std::move(*graph), {}};
  machine.paths = collctl::topology::base_paths(machine.graph);
  return machine;
}

inline Machine load(const std::string& name) {
  return parse(data_text(data_path(name)), name);
}

// One Sapphire Rapids socket with these devices.
inline std::string chip(const std::string& inner, const std::string& numa = "0") {
  return "<system version=\"1\"><cpu numaid=\"" + numa +
         "\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">" + inner +
         "</cpu></system>";
}
inline std::string device(const std::string& bus, const std::string& inner,
                          const std::string& speed = "16.0 GT/s PCIe", int width = 16) {
  return "<pci busid=\"0000:" + bus + ":00.0\" link_speed=\"" + speed + "\" link_width=\"" +
         std::to_string(width) + "\">" + inner + "</pci>";
}
inline std::string gpu(int dev, const std::string& inner = "", int sm = 80) {
  const std::string number = std::to_string(dev);
  return "<gpu dev=\"" + number + "\" rank=\"" + number + "\" sm=\"" + std::to_string(sm) +
         "\" gdr=\"1\">" + inner + "</gpu>";
}
inline std::string nvlink(const std::string& bus, int count) {
  return "<nvlink target=\"0000:" + bus + ":00.0\" count=\"" + std::to_string(count) +
         "\" tclass=\"0x030200\"/>";
}
