// Which links a rank needs: those that all ranks connect at start-up or for new choices, and those
// of a plan, connected at its first use. Pure; `rank` is the one that asks. Threads: any.
#pragma once
#include <vector>

#include "runtime/links/wire.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/shape.h"
#include "runtime/request/choices.h"

namespace collctl::runtime {

// Purposes of links (transport::LinkSpec).
constexpr uint32_t kCollectiveLinks = 0;  // that all ranks make together
constexpr uint32_t kPlanLinks = 1;        // of a plan's first use

// CPU ranks: all rings and trees that the choices allow, and the chains of in-network reduction
// where there is one. GPU ranks: the first ring, which shows how they reach each other, and what is
// wrong; their links are large, and the rest is connected at its first use.
std::vector<Edge> collective_edges(int rank, const CommShape& shape, const Choices& choices,
                                   bool gpu, bool has_reducers);

// Further links that a plan may need.
bool needs_links(const Plan& plan, int nranks, bool gpu);
struct PlanEdges {
  std::vector<Edge> collective;
  std::vector<Edge> messages;  // of send/recv
};
PlanEdges plan_edges(const Plan& plan, const CommShape& shape, bool gpu);

// Neighbours in a ring or tree of their channel: the only links that LL128 goes over.
bool are_neighbours(int rank, const Edge& edge, const CommShape& shape);
// The rank's links between neighbours that stand for all others where LL128's lines are tested:
// first those inside hosts, each pair of ranks once; then those between hosts, of all channels that
// are no repetition, and of so few at a time that not too many end at one GPU. As many lists on
// every rank, and each link in the same at both ends.
std::vector<std::vector<Edge>> line_tests(int rank, const CommShape& shape,
                                          const HostGroups& hosts);
// The rank that sends an edge's data for its sender (PXN); sender and receiver agree on it.
RelayChoice relay_of(int rank, const Edge& edge, const CommShape& shape);
// The network device of this rank's end of an edge: of the ring or tree that it belongs to, else
// one near the GPU. Its name is empty where the node is not known.
transport::NicChoice nic_of(int rank, const Edge& edge, const CommShape& shape);
// GPU ranks: a link that messages made on a channel which was no ring's then has no slots for
// LL128.
Status check_protocols(const Plan& plan, const Wire& wire);

}  // namespace collctl::runtime
