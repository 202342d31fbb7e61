// `plan`: from a topology file and a number of nodes to rings, trees and choices.
#include "cmd/plan/plan.h"

#include <algorithm>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/measure/options.h"
#include "cmd/plan/cpu.h"
#include "cmd/plan/pattern.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/buffer_shape.h"
#include "kernels/algo/algorithms.h"
#include "kernels/cuda/launcher/launcher.h"
#include "runtime/plan/gpu_shape.h"

namespace collctl::cmd {
namespace {

using base::KnobId;
using kernels::Collective;
using topology::Severity;

// `given`: --bytes.
Result<std::vector<uint64_t>> interpret_plan_sizes(const ParsedLine& line,
                                                   const BenchOp& collective,
                                                   const std::vector<uint64_t>& given) {
  if (collective == Collective::barrier) return std::vector<uint64_t>{0};
  if (!line.has("bytes")) {
    SizeRange range{.max_bytes = kMostBytesOnGpus};
    COLL_TRY(interpret_sizes(line, range));
    return size_series(range);
  }
  if (const char* other = line.first_of({"min-bytes", "max-bytes", "step-factor", "step-bytes"}))
    return usage(format("--bytes and --{} exclude each other", other));
  return given;
}

Result<PlanSpec> interpret_plan(const ParsedLine& line) {
  PlanSpec spec;
  COLL_TRY(fill(line, spec));
  if (!line.words.empty()) spec.collective = *find_bench_op(line.words[0]);  // parse() has checked
  COLL_ASSIGN(spec.sizes, interpret_plan_sizes(line, spec.collective, spec.sizes));
  const auto requested = [&](const char* option, KnobId knob) {
    if (line.has(option)) return line.text(option);
    const base::KnobValue value = base::knob_value(knob);
    return value.variable.starts_with("NCCL_") ? runtime::nccl_list(value.text).ours : value.text;
  };
  COLL_ASSIGN(spec.choices, runtime::parse_choices(requested("algo", KnobId::algo),
                                                   requested("proto", KnobId::proto),
                                                   int(line.number("channels", 0))));
  COLL_ASSIGN(const int64_t least, base::knob_int(KnobId::min_nchannels));
  COLL_ASSIGN(const int64_t most, base::knob_int(KnobId::max_nchannels));
  spec.channels = {.min_channels = int(least), .max_channels = int(most)};
  if (spec.choices.channels > 0)
    spec.channels = {.min_channels = spec.choices.channels, .max_channels = spec.choices.channels};
  COLL_ASSIGN(spec.search, read_search_settings());
  if (spec.nodes > 1) {
    COLL_ASSIGN(spec.plugin, find_plan_network(line.has("net") ? line.text("net") : ""));
  }
  return spec;
}

struct DevicesInUse {
  size_t all = 0, without_pci = 0;
};
// By the rings of one machine.
DevicesInUse devices_in_use(const JobPlan& plan) {
  std::set<int> used;
  DevicesInUse count;
  const topology::Cluster& cluster = plan.cluster;
  for (int node = 0; node < int(plan.parts.size()) && cluster.nodes() > 1; ++node)
    for (int channel = 0; channel < cluster.channels(); ++channel) {
      const topology::Graph& graph = plan.part(node).graph;
      const int index = net_use(cluster, channel, node).ring_in;
      if (index < 0) continue;  // a ring that has found none
      const int net = graph.nets[size_t(index)];
      if (!used.insert(net).second) continue;
      ++count.all;
      const topology::Node& nic = graph.nodes[size_t(graph.nodes[size_t(net)].links.front().to)];
      if (nic.id == 0) ++count.without_pci;
    }
  return count;
}

// Findings about the plan itself.
void find_oddities(JobPlan& plan) {
  const auto add = [&](Severity severity, std::string what, std::string remedy) {
    plan.view.findings.push_back({severity, std::move(what), plan.view.source, std::move(remedy)});
  };
  for (const MachinePart& part : plan.parts)
    for (const auto* graph : {&part.graphs.ring, &part.graphs.tree})
      if (graph->fallback)
        add(Severity::warning,
            format("no {} fits at any speed; one channel in the order of ranks is planned",
                   pattern_name(graph->pattern)),
            "look at the paths: collctl topo --matrix");
  if (plan.parts.size() > 1)
    add(Severity::note,
        format("the GPUs fall into {} groups that reach each other faster by the network, so each "
               "machine counts as {} nodes",
               plan.parts.size(), plan.parts.size()),
        "NCCL_NET_DISABLE_INTRA=1 keeps them together");
  if (const auto [used, bare] = devices_in_use(plan); bare > 0)
    add(Severity::note,
        format("{} of the {} network devices in use have no PCI device: bridges and tunnels do not "
               "lead to other machines",
               bare, used),
        "take those out of the file; a job's are chosen by NCCL_SOCKET_IFNAME");
  const auto& launcher =
      plan.spec.launcher != nullptr ? *plan.spec.launcher : kernels::cuda::launcher();
  if (!launcher.built)
    add(Severity::note,
        "this build has no GPU kernels; one that has them also chooses from one-shot, two-shot and "
        "ll128",
        "build where nvcc is");
  if (plan.cluster.amd_gpus)
    add(Severity::note, "times of AMD GPUs are rough: the model has NVIDIA's constants", "");
  if (plan.parts.size() > 1) return;  // each part uses the devices next to it
  const topology::RailUse rails = rail_use(plan.cluster);
  if (rails.ring_crossings > 0 && plan.cluster.ring.cross_nic == 2 && plan.cluster.nodes() % 2 == 1)
    add(Severity::note,
        format("rings alternate between two network devices, so with {} nodes {} of {} links cross "
               "rails",
               plan.cluster.nodes(), rails.ring_crossings, rails.ring_links),
        "an even number of nodes has none");
  else if (rails.ring_crossings > 0)
    add(Severity::note,
        format("{} of {} ring links join different network devices of two nodes",
               rails.ring_crossings, rails.ring_links),
        "");
}

Status join_parts(JobPlan& plan) {
  std::vector<topology::ClusterNode> kinds;
  for (const MachinePart& part : plan.parts) {
    std::string name = plan.view.source;
    if (plan.parts.size() > 1) name += format(" (GPUs of ranks {})", rank_ranges(part.ranks));
    kinds.push_back(describe_node(part.graph, part.effective, part.graphs, plan.view.rules, name));
  }
  std::vector<int> kind_of;
  for (int machine = 0; machine < plan.spec.nodes; ++machine)
    for (size_t part = 0; part < plan.parts.size(); ++part) kind_of.push_back(int(part));
  topology::ClusterOptions options = plan.spec.channels;
  // As a job has them, unless their number is given.
  bool& staged = plan.staged;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const MachinePart& part = plan.parts[i];
    staged |= runtime::stages_data(
        kinds[i], runtime::gdr_rules(part.graph, plan.view.rules, part.ranks, plan.view.system));
  }
  if (plan.spec.choices.channels == 0)
    options.min_channels =
        std::max(options.min_channels,
                 runtime::least_channels(kinds, int(kind_of.size()), staged, options.max_channels));
  COLL_ASSIGN(plan.cluster, join_nodes(std::move(kinds), std::move(kind_of), options));
  return check_cluster(plan.cluster);
}

Error no_gpus(const TopoView& view) {
  return {ErrorCode::unavailable, view.source + ": no GPU, so there is no rank to plan for",
          "where the file has PCI devices only, --assume h100 puts GPUs in"};
}

runtime::HostGroups hosts_of(const JobPlan& plan) {
  runtime::HostGroups hosts(size_t(plan.spec.nodes));
  const size_t per_machine = plan.view.graph.gpus.size();
  for (int32_t rank = 0; rank < plan.cluster.ranks(); ++rank)
    hosts[size_t(rank) / per_machine].push_back(rank);
  return hosts;
}

// Shape of the communicator, as the planner of a running job would know it.
Result<runtime::CommShape> shape_of(const JobPlan& plan) {
  runtime::CommOptions options;
  options.algo = "all";
  options.proto = "all";
  options.device = 0;  // slots as GPUs have them
  COLL_ASSIGN(runtime::Settings settings, runtime::read_settings(options));
  settings.choices = plan.spec.choices;
  settings.min_channels = plan.spec.channels.min_channels;
  settings.max_channels = plan.spec.channels.max_channels;
  std::vector<int32_t> world;
  for (int rank = 0; rank < plan.cluster.ranks(); ++rank) world.push_back(plan.world_rank(rank));
  const runtime::HostGroups hosts = hosts_of(plan);
  const auto& launcher =
      plan.spec.launcher != nullptr ? *plan.spec.launcher : kernels::cuda::launcher();
  const TopoView& view = plan.view;
  const auto no_p2p = runtime::no_p2p_pairs(view.graph, view.base, view.rules);
  runtime::CommShape shape = hypothetical_gpu_shape(
      {plan.cluster, world, hosts, runtime::no_p2p_text(no_p2p), plan.staged}, settings, launcher);
  shape.network = plan_reduction(plan.spec.plugin, hosts, shape.channels, settings);
  return shape;
}

// As the jobs of this machine count.
Status calibrate(JobPlan& plan, runtime::CommShape& shape) {
  if (!plan.view.live || !shape.model->known || !(shape.gpu_window || shape.pinned_window))
    return {};
  COLL_ASSIGN(plan.windows, shown_windows(*shape.model, shape.pinned_window));
  if (plan.windows->used) count_with(shape, plan.windows->kept.found);
  return {};
}

// "two-shot ll; next ring ll: 81.54 us (+25 %)"
std::string why_of(const PlanRow& row) {
  const auto name = [](kernels::AlgorithmId algorithm, kernels::Protocol protocol) {
    return format("{} {}", name_of(algorithm), name_of(protocol));
  };
  const std::string best = name(row.algorithm, row.protocol);
  const runtime::WeighedChoice* next = nullptr;
  for (const runtime::WeighedChoice& way : row.weighed) {
    const bool chosen = way.algorithm == row.algorithm && way.protocol == row.protocol;
    if (chosen || !way.unavailable.empty()) continue;
    if (next == nullptr || way.us < next->us) next = &way;
  }
  if (next == nullptr) return best + ": nothing else that supports it was allowed";
  return format("{}; next {}: {:.4g} us (+{:.3g} %)", best, name(next->algorithm, next->protocol),
                next->us, 100 * (next->us / row.expected_us - 1));
}

Result<PlanRow> make_row(const JobPlan& plan, const runtime::CommShape& shape, uint64_t asked) {
  const BenchOp& collective = plan.spec.collective;
  const SizePoint size = size_point(collective, asked, shape.nranks, kFloatBytes);
  const runtime::Operation operation{.collective = collective.calls, .count = size.count};
  PatternChoice chosen;
  if (is_pattern(collective)) {
    COLL_ASSIGN(chosen, choose_pattern(collective, size.count, shape, plan.spec.choices));
  } else {
    COLL_ASSIGN(chosen.choice, choose_collective(operation, shape, plan.spec.choices));
  }
  runtime::CollectiveChoice& choice = chosen.choice;
  PlanRow row{.bytes = size.bytes,
              .algorithm = choice.algorithm,
              .protocol = choice.protocol,
              .channels = choice.channels,
              .expected_us = choice.expected.us,
              .limited_by = choice.expected.limited_by,
              .source = choice.expected.source(),
              .unknown = choice.expected.unknown,
              .steps = chosen.steps,
              .tuned = std::move(choice.tuned)};
  if (is_pattern(collective))
    row.weighed.push_back({.algorithm = choice.algorithm,
                           .protocol = choice.protocol,
                           .channels = choice.channels,
                           .us = choice.expected.us,
                           .limited_by = choice.expected.limited_by,
                           .unavailable = {}});
  else
    row.weighed = weigh_on_gpus(operation, shape, plan.spec.choices);
  for (const runtime::WeighedChoice& way : row.weighed)
    if (way.algorithm == row.algorithm && way.protocol == row.protocol) row.threads = way.threads;
  row.why = row.tuned || is_pattern(collective) ? std::move(choice.why) : why_of(row);
  if (row.expected_us > 0) row.algbw_gbps = double(row.bytes) / row.expected_us / 1e3;
  row.busbw_gbps = row.algbw_gbps * bus_factor(collective, shape.nranks);
  return row;
}

// The choices are the rows.
Result<int> show_plan(const TopoView& view, std::string json,
                      std::function<std::string(size_t)> text, const OutputOptions& output,
                      Console& console) {
  Document document = document_with(std::move(json), "choices");
  document.title = "collctl plan: " + view.source;
  document.has_verdict = false;
  document.parts.push_back({Drawn{std::move(text)}});
  COLL_TRY(deliver(document, output, console));
  if (output.format == Format::text && !output.quiet) print_findings(view.findings, console);
  return 0;
}

}  // namespace

int JobPlan::world_rank(int cluster_rank) const {
  const int node = cluster.node_of(cluster_rank), machine = node / int(parts.size());
  return machine * int(view.graph.gpus.size()) +
         part(node).ranks[size_t(cluster_rank - cluster.first_rank[size_t(node)])];
}

Result<JobPlan> make_job_plan(TopoView view, PlanSpec spec) {
  if (view.graph.gpus.empty()) return no_gpus(view);
  if (spec.nodes > 1 && view.graph.nets.empty())
    return Error(ErrorCode::unavailable,
                 format("{}: no network device, so {} such nodes cannot reach each other",
                        view.source, spec.nodes),
                 "plan one node (--nodes 1), or add a <nic> with a <net> to the file");
  JobPlan plan;
  plan.view = std::move(view);
  plan.spec = std::move(spec);
  COLL_ASSIGN(MachineChannels channels,
              search_machine(plan.view, plan.spec.nodes, plan.spec.search));
  plan.parts = std::move(channels.parts);
  plan.view.findings.insert(plan.view.findings.end(), channels.findings.begin(),
                            channels.findings.end());
  COLL_TRY(join_parts(plan));
  COLL_ASSIGN(runtime::CommShape shape, shape_of(plan));
  COLL_TRY(calibrate(plan, shape));
  COLL_ASSIGN(const auto tuner, start_plan_tuner(plan.spec.plugin, hosts_of(plan)));
  shape.tuner = tuner.get();
  plan.tuner = plan_tuner(tuner.get());
  for (const uint64_t asked : plan.spec.sizes) {
    COLL_ASSIGN(PlanRow row, make_row(plan, shape, asked));
    plan.rows.push_back(std::move(row));
  }
  find_oddities(plan);
  return plan;
}

Result<int> plan_command(const ParsedLine& line, Console& console) {
  COLL_ASSIGN(const OutputOptions output, interpret_files(line));
  COLL_ASSIGN(PlanSpec spec, interpret_plan(line));
  if (!output.quiet)
    for (const auto& note : line.notes) console.note(note);
  COLL_ASSIGN(TopoView view, read_view(line));
  if (view.graph.gpus.empty()) {
    COLL_ASSIGN(const CpuPlan plan, make_cpu_plan(std::move(view), std::move(spec)));
    const auto text = [&](size_t width) { return cpu_plan_text(plan, width); };
    return show_plan(plan.view, cpu_plan_json(plan), text, output, console);
  }
  COLL_ASSIGN(const JobPlan plan, make_job_plan(std::move(view), std::move(spec)));
  const auto text = [&](size_t width) { return plan_text(plan, output.verbosity, width); };
  return show_plan(plan.view, plan_json(plan), text, output, console);
}

}  // namespace collctl::cmd
