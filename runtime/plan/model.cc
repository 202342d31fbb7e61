#include "runtime/plan/model.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "runtime/plan/cost_table.h"
#include "topology/cluster/double_tree.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;
using topology::CpuMaker;
using topology::PathType;
using topology::Pattern;
using topology::PatternFacts;

bool is_all_reduce(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::barrier;
}

// A bandwidth and what sets it.
struct Limit {
  double gbps = 0;
  std::string why;
  void scale(double by, const char* what) {
    gbps *= by;
    why += format(", x {:.3g} by {}", by, what);
  }
  void at_most(double cap, const std::string& reason) {
    if (cap >= gbps) return;
    gbps = cap;
    why = reason;
  }
};

// Hops that follow one another, and what one costs.
struct Hops {
  double inside = 0, between = 0;
  double inside_us = 0, between_us = 0;
  double us() const { return inside * inside_us + between * between_us; }
};

class Model {
 public:
  Model(const ModelInput& input, AlgorithmId algorithm, Protocol protocol, Collective collective)
      : in_(input),
        algorithm_(algorithm),
        protocol_(protocol),
        collective_(collective),
        latency_(*find_latency(algorithm, protocol)),
        facts_(algorithm == AlgorithmId::tree ? input.tree : input.ring) {}

  Estimate at(uint64_t bytes) const {
    Estimate made;
    made.latency_us = latency_.base_us;
    if (in_.ranks < 2) {
      made.us = made.latency_us;
      made.limited_by = "latency: one rank has no peers";
      return made;
    }
    const Hops steps = hops();
    const double plateau = plateau_factor(bytes);
    made.latency_us = (latency_.base_us + steps.us()) * plateau;
    const Limit limit = bandwidth(bytes);
    made.gbps = limit.gbps;
    const double bytes_us = double(bytes) / (1000 * limit.gbps);
    made.us = made.latency_us + bytes_us;
    made.limited_by = bytes_us > made.latency_us ? limit.why : latency_words(steps);
    return made;
  }

 private:
  HopKind inside_kind() const {
    return facts_.type_intra == PathType::nvl ? HopKind::nvlink : HopKind::pci;
  }
  double hop_us(HopKind kind) const { return latency_.hop_us[size_t(kind)]; }

  // A hop between nodes. A single GPU a node hides nothing: the tree's latency counts for rings.
  double network_hop_us() const {
    const LatencyRow* row = &latency_;
    if (in_.ranks == in_.nodes)
      if (const LatencyRow* tree = find_latency(AlgorithmId::tree, protocol_)) row = tree;
    const double device = facts_.latency_inter_us;
    // Simple flushes what it has received, which is one more trip to the device.
    return row->hop_us[size_t(HopKind::net)] + device * (protocol_ == Protocol::simple ? 2 : 1);
  }

  // The time that the host adds to every step of a ring that also uses the network.
  double network_step_us() const {
    if (in_.nodes < 2) return 0;
    const bool amd = in_.cpu == CpuMaker::amd;
    const double step = factor(amd ? FactorId::net_step_amd_us : FactorId::net_step_us);
    return step * (protocol_ == Protocol::simple ? factor(FactorId::net_step_simple) : 1);
  }

  Hops hops() const {
    const double n = in_.ranks, nodes = in_.nodes;
    Hops made{.inside_us = hop_us(inside_kind()), .between_us = network_hop_us()};
    if (algorithm_ == AlgorithmId::tree) {
      made.inside = 2 * (in_.largest_node - 1);
      made.between = 2 * topology::double_tree_depth(in_.nodes);
    } else if (algorithm_ == AlgorithmId::ring) {
      const double turns = is_all_reduce(collective_) ? 2 : 1;
      made.between = nodes > 1 ? turns * (nodes - 1) : 0;
      made.inside = turns * (n - 1) - made.between;
      made.inside_us = std::max(made.inside_us, network_step_us());
    } else {
      const double rounds = collective_ == Collective::send_recv ? 1 : message_rounds();
      (nodes > 1 ? made.between : made.inside) = rounds;
    }
    return made;
  }

  double message_rounds() const {
    const int rounds = (in_.ranks - 1 + in_.channels - 1) / in_.channels;  // rounded up
    return rounds;
  }

  static std::string latency_words(const Hops& steps) {
    const auto hops_of = [](double count, const char* where, double us) {
      return format("{:.0f} hop{} {} of {:.4g} us", count, count == 1 ? "" : "s", where, us);
    };
    std::string words = "latency: ";
    if (steps.inside > 0) words += hops_of(steps.inside, "in the node", steps.inside_us);
    if (steps.inside > 0 && steps.between > 0) words += ", ";
    if (steps.between > 0) words += hops_of(steps.between, "between nodes", steps.between_us);
    return words;
  }

  double plateau_factor(uint64_t bytes) const {
    const double each = double(bytes) / (double(in_.channels) * in_.ranks);
    if (algorithm_ != AlgorithmId::ring || protocol_ != Protocol::simple || in_.nodes < 2 ||
        !is_all_reduce(collective_) || each < factor(FactorId::plateau_from_bytes))
      return 1;
    const bool old = !in_.amd_gpus && in_.min_sm < 80;
    return factor(old ? FactorId::plateau_old : FactorId::plateau);
  }

  Generation generation() const {
    // AMD counts compute units where NVIDIA has a capability: the middle row stands in.
    return in_.amd_gpus ? Generation::ampere : generation_of(in_.min_sm);
  }

  double ll_cap() const {
    if (in_.nodes == 1) return cap_gbps(CapId::ll_total, generation(), 1);
    return ll_cap_between_nodes(in_.cpu == CpuMaker::amd || in_.cpu == CpuMaker::mixed, in_.nodes);
  }
  double channel_cap(CapId id) const {
    return facts_.channels * cap_gbps(id, generation(), in_.nodes);
  }
  std::string cap_words(const char* what, double cap) const {
    return format("{} moves at most {:.4g} GB/s {}", what, cap,
                  in_.nodes == 1 ? "on one node" : "between these nodes");
  }

  // The bandwidth of one channel of the search.
  double channel_gbps() const {
    if (in_.nodes == 1) return facts_.bw_intra;
    // Two nodes share both ways of their links in a tree, where others have several neighbours.
    const bool pair_of_trees = in_.nodes == 2 && algorithm_ == AlgorithmId::tree;
    return std::min(facts_.bw_intra, (pair_of_trees ? 2 : 1) * facts_.bw_inter);
  }

  // All channels together, as the search found them.
  Limit graph_limit() const {
    const double one = channel_gbps();
    Limit limit{facts_.channels * one, format("bandwidth: {} x {:.4g} GB/s", facts_.channels, one)};
    if (!facts_.busiest_link.empty()) limit.why += ", by " + facts_.busiest_link;
    return limit;
  }

  void limit_by_channels(Limit& limit) const {
    if (in_.channels >= in_.full_channels) return;
    limit.gbps *= double(in_.channels) / in_.full_channels;
    limit.why = format("channels: {} of {} in use", in_.channels, in_.full_channels);
  }

  Limit ring_bandwidth() const {
    Limit limit = graph_limit();
    if (protocol_ == Protocol::ll) {
      limit.scale(factor(FactorId::ring_ll), "ll");
      limit.at_most(ll_cap(), cap_words("ll", ll_cap()));
    } else if (protocol_ == Protocol::ll128) {
      limit.scale(factor(FactorId::ring_ll128), "ll128");
      const double cap = channel_cap(CapId::ring_ll128_channel);
      limit.at_most(cap, cap_words("ll128", cap));
    }
    limit_by_channels(limit);
    // Converts link bandwidth to that of the operation: all-reduce sends everything twice.
    const double n = in_.ranks;
    if (is_all_reduce(collective_)) limit.gbps *= n / (2 * (n - 1));
    if (collective_ == Collective::all_gather || collective_ == Collective::reduce_scatter)
      limit.gbps *= n / (n - 1);
    return limit;
  }

  Limit tree_bandwidth(uint64_t bytes) const {
    Limit limit = graph_limit();
    limit.gbps *= factor(FactorId::tree);
    const double cap = channel_cap(CapId::tree_channel);
    limit.at_most(cap, cap_words("tree", cap));
    if (protocol_ == Protocol::ll) {
      limit.scale(1 / factor(FactorId::tree_ll), "ll");
      limit.at_most(ll_cap(), cap_words("ll", ll_cap()));
    } else if (protocol_ == Protocol::ll128) {
      limit.scale(factor(in_.nodes == 1 ? FactorId::tree_ll128_one_node : FactorId::tree_ll128),
                  "ll128");
      const double most = channel_cap(CapId::tree_ll128_channel);
      limit.at_most(most, cap_words("ll128", most));
    }
    if (in_.tree_pattern == Pattern::tree)
      limit.scale(factor(FactorId::plain_tree), "one GPU for all traffic");
    limit_by_channels(limit);
    // Up and down.
    limit.gbps *= 0.5;
    if (const double share = tree_share(protocol_, bytes); share < 1) {
      limit.gbps *= share;
      if (share < 0.8)
        limit.why = format("tree at a medium size: {:.0f} % of its bandwidth", 100 * share);
    }
    return limit;
  }

  // The busier of the two ways: inside the node and to other nodes.
  Limit pairwise_bandwidth() const {
    const double n = in_.ranks, g = in_.largest_node;
    // Between two GPUs the tree's bandwidth counts both ways together.
    const double tree_gbps = in_.largest_node > 2 ? in_.tree.bw_intra : 0;
    const double inside_gbps = in_.ring.channels * std::max(in_.ring.bw_intra, tree_gbps);
    const double between_gbps = in_.ring.channels * in_.ring.bw_inter / g;
    const bool all = collective_ != Collective::send_recv;
    // Shares of `bytes` that the busiest rank moves each way.
    const double inside = all ? (g - 1) / n : in_.nodes == 1 ? 1 : 0;
    const double between = all ? (n - g) / n : in_.nodes == 1 ? 0 : 1;
    const double inside_time = inside / inside_gbps;
    const double between_time = in_.nodes > 1 ? between / between_gbps : 0;
    Limit limit;
    if (between_time >= inside_time)
      limit = {1 / between_time,
               format("network: a GPU's share of {} x {:.4g} GB/s, by {}", in_.ring.channels,
                      in_.ring.bw_inter, in_.ring.busiest_link)};
    else
      limit = {1 / inside_time,
               format("bandwidth: {:.4g} GB/s between the GPUs of a node", inside_gbps)};
    if (protocol_ == Protocol::ll) {
      limit.scale(factor(FactorId::ring_ll), "ll");
      limit.at_most(ll_cap(), cap_words("ll", ll_cap()));
    }
    limit_by_channels(limit);
    return limit;
  }

  Limit bandwidth(uint64_t bytes) const {
    if (algorithm_ == AlgorithmId::tree) return tree_bandwidth(bytes);
    return algorithm_ == AlgorithmId::ring ? ring_bandwidth() : pairwise_bandwidth();
  }

  const ModelInput& in_;
  AlgorithmId algorithm_;
  Protocol protocol_;
  Collective collective_;
  const LatencyRow& latency_;
  const PatternFacts& facts_;
};

// THE rule for LL128, which stands on 128 bytes that arrive whole: where it can be tried. The test
// of the lines themselves has the last word (runtime/executor/torn_store.h).
std::string no_ll128(const ModelInput& input) {
  if (input.amd_gpus) return "ll128 needs NVIDIA GPUs";
  if (input.min_sm < 70) return format("ll128 needs SM 70, not {}", input.min_sm);
  if (input.min_sm != input.max_sm)
    return format("ll128 needs equal GPUs, not SM {} and {}", input.min_sm, input.max_sm);
  const auto type = std::max(input.ring.type_intra, input.tree.type_intra);
  if (input.ranks > input.nodes && type > PathType::nvb)
    return format("ll128 needs NVLink between GPUs, not {}", path_type_name(type));
  if (input.nodes == 1) return {};
  if (input.ranks > input.nodes && input.through_host)
    return "ll128 needs P2P between the GPUs of a host";
  if (!input.no_network_lines.empty()) return input.no_network_lines;
  const auto inter = std::max(input.ring.type_inter, input.tree.type_inter);
  const PathType worst = input.min_sm >= 90 ? PathType::pxn : PathType::pxb;
  if (inter > worst)
    return format("ll128 needs {} to the network, not {}", path_type_name(worst),
                  path_type_name(inter));
  // The halves of a line have been seen to pass each other there (GH200, NCCL pull request 2053).
  for (const auto* pattern : {&input.ring, &input.tree})
    if (pattern->type_inter == PathType::p2c)
      return format(
          "ll128 does not go over {}: what a network device writes to a GPU by way of "
          "the processor may arrive in halves",
          path_type_name(PathType::p2c));
  return {};
}

}  // namespace

ModelInput model_input(const topology::Cluster& cluster) {
  double host_gbps = cluster.kinds.front().host_gbps;
  for (const topology::ClusterNode& kind : cluster.kinds)
    host_gbps = std::min(host_gbps, kind.host_gbps);
  return {.nodes = cluster.nodes(),
          .ranks = cluster.ranks(),
          .largest_node = cluster.largest_node(),
          .channels = cluster.channels(),
          .full_channels = cluster.full_channels,
          .min_sm = cluster.min_sm,
          .max_sm = cluster.max_sm,
          .gpu_model = cluster.gpu_model,
          .amd_gpus = cluster.amd_gpus,
          .cpu = cluster.cpu,
          .tree_pattern = cluster.tree_pattern,
          .ring = cluster.ring,
          .tree = cluster.tree,
          .host_gbps = host_gbps,
          .unknown = cluster.ring.unknown.empty() ? cluster.tree.unknown : cluster.ring.unknown};
}

std::string unavailable(const ModelInput& input, AlgorithmId algorithm, Protocol protocol,
                        Collective collective) {
  if (find_latency(algorithm, Protocol::simple) == nullptr)
    return format("{} has no model on GPU ranks", name_of(algorithm));
  if (!serves(kernels::algorithm(algorithm), collective))
    return format("{} does not support {}", name_of(algorithm), name_of(collective));
  if (find_latency(algorithm, protocol) == nullptr)
    return format("{} does not support {}", name_of(algorithm), name_of(protocol));
  if (algorithm == AlgorithmId::tree && input.ranks < 2) return "tree needs two ranks";
  if (protocol == Protocol::ll128) return no_ll128(input);
  return {};
}

Estimate estimate(const ModelInput& input, AlgorithmId algorithm, Protocol protocol,
                  Collective collective, uint64_t bytes) {
  COLL_CHECK(unavailable(input, algorithm, protocol, collective).empty());
  return Model(input, algorithm, protocol, collective).at(bytes);
}

}  // namespace collctl::runtime
