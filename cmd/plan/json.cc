// The JSON of `plan`: that of `topo` (collctl.topo/1), and every ring, tree, device and candidate.
#include "base/json_writer.h"
#include "cmd/plan/plan.h"
#include "cmd/topo/topo.h"
#include "topology/cluster/wiring.h"

namespace collctl::cmd {
namespace {

using namespace topology;

void write_facts(const char* name, const PatternFacts& facts, JsonWriter& json) {
  json.key(name).begin_object().field("nchannels", facts.channels);
  json.field("bw_intra_GBps", facts.bw_intra).field("bw_inter_GBps", facts.bw_inter);
  json.field("type_intra", path_type_name(facts.type_intra));
  json.field("type_inter", path_type_name(facts.type_inter));
  json.field("busiest_link", facts.busiest_link).end_object();
}

// Ranks as the job counts them, looked up once.
std::vector<int> world_ranks(const JobPlan& plan) {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan.cluster.ranks(); ++rank) ranks.push_back(plan.world_rank(rank));
  return ranks;
}

void write_rings(const Cluster& cluster, const std::vector<int>& world, JsonWriter& json) {
  json.key("rings").begin_array();
  for (const std::vector<int>& ring : cluster.rings) {
    json.begin_array();
    for (const int rank : ring) json.value(world[size_t(rank)]);
    json.end_array();
  }
  json.end_array();
}

void write_trees(const Cluster& cluster, const std::vector<int>& world, JsonWriter& json) {
  json.key("trees").begin_array();
  for (int channel = 0; channel < cluster.channels(); ++channel) {
    const std::vector<TreePlace>& tree = cluster.trees[size_t(channel)];
    for (size_t rank = 0; rank < tree.size(); ++rank) {
      const int up = tree[rank].up;
      json.begin_object().field("channel", channel).field("rank", world[rank]);
      json.field("up", up < 0 ? -1 : world[size_t(up)]).key("down").begin_array();
      for (const int down : tree[rank].down)
        if (down >= 0) json.value(world[size_t(down)]);
      json.end_array().end_object();
    }
  }
  json.end_array();
}

// Devices by their number in the file; -1: none.
class NicWriter {
 public:
  NicWriter(const JobPlan& plan, JsonWriter& json) : plan_(plan), json_(json) {}
  void write() {
    const Cluster& cluster = plan_.cluster;
    json_.key("nics").begin_array();
    for (int channel = 0; channel < cluster.channels() && cluster.nodes() > 1; ++channel)
      for (int node = 0; node < cluster.nodes(); ++node) {
        const NetUse use = net_use(cluster, channel, node);
        json_.begin_object().field("channel", channel).field("node", node);
        device("ring_in", node, use.ring_in);
        device("ring_out", node, use.ring_out);
        device("tree_up", node, use.tree_up);
        device("tree_down_lower", node, use.tree_down[0]);
        device("tree_down_upper", node, use.tree_down[1]);
        const CollNetChain chain = collnet_chain(cluster, channel, node);
        json_.field("collnet_head", plan_.world_rank(chain.ranks[0]));
        device("collnet", node, chain.net);
        json_.end_object();
      }
    json_.end_array();
  }

 private:
  void device(const char* name, int node, int index) {
    const Graph& graph = plan_.part(node).graph;
    json_.field(name, index < 0 ? -1 : graph.nodes[size_t(graph.nets[size_t(index)])].dev);
  }
  const JobPlan& plan_;
  JsonWriter& json_;
};

// Links that leave their node through another GPU than the sender's.
void write_relays(const JobPlan& plan, const std::vector<int>& world, JsonWriter& json) {
  json.objects("relays", relayed_links(plan.cluster), [&](const RelayedLink& link) {
    const Graph& graph = plan.part(plan.cluster.node_of(link.from)).graph;
    json.field("channel", link.channel).field("from", world[size_t(link.from)]);
    json.field("to", world[size_t(link.to)]).field("by", world[size_t(link.by)]);
    json.field("net", graph.nodes[size_t(graph.nets[size_t(link.device)])].dev);
  });
}

// By what messages leave the first machine, which all others are like.
void write_pairs(const JobPlan& plan, const std::vector<int>& world, JsonWriter& json) {
  const Cluster& cluster = plan.cluster;
  json.key("pairs").begin_array();
  for (int node = 0; node < int(plan.parts.size()) && cluster.nodes() > 1; ++node) {
    const Graph& graph = plan.part(node).graph;
    const int first = cluster.first_rank[size_t(node)];
    for (int from = first; from < cluster.first_rank[size_t(node) + 1]; ++from)
      for (int place = 0; place < cluster.largest_node(); ++place) {
        const std::vector<PairLink> links = pair_links(cluster, from, place);
        json.begin_object().field("from", world[size_t(from)]).field("to_place", place);
        json.list("nets", links, [&](const PairLink& link) {
          return graph.nodes[size_t(graph.nets[size_t(link.device)])].dev;
        });
        json.list("by", links,
                  [&](const PairLink& link) { return link.by < 0 ? -1 : world[size_t(link.by)]; });
        json.end_object();
      }
  }
  json.end_array();
}

void write_cluster(const JobPlan& plan, JsonWriter& json) {
  const Cluster& cluster = plan.cluster;
  const RailUse rails = rail_use(cluster);
  json.key("cluster").begin_object().field("nodes", cluster.nodes());
  json.field("ranks", cluster.ranks()).field("nchannels", cluster.channels());
  // Each machine's groups of ranks that need the network between them; one as a rule.
  json.list("steps", cluster.steps).key("parts").begin_array();
  for (const MachinePart& part : plan.parts) {
    json.begin_array();
    for (const int rank : part.ranks) json.value(rank);
    json.end_array();
  }
  json.end_array();
  write_facts("ring", cluster.ring, json);
  write_facts("tree", cluster.tree, json);
  json.field("tree_pattern", pattern_name(cluster.tree_pattern));
  json.key("rails").begin_object().field("ring_links", rails.ring_links);
  json.field("ring_crossings", rails.ring_crossings).field("tree_links", rails.tree_links);
  json.field("tree_crossings", rails.tree_crossings).end_object();
  const std::vector<int> world = world_ranks(plan);
  write_rings(cluster, world, json);
  write_trees(cluster, world, json);
  NicWriter(plan, json).write();
  write_relays(plan, world, json);
  write_pairs(plan, world, json);
  json.end_object();
}

void write_candidates(const PlanRow& row, JsonWriter& json) {
  json.objects("candidates", row.weighed, [&](const runtime::WeighedChoice& way) {
    json.field("algorithm", name_of(way.algorithm));
    json.field("protocol", name_of(way.protocol));
    if (way.unavailable.empty())
      json.field("time_us", way.us).field("limited_by", way.limited_by);
    else
      json.field("unavailable", way.unavailable);
  });
}

void write_choices(const JobPlan& plan, JsonWriter& json) {
  json.objects("choices", plan.rows, [&](const PlanRow& row) {
    json.field("op", name_of(plan.spec.collective)).field("bytes", row.bytes);
    json.field("algorithm", name_of(row.algorithm));
    json.field("protocol", name_of(row.protocol)).field("channels", row.channels);
    json.field_or_null("threads", row.threads != 0, row.threads);
    json.key("expected").begin_object().field("time_us", row.expected_us);
    json.field("algbw_GBps", row.algbw_gbps).field("busbw_GBps", row.busbw_gbps);
    json.field("limited_by", row.limited_by).field("source", row.source);
    if (!row.unknown.empty()) json.field("unknown", row.unknown);
    json.end_object();
    json.field("why", row.why);
    if (row.steps != 0) json.field("steps", row.steps);
    write_tuned(row.tuned, json);
    write_candidates(row, json);
  });
}

std::vector<const ChannelGraph*> all_graphs(const JobPlan& plan) {
  std::vector<const ChannelGraph*> all;
  for (const MachinePart& part : plan.parts)
    for (const ChannelGraph* graph : {&part.graphs.ring, &part.graphs.tree, &part.graphs.collnet})
      if (!graph->channels.empty()) all.push_back(graph);
  return all;
}

void write_search(const JobPlan& plan, JsonWriter& json) {
  json.key("graphs").begin_array();
  for (const ChannelGraph* graph : all_graphs(plan)) write_graph(plan.view, *graph, json);
  json.end_array();
  json.objects("search", all_graphs(plan), [&](const ChannelGraph* graph) {
    json.field("pattern", graph->collnet ? "collnet" : pattern_name(graph->pattern));
    json.field("visits", graph->visits).list("steps", graph->steps);
  });
}

}  // namespace

std::string plan_json(const JobPlan& plan) {
  JsonWriter json;
  json.begin_object();
  write_machine(plan.view, json);
  write_search(plan, json);
  write_cluster(plan, json);
  write_choices(plan, json);
  write_plan_network(plan.spec.plugin, json);
  if (plan.windows) write_windows(*plan.windows, json);
  write_plan_tuner(plan.tuner, json);
  write_findings(plan.view.findings, json);
  return json.end_object().take();
}

}  // namespace collctl::cmd
