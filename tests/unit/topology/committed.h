// The machines of the committed files that have GPUs, and the channels found for two nodes of each:
// searched once for all tests, for the search is most of their time.
#pragma once
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/topology/data_files.h"
#include "topology/search/search.h"
#include "topology/xml/xml.h"

inline int fewest_machines() {
  using namespace collctl::test;
  return nightly() ? 60 : 54 / how_much(Sweep::committed_machines);
}

struct Committed {
  std::string path;
  collctl::topology::Graph graph;
  collctl::topology::Paths paths;
  collctl::topology::NodeGraphs found;  // for two nodes
};

inline const std::vector<Committed>& committed_machines() {
  static const std::vector<Committed> machines = [] {
    using namespace collctl::topology;
    std::vector<Committed> made;
    collctl::test::Part part(collctl::test::Sweep::committed_machines);
    for (const auto& path : data_files()) {
      if (!part.takes()) continue;
      INFO(path);
      const auto read = read_xml_file(path);
      REQUIRE(read.ok());
      const auto graph = make_graph(read->system, path);
      REQUIRE(graph.ok());
      if (graph->gpus.empty()) continue;
      const Paths paths = effective_paths(*graph, base_paths(*graph), {});
      made.push_back({path, *graph, paths, search_node(*graph, paths, {.nodes = 2})});
    }
    return made;
  }();
  return machines;
}
