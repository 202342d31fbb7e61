// The matrix of `topo`, and its JSON.
#include <algorithm>

#include "base/format.h"
#include "cmd/json_writer.h"
#include "cmd/topo.h"

namespace collctl::cmd {
namespace {

using namespace topology;

const char* path_type_words(PathType type) {
  static constexpr const char* kWords[] = {"itself",
                                           "NVLink or xGMI, also through NVSwitches",
                                           "NVLink through one other GPU",
                                           "NVLink-C2C",
                                           "at most one PCI switch",
                                           "several PCI switches, no CPU",
                                           "C2C to the CPU, then PCI",
                                           "NVLink to the GPU next to the NIC, then PCI",
                                           "through a CPU (NUMA node)",
                                           "between CPUs (NUMA nodes)",
                                           "over the network",
                                           "no path"};
  return kWords[size_t(type)];
}

std::string cell(const Path& path) {
  if (path.type == PathType::dis) return "DIS";
  return format("{} {:.3g}", path_type_name(path.type), path.gbps);
}

void write_cpus(const TopoView& view, JsonWriter& json) {
  json.key("cpus").begin_array();
  for (const int at : view.graph.cpus) {
    const Node& node = view.graph.nodes[size_t(at)];
    json.begin_object().field("numa", node.id);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("arch", node.arch).field("vendor", node.vendor);
    json.field("family", node.family).field("model", node.cpu_model).end_object();
  }
  json.end_array();
}

int64_t numa_of(const Graph& graph, const Node& node) {
  return graph.nodes[size_t(node.cpu)].id;
}

void write_gpus(const TopoView& view, JsonWriter& json) {
  json.key("gpus").begin_array();
  for (const int at : view.graph.gpus) {
    const Node& node = view.graph.nodes[size_t(at)];
    json.begin_object().field("dev", node.dev);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("busid", bus_id_text({node.id})).key("sm");
    if (node.sm > 0)
      json.value(node.sm);
    else
      json.null();
    json.field("rank", node.rank).field("numa", numa_of(view.graph, node));
    json.field("gdr", node.gdr).field("nvlinks", node.fabric_links).end_object();
  }
  json.end_array();
}

void write_nics(const TopoView& view, JsonWriter& json) {
  json.key("nics").begin_array();
  for (const int at : view.graph.nets) {
    const Node& node = view.graph.nodes[size_t(at)];
    json.begin_object().field("name", node.name).field("dev", node.dev);
    if (view.graph.hosts > 1) json.field("host", node.host);
    json.field("rate_Gbps", node.net_gbps * 8).field("gdr", node.gdr);
    json.field("port", node.port).field("coll", node.coll);
    json.field("numa", numa_of(view.graph, node)).key("busid");
    const Node& nic = view.graph.nodes[size_t(node.links.front().to)];
    if (nic.id != 0)
      json.value(bus_id_text({nic.id}));
    else
      json.null();
    json.end_object();
  }
  json.end_array();
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
    const Decision direct = p2p(graph, view.base, {}, from, to);
    json.field("p2p", direct.yes).field("why", direct.why);
  } else if (a == NodeKind::gpu && b == NodeKind::net) {
    const Relay relay = pxn(graph, view.base, locality, {}, from, to);
    // Through a relay the NIC reads the relay's memory.
    const int read = relay.gpu >= 0 ? relay.gpu : from;
    const Decision direct = gdr(graph, view.base, {}, read, to, Direction::send);
    json.field("gdr", direct.yes).field("why", relay.gpu >= 0 ? relay.why : direct.why);
    if (relay.gpu >= 0) json.field("relay", node_name(graph, relay.gpu));
  } else if (a == NodeKind::net && b == NodeKind::gpu) {
    const Decision direct = gdr(graph, view.base, {}, to, from, Direction::receive);
    json.field("gdr", direct.yes).field("why", direct.why);
  }
  json.end_object();
}

}  // namespace

std::string topo_matrix(const TopoView& view) {
  const Graph& graph = view.graph;
  std::vector<int> columns = graph.gpus;
  columns.insert(columns.end(), graph.nets.begin(), graph.nets.end());
  if (graph.gpus.empty()) return "no GPUs: no paths to show\n";
  bool used[kPathTypes] = {};
  std::vector<std::vector<std::string>> rows(1, {"GB/s"});
  for (const int to : columns) rows[0].push_back(node_name(graph, to));
  for (const int from : graph.gpus) {
    std::vector<std::string>& row = rows.emplace_back(1, node_name(graph, from));
    for (const int to : columns) {
      const Path& path = view.effective.at(from, to);
      used[size_t(path.type)] = used[size_t(path.type)] || from != to;
      row.push_back(from == to ? "-" : cell(path));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      line += format("{:<{}}", row[i], width + (i + 1 < row.size() ? 2 : 0));
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += "\n";
  for (int type = 0; type < kPathTypes; ++type)
    if (used[type])
      text += format("{}  {}\n", path_type_name(PathType(type)), path_type_words(PathType(type)));
  return text;
}

std::string topo_json(const TopoView& view) {
  JsonWriter json;
  json.begin_object().field("schema", "collctl.topo/1").field("source", "file");
  json.field("file", view.source);
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
  json.end_array().key("findings").begin_array();
  for (const Finding& finding : view.findings)
    json.begin_object()
        .field("severity", severity_name(finding.severity))
        .field("what", finding.what)
        .field("where", finding.where)
        .field("remedy", finding.remedy)
        .end_object();
  return json.end_array().end_object().take();
}

}  // namespace collctl::cmd
