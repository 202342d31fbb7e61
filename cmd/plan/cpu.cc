#include "cmd/plan/cpu.h"

#include <algorithm>

#include "base/format.h"
#include "base/json_writer.h"
#include "cmd/plan/pattern.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/topo.h"
#include "cmd/verify/buffer_shape.h"
#include "launcher/hosts/placement.h"
#include "runtime/plan/comm_shape.h"

namespace collctl::cmd {
namespace {

constexpr int kShownRanks = 16;

// The cores of the machine, as text and as the default number of ranks.
std::string processors_text(const base::Processors& processors) {
  std::string text = processors.model.name.empty() ? "" : plain(processors.model.name) + ", ";
  text += format("{} in {}, {}", counted(size_t(processors.cores), "core"),
                 counted(size_t(processors.packages), "socket"),
                 counted(processors.nodes.size(), "NUMA node"));
  if (processors.cache_bytes > 0)
    text += format(", last-level caches of {}", human_bytes(processors.cache_bytes));
  return text;
}

runtime::HostGroups hosts_of(const CpuPlan& plan) {
  runtime::HostGroups hosts(size_t(plan.spec.nodes));
  for (int rank = 0; rank < plan.shape.nranks; ++rank)
    hosts[size_t(rank / plan.ranks_per_node)].push_back(rank);
  return hosts;
}

void make_trees(CpuPlan& plan) {
  const runtime::HostGroups hosts = hosts_of(plan);
  for (size_t c = 0; c < plan.shape.channels.size(); ++c) {
    auto& tree = plan.trees.emplace_back();
    for (int rank = 0; rank < plan.shape.nranks; ++rank)
      tree.push_back(tree_links(hosts, rank, int(c % 2), runtime::LocalTree::binary));
  }
}

Result<CpuPlanRow> make_row(const CpuPlan& plan, const runtime::CommShape& shape, uint64_t asked) {
  const BenchOp& collective = plan.spec.collective;
  const SizePoint size = size_point(collective, asked, plan.shape.nranks, kFloatBytes);
  CpuPlanRow row;
  row.bytes = size.bytes;
  if (is_pattern(collective)) {
    COLL_ASSIGN(const PatternChoice chosen,
                choose_pattern(collective, size.count, shape, plan.spec.choices));
    row.choice = chosen.choice;
    row.steps = chosen.steps;
  } else {
    const runtime::Operation operation{.collective = collective.calls, .count = size.count};
    COLL_ASSIGN(row.choice, choose_collective(operation, shape, plan.spec.choices));
  }
  const double us = row.choice.expected.us;
  if (us > 0) row.algbw_gbps = double(row.bytes) / us / 1e3;
  row.busbw_gbps = row.algbw_gbps * bus_factor(collective, plan.shape.nranks);
  return row;
}

const char* plan_between_nodes(const std::optional<PlanNetwork>& plugin) {
  return plugin && !plugin->network.empty()
             ? "; between nodes: the plugin's network, with the times of sockets"
             : "; between nodes: sockets";
}

// "3 > 4, 5": whom a rank of the tree has below it.
std::string tree_text(const std::vector<kernels::TreeLinks>& tree) {
  std::string text;
  for (size_t rank = 0; rank < tree.size() && rank < kShownRanks; ++rank) {
    std::string below;
    for (const int32_t down : tree[rank].down)
      if (down >= 0) below += format("{}{}", below.empty() ? "" : ",", down);
    if (!below.empty()) text += format("{}{} > {}", text.empty() ? "" : "  ", rank, below);
  }
  return text + (tree.size() > kShownRanks ? "  ..." : "");
}

}  // namespace

Result<CpuPlan> make_cpu_plan(TopoView view, PlanSpec spec) {
  if (!view.processors || view.processors->online.empty())
    return Error(ErrorCode::unavailable,
                 view.source + ": no GPU, and nothing is known of its processors",
                 "--assume h100 puts GPUs into a file of PCI devices; for CPU ranks plan on the "
                 "machine itself, or from a snapshot (collctl topo --save)");
  CpuPlan plan;
  plan.view = std::move(view);
  plan.spec = std::move(spec);
  const base::Processors& processors = *plan.view.processors;
  plan.ranks_per_node = std::max(1, int(processors.online.size()));
  if (int64_t{plan.ranks_per_node} * plan.spec.nodes > launcher::kMostRanks)
    return Error(ErrorCode::usage,
                 format("{} nodes of {} ranks are more than {} ranks", plan.spec.nodes,
                        plan.ranks_per_node, launcher::kMostRanks));
  COLL_ASSIGN(runtime::Settings settings, runtime::read_settings({}));
  settings.choices = plan.spec.choices;
  if (plan.view.live) {
    COLL_ASSIGN(plan.calibration, shown_calibration());
  }
  const bool measured = plan.calibration && plan.calibration->used;
  plan.shape =
      runtime::hypothetical_shape(processors, plan.spec.nodes, plan.ranks_per_node, settings,
                                  measured ? plan.calibration->kept.found : runtime::Calibration());
  make_trees(plan);
  plan.shape.network =
      plan_reduction(plan.spec.plugin, hosts_of(plan), plan.shape.channels, settings);
  COLL_ASSIGN(const auto tuner, start_plan_tuner(plan.spec.plugin, hosts_of(plan)));
  plan.tuner = plan_tuner(tuner.get());
  runtime::CommShape shape = plan.shape;  // with the tuner, which ends here
  shape.tuner = tuner.get();
  for (const uint64_t asked : plan.spec.sizes) {
    COLL_ASSIGN(CpuPlanRow row, make_row(plan, shape, asked));
    plan.rows.push_back(std::move(row));
  }
  return plan;
}

std::string cpu_plan_text(const CpuPlan& plan, size_t width) {
  const runtime::CommShape& shape = plan.shape;
  const size_t channels = shape.channels.size();
  std::string text = format("# plan for {}: {} of {}, {}\n# node: {}: {}\n",
                            name_of(plan.spec.collective), counted(size_t(plan.spec.nodes), "node"),
                            counted(size_t(plan.ranks_per_node), "CPU rank"),
                            counted(size_t(shape.nranks), "rank"), plain(plan.view.source),
                            processors_text(*plan.view.processors));
  text += format("# inside a node: shared memory{}\n",
                 plan.spec.nodes > 1 ? plan_between_nodes(plan.spec.plugin) : "");
  if (plan.calibration) text += calibration_text(*plan.calibration);
  text += plan_network_text(plan.spec.plugin) + plan_tuner_text(plan.tuner);
  for (size_t c = 0; c < channels; ++c)
    text += format("Channel {:02}/{:02} : {}\n", c, channels,
                   shortened_ranks(shape.channels[c].ring, " "));
  for (size_t c = 0; c < channels && c < 2; ++c)
    text += format("Tree    {:02}/{:02} : {}\n", c, channels, tree_text(plan.trees[c]));
  std::vector<PlanLine> lines;
  for (const CpuPlanRow& row : plan.rows)
    lines.push_back({.bytes = row.bytes,
                     .algorithm = name_of(row.choice.algorithm),
                     .protocol = name_of(row.choice.protocol),
                     .channels = row.choice.channels,
                     .threads = "",
                     .us = row.choice.expected.us,
                     .algbw_GBps = row.algbw_gbps,
                     .busbw_GBps = row.busbw_gbps,
                     .limited_by = row.choice.expected.limited_by});
  text += plan_table(lines, width);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const runtime::CollectiveChoice& choice = plan.rows[i].choice;
    const bool again = i > 0 && choice.algorithm == plan.rows[i - 1].choice.algorithm &&
                       choice.protocol == plan.rows[i - 1].choice.protocol;
    if (!again)
      text += format("# why: from {}: {} {}; {}\n", human_bytes(plan.rows[i].bytes),
                     name_of(choice.algorithm), name_of(choice.protocol), choice.why);
  }
  return text;
}

std::string cpu_plan_json(const CpuPlan& plan) {
  JsonWriter json;
  json.begin_object();
  write_machine(plan.view, json);
  json.field("device", "cpu").key("graphs").begin_array().end_array();
  json.key("cluster").begin_object();
  json.field("nodes", plan.spec.nodes).field("ranks", plan.shape.nranks);
  json.field("nchannels", int(plan.shape.channels.size())).key("rings").begin_array();
  for (const runtime::ChannelShape& channel : plan.shape.channels) {
    json.begin_array();
    for (const int32_t rank : channel.ring) json.value(rank);
    json.end_array();
  }
  json.end_array().key("trees").begin_array();
  for (size_t c = 0; c < plan.trees.size(); ++c)
    for (size_t rank = 0; rank < plan.trees[c].size(); ++rank) {
      const kernels::TreeLinks& links = plan.trees[c][rank];
      json.begin_object().field("channel", int(c)).field("rank", int(rank));
      json.field("up", links.up).key("down").begin_array();
      for (const int32_t down : links.down)
        if (down >= 0) json.value(down);
      json.end_array().end_object();
    }
  json.end_array().end_object();
  json.objects("choices", plan.rows, [&](const CpuPlanRow& row) {
    json.field("op", name_of(plan.spec.collective)).field("bytes", row.bytes);
    json.field("algorithm", name_of(row.choice.algorithm));
    json.field("protocol", name_of(row.choice.protocol)).field("channels", row.choice.channels);
    json.key("expected").begin_object().field("time_us", row.choice.expected.us);
    json.field("algbw_GBps", row.algbw_gbps).field("busbw_GBps", row.busbw_gbps);
    json.field("limited_by", row.choice.expected.limited_by);
    json.field("source", row.choice.expected.source());
    if (const std::string& unknown = row.choice.expected.unknown; !unknown.empty())
      json.field("unknown", unknown);
    json.end_object();
    json.field("why", row.choice.why);
    if (row.steps != 0) json.field("steps", row.steps);
    write_tuned(row.choice.tuned, json);
  });
  if (plan.calibration) write_calibration(*plan.calibration, json);
  write_plan_network(plan.spec.plugin, json);
  write_plan_tuner(plan.tuner, json);
  write_findings(plan.view.findings, json);
  return json.end_object().take();
}

}  // namespace collctl::cmd
