// The JSON of `topo`: collctl.topo/1.
#include "cmd/judge/topology.h"
#include "cmd/text/provenance.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {
namespace {

using namespace topology;

void write_cpus(const TopoView& view, JsonWriter& json) {
  json.key("cpus").begin_array();
  for (size_t i = 0; i < view.graph.cpus.size(); ++i) {
    const Node& node = view.graph.nodes[size_t(view.graph.cpus[i])];
    json.begin_object().field("numa", node.id);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("arch", node.arch).field("vendor", node.vendor);
    json.field("family", node.family).field("model", node.cpu_model);
    const Cpu& cpu = view.system.cpus[i];
    if (const int cores = processor_cores(view, cpu); cores > 0) json.field("cores", cores);
    if (const int threads = processor_threads(cpu); threads > 0) json.field("threads", threads);
    json.end_object();
  }
  json.end_array();
}

int64_t numa_of(const Graph& graph, const Node& node) {
  return graph.nodes[size_t(node.cpu)].id;
}

void write_gpus(const TopoView& view, JsonWriter& json) {
  json.objects("gpus", view.graph.gpus, [&](int at) {
    const Node& node = view.graph.nodes[size_t(at)];
    json.field("dev", node.dev);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("busid", bus_id_text({node.id})).field_or_null("sm", node.sm > 0, node.sm);
    json.field("rank", node.rank).field("numa", numa_of(view.graph, node));
    json.field("gdr", node.gdr).field("nvlinks", node.fabric_links);
  });
}

void write_nics(const TopoView& view, JsonWriter& json) {
  json.objects("nics", view.graph.nets, [&](int at) {
    const Node& node = view.graph.nodes[size_t(at)];
    json.field("name", node.name).field("dev", node.dev);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("rate_Gbps", node.net_gbps * 8).field("rate_assumed", node.net_assumed);
    json.field("gdr", node.gdr);
    json.field("port", node.port).field("coll", node.coll);
    const Node& nic = view.graph.nodes[size_t(node.links.front().to)];
    json.field("numa", numa_of(view.graph, node));
    json.field_or_null("busid", nic.id != 0, bus_id_text({nic.id}));
  });
}

void write_path(const TopoView& view, const Locality& locality, int from, int to,
                JsonWriter& json) {
  const Graph& graph = view.graph;
  const Path& path = view.effective.at(from, to);
  json.begin_object().field("from", node_name(graph, from)).field("to", node_name(graph, to));
  json.field("type", path_type_name(path.type)).field("bw_GBps", path.gbps);
  json.field("hops", path.hops).field("limited_by", limiting_link(graph, path));
  const NodeKind a = graph.nodes[size_t(from)].kind, b = graph.nodes[size_t(to)].kind;
  if (a == NodeKind::gpu && b == NodeKind::gpu) {
    const GpuWay way = gpu_way(graph, view.base, view.rules, from, to);
    json.field("p2p", way.way == topology::Way::p2p)
        .field("way", way_name(way.way))
        .field("why", way.why);
  } else if (a == NodeKind::gpu && b == NodeKind::net) {
    const Relay relay = pxn(graph, view.base, locality, view.rules, from, to);
    // Through a relay the NIC reads the relay's memory.
    const int read = relay.gpu >= 0 ? relay.gpu : from;
    const Decision direct = gdr(graph, view.base, view.rules, read, to, Direction::send);
    json.field("gdr", direct.yes).field("why", relay.gpu >= 0 ? relay.why : direct.why);
    if (relay.gpu >= 0) json.field("relay", node_name(graph, relay.gpu));
  } else if (a == NodeKind::net && b == NodeKind::gpu) {
    const Decision direct = gdr(graph, view.base, view.rules, to, from, Direction::receive);
    json.field("gdr", direct.yes).field("why", direct.why);
  }
  json.end_object();
}

void write_graphs(const TopoView& view, const std::vector<NodeGraphs>& parts, JsonWriter& json) {
  json.key("graphs").begin_array();
  for (const NodeGraphs& graphs : parts)
    for (const ChannelGraph* found : {&graphs.ring, &graphs.tree, &graphs.collnet})
      if (!found->channels.empty()) write_graph(view, *found, json);
  json.end_array();
}

}  // namespace

void write_graph(const TopoView& view, const ChannelGraph& found, JsonWriter& json) {
  const auto node = [&](int at) -> const Node& { return view.graph.nodes[size_t(at)]; };
  json.begin_object().field("pattern", found.collnet ? "collnet" : pattern_name(found.pattern));
  json.field("nchannels", found.channels.size());
  json.field("bw_intra_GBps", found.bw_intra).field("bw_inter_GBps", found.bw_inter);
  json.field("type_intra", path_type_name(found.type_intra));
  json.field("type_inter", path_type_name(found.type_inter));
  json.field("same_channels", found.same_channels).field("cross_nic", found.cross_nic);
  json.field("fallback", found.fallback);
  json.objects("channels", found.channels, [&](const GraphChannel& channel) {
    json.list("gpus", channel.gpus, [&](int gpu) { return node(gpu).rank; });
    json.key("nets").begin_array();
    for (const int net : {channel.net_in, channel.net_out})
      if (net >= 0) json.value(node(net).dev);
    json.end_array();
  });
  json.end_object();
}

void write_findings(const std::vector<topology::Finding>& findings, JsonWriter& json) {
  Record(json).field("findings", described(findings));
}

void write_machine(const TopoView& view, JsonWriter& json) {
  continue_document(json, "collctl.topo/1").field("source", view.live ? "live" : "file");
  json.field(view.live ? "host" : "file", view.source);
  write_cpus(view, json);
  write_gpus(view, json);
  write_nics(view, json);
  const Locality locality(view.graph, view.base);
  json.key("paths").begin_array();
  // From and to GPUs: what lies between network devices and CPUs alone is nobody's message.
  for (const int gpu : view.graph.gpus)
    for (const int other : view.effective.endpoints()) {
      if (other == gpu) continue;
      write_path(view, locality, gpu, other, json);
      if (view.graph.nodes[size_t(other)].kind != NodeKind::gpu)
        write_path(view, locality, other, gpu, json);
    }
  json.end_array();
}

std::string topo_json(const TopoView& view, const std::vector<NodeGraphs>& parts) {
  JsonWriter json;
  json.begin_object();
  write_machine(view, json);
  write_graphs(view, parts, json);
  write_rdma(view, json);
  write_findings(view.findings, json);
  return json.end_object().take();
}

}  // namespace collctl::cmd
