// Remaining bandwidth of a machine's links while channels are laid over them. A message from one
// end to another costs its bandwidth on every link of its path, some links more, by the rules
// below. Used by the search only; not for two threads at once.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/graph/paths.h"

namespace collctl::topology {

// 1e3 bytes per second. Whole numbers, so that what is taken can be given back exactly, and a link
// of 370.8 GB/s carries six channels of 60 and not five because of rounding.
using Rate = int64_t;
Rate rate_of(double gbps);
double gbps_of(Rate rate);

class LinkLoads {
 public:
  // Both must outlive this.
  LinkLoads(const Graph& graph, const Paths& paths);
  // Takes `rate` from every link on the path between two endpoints; false, and nothing taken, when
  // a link has too little left or there is no path. From an end to itself costs nothing.
  bool take(int from, int to, Rate rate);
  // Gives back what take() took.
  void give(int from, int to, Rate rate);

 private:
  // `rate` x numerator / denominator is taken from the link.
  struct Charge {
    int link;
    int numerator, denominator;
    Rate of(Rate rate) const { return rate * numerator / denominator; }
  };
  struct Route {
    bool known = false, possible = false;
    std::vector<Charge> charges;
  };
  const Route& route(int from, int to);
  Route make_route(const Path& path) const;
  int link_index(int from, int to, PathType worst) const;
  int reverse_of(int from, const GraphLink& link) const;

  const Graph& graph_;
  const Paths& paths_;
  std::vector<int> first_link_;  // of each node
  std::vector<Rate> left_;       // by link
  std::vector<int> row_;         // of each node among the endpoints
  std::vector<Route> routes_;    // made when first needed
};

}  // namespace collctl::topology
