#include "topology/xml/graph_xml.h"

#include <map>

#include "base/format.h"
#include "topology/xml/source.h"
#include "topology/xml/xml.h"

namespace collctl::topology {
namespace {

// NCCL's numbers. Source: NCCL 2.30 (nccl/src/include/graph.h).
enum GraphId : int { kRing = 0, kTree = 1, kCollnetChain = 2, kNvls = 3, kCollnetDirect = 4 };
constexpr int kMaxGraphId = kCollnetDirect;

struct PatternRow {
  int number;
  Pattern pattern;
};
constexpr PatternRow kPatterns[] = {
    {1, Pattern::balanced_tree}, {2, Pattern::split_tree}, {3, Pattern::tree}, {4, Pattern::ring}};
constexpr int kMaxPattern = 6;  // 5 and 6: NVLS and CollNet direct

constexpr double kMaxGBps = 1e6;
constexpr int kHostShift = 56;  // of the host's number in a dev, with several hosts

// A device as files name it.
int64_t dev_of(const Graph& graph, int at) {
  const Node& node = graph.nodes[size_t(at)];
  return (graph.hosts > 1 ? int64_t{node.host} << kHostShift : 0) + node.dev;
}

class GraphReader {
 public:
  GraphReader(XmlSource& source, const Graph& graph) : source_(source), graph_(graph) {
    for (const int gpu : graph.gpus) gpus_.emplace(dev_of(graph, gpu), gpu);
    for (const int net : graph.nets) nets_.emplace(dev_of(graph, net), net);
  }

  void read(GraphFile& file) {
    const pugi::xml_node root = source_.root();
    const Place at = source_.place(root);
    if (std::string_view(root.name()) != "graphs")
      return source_.fail(at, "expected <graphs version=\"1\"> as the root");
    XmlAttributes attributes(source_, root);
    attributes.required("version", attributes.small("version", 1, 1), "1");
    for (const pugi::xml_node child : root.children())
      if (is_element(child, root, "graph")) read_graph(child, file);
  }

 private:
  // Notes what else stands there.
  bool is_element(pugi::xml_node node, pugi::xml_node parent, const char* name) {
    if (node.type() == pugi::node_element && std::string_view(node.name()) == name) return true;
    if (node.type() == pugi::node_element || node.type() == pugi::node_pcdata)
      source_.note(
          source_.place(parent),
          format("something inside <{}> that is not a <{}> is ignored", parent.name(), name));
    return false;
  }

  void read_graph(pugi::xml_node node, GraphFile& file) {
    const Place at = source_.place(node);
    XmlAttributes attributes(source_, node);
    const int id = attributes.required("id", attributes.small("id", 0, kMaxGraphId), "0..4");
    if (id == kNvls || id == kCollnetDirect)
      return source_.note(at,
                          format("graph id {} is for an algorithm that does not exist here", id));
    std::optional<ChannelGraph>& place = id == kRing   ? file.ring
                                         : id == kTree ? file.tree
                                                       : file.collnet;
    if (place) return source_.fail(at, format("a second graph with id {}: expected one", id));
    const int count =
        attributes.required("nchannels", attributes.small("nchannels", 0, kMaxGraphChannels),
                            format("0..{}", kMaxGraphChannels).c_str());
    if (count == 0 && !node.child("channel")) return;  // as if it were not there
    ChannelGraph graph;
    graph.collnet = id == kCollnetChain;
    read_attributes(attributes, at, graph);
    if ((graph.pattern == Pattern::ring) != (id == kRing))
      source_.fail(at, id == kRing ? "graph id 0 has a tree's pattern: expected 4, a ring"
                                   : format("graph id {} has a ring's pattern: expected a tree's, "
                                            "1, 2 or 3",
                                            id));
    for (const pugi::xml_node child : node.children())
      if (is_element(child, node, "channel") && !source_.failed())
        graph.channels.push_back(read_channel(child));
    if (int(graph.channels.size()) != count)
      source_.fail(
          at, format("nchannels=\"{}\", but {} <channel> follow", count, graph.channels.size()));
    // No cluster can mix channels that use the network with channels that do not.
    for (const GraphChannel& channel : graph.channels)
      if ((channel.net_in < 0) != (graph.channels.front().net_in < 0))
        source_.fail(at, "some channels have network devices and some have none");
    place = std::move(graph);
  }

  void read_attributes(XmlAttributes& attributes, const Place& at, ChannelGraph& graph) {
    const int pattern =
        attributes.required("pattern", attributes.small("pattern", 1, kMaxPattern), "1..4");
    bool known = false;
    for (const PatternRow& row : kPatterns)
      if (row.number == pattern) {
        graph.pattern = row.pattern;
        known = true;
      }
    if (!known) source_.fail(at, format("unknown pattern {}: expected 1..4", pattern));
    graph.cross_nic = attributes.small("crossnic", 0, 2).value_or(0);
    graph.bw_intra = bandwidth(attributes, "speedintra");
    graph.bw_inter = bandwidth(attributes, "speedinter");
    graph.latency_inter_us = attributes.number("latencyinter", 0, 1e9).value_or(0);
    graph.type_intra = type(attributes, at, "typeintra");
    graph.type_inter = type(attributes, at, "typeinter");
    graph.same_channels = attributes.flag("samechannels").value_or(false);
  }

  double bandwidth(XmlAttributes& attributes, const char* name) {
    return attributes.required(name, attributes.number(name, 1e-3, kMaxGBps), "GB/s");
  }

  PathType type(XmlAttributes& attributes, const Place& at, const char* name) {
    const std::string text = attributes.required(name, attributes.text(name), "a path type");
    const std::optional<PathType> type = parse_path_type(text);
    if (!type && !text.empty())
      source_.fail(at, format("{} is not a path type: expected LOC, NVL, NVB, C2C, PIX, PXB, P2C, "
                              "PXN, PHB, SYS, NET or DIS",
                              name));
    return type.value_or(PathType::dis);
  }

  GraphChannel read_channel(pugi::xml_node node) {
    GraphChannel channel;
    std::vector<int> nets;
    std::map<int, Place> seen;
    for (const pugi::xml_node child : node.children()) {
      if (child.type() != pugi::node_element) continue;
      const Place at = source_.place(child);
      const std::string_view name = child.name();
      if (name == "gpu") {
        const int gpu = device(child, gpus_, "GPU");
        if (gpu < 0) break;
        if (const auto [first, fresh] = seen.try_emplace(gpu, at); !fresh)
          source_.fail(at, format("{} is in this channel twice: it is at line {} too",
                                  node_name(graph_, gpu), first->second.line));
        channel.gpus.push_back(gpu);
      } else if (name == "net") {
        nets.push_back(device(child, nets_, "network device"));
        if (nets.back() < 0) break;
      } else {
        source_.fail(at, "expected <gpu> and <net> in a channel");
      }
    }
    check_channel(channel, nets, source_.place(node));
    return channel;
  }

  // The node that a dev names; -1 after a failure.
  int device(pugi::xml_node node, const std::map<int64_t, int>& devices, const char* kind) {
    XmlAttributes attributes(source_, node);
    const std::optional<int64_t> dev = attributes.integer("dev", 0, INT64_MAX);
    attributes.required("dev", dev, "a number");
    if (!dev || source_.failed()) return -1;
    const auto found = devices.find(*dev);
    if (found != devices.end()) return found->second;
    source_.fail(source_.place(node),
                 format("dev {}: there is no such {} (of {})", *dev, kind, devices.size()));
    return -1;
  }

  void check_channel(GraphChannel& channel, const std::vector<int>& nets, const Place& at) {
    if (channel.gpus.size() != gpus_.size())
      source_.fail(at, format("a channel of {} GPUs: expected each of the {} once",
                              channel.gpus.size(), gpus_.size()));
    if (nets.size() != 0 && nets.size() != 2)
      source_.fail(at, format("a channel with {} <net>: expected the one it enters by and the one "
                              "it leaves by, or none",
                              nets.size()));
    if (nets.size() != 2) return;
    channel.net_in = nets[0];
    channel.net_out = nets[1];
  }

  XmlSource& source_;
  const Graph& graph_;
  std::map<int64_t, int> gpus_, nets_;
};

std::string device_line(const char* kind, const Graph& graph, int at) {
  const int64_t dev = dev_of(graph, at);
  const std::string text = graph.hosts > 1 ? format("{:#x}", dev) : std::to_string(dev);
  return format("      <{} dev=\"{}\"/>\n", kind, text);
}

std::string graph_text(const Graph& graph, int id, const ChannelGraph& channels) {
  int pattern = 0;
  for (const PatternRow& row : kPatterns)
    if (row.pattern == channels.pattern) pattern = row.number;
  std::string text = format(
      "  <graph id=\"{}\" pattern=\"{}\" crossnic=\"{}\" nchannels=\"{}\" speedintra=\"{}\" "
      "speedinter=\"{}\" latencyinter=\"{}\" typeintra=\"{}\" typeinter=\"{}\" "
      "samechannels=\"{}\">\n",
      id, pattern, channels.cross_nic, channels.channels.size(), channels.bw_intra,
      channels.bw_inter, channels.latency_inter_us, path_type_name(channels.type_intra),
      path_type_name(channels.type_inter), channels.same_channels ? 1 : 0);
  for (const GraphChannel& channel : channels.channels) {
    text += "    <channel>\n";
    if (channel.net_in >= 0) text += device_line("net", graph, channel.net_in);
    for (const int gpu : channel.gpus) text += device_line("gpu", graph, gpu);
    if (channel.net_out >= 0) text += device_line("net", graph, channel.net_out);
    text += "    </channel>\n";
  }
  return text + "  </graph>\n";
}

}  // namespace

Result<GraphFile> read_graph_xml(std::string_view text, const std::string& name,
                                 const Graph& graph) {
  XmlSource source(text, name);
  COLL_TRY(source.parse());
  GraphFile file;
  GraphReader(source, graph).read(file);
  if (source.failed()) return source.take_failure();
  file.findings = source.take_notes();
  return file;
}

Result<GraphFile> read_graph_xml_file(const std::string& path, const Graph& graph) {
  COLL_ASSIGN(const std::string text, read_xml_text(path));
  return read_graph_xml(text, path, graph);
}

std::string write_graph_xml(const Graph& graph, const NodeGraphs& graphs) {
  std::string text = "<graphs version=\"1\">\n";
  const std::pair<int, const ChannelGraph*> all[] = {
      {kRing, &graphs.ring}, {kTree, &graphs.tree}, {kCollnetChain, &graphs.collnet}};
  for (const auto& [id, channels] : all)
    if (!channels->channels.empty()) text += graph_text(graph, id, *channels);
  return text + "</graphs>\n";
}

}  // namespace collctl::topology
