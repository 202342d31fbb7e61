// The tree, the matrix and the channels of topo as text: exact for machines written by hand, and
// complete for all committed files.
#include <set>
#include <sstream>

#include "cmd/topo/topo.h"
#include "tests/unit/cmd/topo/topo_machines.h"

namespace topo_topo_text_tests {

using namespace collctl::cmd;
using namespace collctl::topology;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Two GPUs that share a NIC, and a third on another CPU without a way but the CPUs.
const char* const kThree = R"(<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
<pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80" rank="0" gdr="1"/></pci>
<pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="80" rank="1" gdr="1"/></pci>
<pci busid="0000:13:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
<nic><net name="a" dev="0" speed="100000" port="1" guid="0x1" gdr="1"/><net name="b" dev="1" speed="100000" port="2" guid="0x1" gdr="1"/></nic></pci>
</pci></cpu>
<cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="0000:21:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="2" sm="80" rank="2" gdr="1"/></pci>
</cpu></system>)";

ChannelGraph channels(collctl::topology::Pattern pattern, std::vector<GraphChannel> list) {
  ChannelGraph made;
  made.pattern = pattern;
  made.bw_intra = 24;
  made.bw_inter = 12;
  made.type_intra = PathType::pix;
  made.type_inter = PathType::pxb;
  made.channels = std::move(list);
  return made;
}

}  // namespace

TEST_CASE("the tree names each fault where it is, in red where colours are", "[topo]") {
  const TopoView worn = view(worn_machine());
  // 0000ffff is 16 processors; 16 NVLinks of 20.6 GB/s are 329.6; gen5 x16 is 16 * 240 / 80 = 48.
  const std::string gpu_fault = "! x8 of x16, 16 of 18 NVLinks";
  const std::string nic_fault = "! gen3 of gen5, down: mlx5_0:2";
  const auto expected = [&](const std::string& on, const std::string& off) {
    return "f.xml: 1 NUMA node, 1 GPU (H100), 1 network device\n"
           "|- CPU 0  AMD EPYC Genoa, 16 threads\n"
           "|  `- switch  10:00.0  gen5 x16 48 GB/s\n"
           "|     |- GPU 0 H100  11:00.0  gen5 x16 48 GB/s  rank 0  16 NVLinks to NVSwitch  " +
           on + gpu_fault + off +
           "\n"
           "|     `- NET 0 mlx5_0  400 Gb/s GDR  ConnectX-7  12:00.0  gen5 x16 48 GB/s  " +
           on + nic_fault + off + "\n" + "`- NVSwitch  joins 1 GPU, 329.6 GB/s each\n";
  };
  CHECK(topo_tree(worn) == expected("", ""));
  CHECK(topo_tree(worn, {.colours = true}) == expected("\x1b[1;31m", "\x1b[0m"));
  size_t warnings = 0;
  for (const collctl::topology::Finding& finding : worn.findings) {
    if (finding.severity != Severity::warning) continue;
    ++warnings;
    CHECK_FALSE(finding.where.empty());
    CHECK_FALSE(finding.remedy.empty());
  }
  CHECK(warnings == 4);  // one each
}

TEST_CASE("each CPU has the cores of its own NUMA node", "[topo]") {
  TopoView two = view(kThree);
  collctl::base::Processors& processors = two.processors.emplace();
  // Two threads of one core on node 0, three cores of one on node 1.
  processors.online = {{.id = 0, .core = 0, .numa = 0},
                       {.id = 1, .core = 0, .numa = 0},
                       {.id = 2, .package = 1, .core = 2, .numa = 1},
                       {.id = 3, .package = 1, .core = 3, .numa = 1},
                       {.id = 4, .package = 1, .core = 4, .numa = 1}};
  processors.nodes.resize(2);
  processors.nodes[1].id = 1;
  std::vector<std::string> cores;
  for (const std::string& line : lines_of(topo_tree(two, {})))
    if (line.find(" core") != std::string::npos) cores.push_back(line);
  REQUIRE(cores.size() == 2);
  CHECK(cores[0].find("1 core") != std::string::npos);
  CHECK(cores[1].find("3 cores") != std::string::npos);
}

TEST_CASE("what repeats is folded, and -v unfolds it", "[topo]") {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">";
  for (const char* id : {"1", "2", "3", "4", "5"})
    text += "<pci busid=\"0000:a" + std::string(id) +
            ":00.0\" class=\"0x020000\" link_speed=\"8.0 GT/s PCIe\" link_width=\"8\"/>";
  for (const char* id : {"0", "1", "2", "3"})
    text +=
        "<nic><net name=\"veth" + std::string(id) + "\" dev=\"" + id + "\" speed=\"10000\"/></nic>";
  const TopoView many = view(text + "</cpu></system>");
  // gen3 x8 is 8 * 60 / 80 = 6.
  CHECK(
      topo_tree(many) ==
      "f.xml: 1 NUMA node, 0 GPUs, 4 network devices\n"
      "`- CPU 0  x86_64\n"
      "   |- 5 x NIC without <nic>  a1:00.0, a2:00.0, a3:00.0, a4:00.0 and 1 more  gen3 x8 6 GB/s\n"
      "   `- 4 interfaces without a PCI device: veth0, veth1 and 2 more  10 Gb/s\n");
  const auto unfolded = lines_of(topo_tree(many, {.unfold = true}));
  REQUIRE(unfolded.size() == 2 + 5 + 4);
  CHECK(unfolded[6] == "   |- NIC without <nic>  a5:00.0  gen3 x8 6 GB/s");
  CHECK(unfolded[10] == "   `- NET 3 veth3  10 Gb/s");
}

TEST_CASE("text of a file cannot steer the terminal", "[topo]") {
  const TopoView evil =
      view(replaced(worn_machine(), "\"mlx5_0\"", "\"m&#x1b;[2J\""), "f\x1b[2J.xml");
  CHECK(topo_tree(evil).find('\x1b') == std::string::npos);
}

TEST_CASE("devices that are assumed say so", "[topo]") {
  const TopoView some = view(replaced(worn_machine(), "<gpu ", "<gpu assumed=\"1\" "));
  CHECK(topo_tree(some).find("GPU 0 H100 (assumed)  11:00.0") != std::string::npos);
}

TEST_CASE("the matrix joins equal columns and stays within 80", "[topo]") {
  // gen4 x16 is 24; SPR to SPR 22; 100 Gb/s are 12.5. Both ports look the same from every GPU. Two
  // GPUs below one switch: PIX. GPU 2 goes through both CPUs.
  CHECK(topo_matrix(view(kThree), 80) ==
        "GB/s   GPU/0   GPU/1   GPU/2   NET/0-1\n"
        "GPU/0  -       PIX 24  SYS 22  PIX 12.5\n"
        "GPU/1  PIX 24  -       SYS 22  PIX 12.5\n"
        "GPU/2  SYS 22  SYS 22  -       SYS 12.5\n"
        "\n"
        "PIX  at most one PCI switch\n"
        "SYS  between CPUs (NUMA nodes)\n"
        "GB/s less protocol, by NCCL: 18 NVLinks 370.8 of 450; PCIe gen5 x16 48 of 63\n");
}

TEST_CASE("tree and matrix of every file show every device", "[topo]") {
  for (const std::string& path : data_files()) {
    INFO(path);
    const TopoView machine = view(data_text(path), "f.xml");
    const Graph& graph = machine.graph;
    const std::string tree = topo_tree(machine, {.unfold = true});
    const std::string matrix = topo_matrix(machine, 80);
    for (const size_t width : {size_t{60}, size_t{80}})
      for (const std::string& line : lines_of(topo_matrix(machine, width)))
        CHECK((line.size() <= width || line.starts_with("GB/s less protocol")));
    std::set<int> columns;  // devs of network devices
    for (const std::string& line : lines_of(matrix)) {
      if (line.rfind("GB/s", 0) != 0) continue;
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        if (word.rfind("NET/", 0) != 0) continue;
        const size_t dash = word.find('-');
        const int first = std::stoi(word.substr(4));
        const int last = dash == std::string::npos ? first : std::stoi(word.substr(dash + 1));
        for (int dev = first; dev <= last; ++dev) columns.insert(dev);
      }
    }
    for (const int gpu : graph.gpus) {
      const Node& node = graph.nodes[size_t(gpu)];
      const std::string name = "GPU " + std::to_string(node.dev);
      CHECK((tree.find(name + " ") != std::string::npos));
      CHECK(matrix.find("GPU/" + std::to_string(node.dev)) != std::string::npos);
      CHECK(tree.find(bus_id_text({node.id}).substr(5)) != std::string::npos);
    }
    for (const int net : graph.nets) {
      const Node& node = graph.nodes[size_t(net)];
      CHECK(tree.find("NET " + std::to_string(node.dev) + " " + node.name + "  ") !=
            std::string::npos);
      if (!graph.gpus.empty() && graph.hosts == 1) CHECK(columns.count(node.dev) == 1);
    }
  }
}

TEST_CASE("channels: NCCL's lines, equal ones once, and who of a tree reaches other nodes",
          "[topo]") {
  const TopoView three = view(kThree);
  const std::vector<int>& g = three.graph.gpus;
  const std::vector<int>& n = three.graph.nets;
  const GraphChannel forth{{g[0], g[1], g[2]}, n[0], n[1]}, back{{g[2], g[1], g[0]}, n[0], n[1]};
  NodeGraphs graphs;
  graphs.ring = channels(collctl::topology::Pattern::ring, {forth, forth, back, forth});
  graphs.ring.same_channels = false;
  graphs.tree = channels(collctl::topology::Pattern::balanced_tree, {forth, forth});
  CHECK(topo_graph(three, {graphs}, 2) ==
        "channels of each node by the search, 2 nodes:\n"
        "ring: 4 channels x 24 GB/s between GPUs (PIX), 12 GB/s to the network (PXB), in several "
        "orders\n"
        " 0 : NET/0 GPU/0 GPU/1 GPU/2 NET/1   x 3 (channels 0-1, 3)\n"
        " 2 : NET/0 GPU/2 GPU/1 GPU/0 NET/1\n"
        "balanced-tree: 2 channels x 24 GB/s between GPUs (PIX), 12 GB/s to the network (PXB), all "
        "in one order\n"
        " 0 : NET/0 GPU/0 GPU/1 GPU/2 NET/1   x 2 (channels 0-1)\n"
        "     GPU/0 > GPU/1 > GPU/2\n"
        "     GPU/0: parent and one child in other nodes, by NET/0\n"
        "     GPU/1: one child in another node, by NET/1\n");
  graphs.tree = {};
  graphs.ring = channels(collctl::topology::Pattern::ring, {{{g[0], g[1], g[2]}, -1, -1}});
  graphs.ring.fallback = true;
  CHECK(topo_graph(three, {graphs}, 1) ==
        "channels of the node by the search, 1 node:\n"
        "ring: 1 channel x 24 GB/s between GPUs (PIX)\n"
        "  ! no channel was found at any speed: one channel in the order of ranks\n"
        " 0 : GPU/0 GPU/1 GPU/2\n");
  // A machine in two parts: each is a node, so channels use the network.
  NodeGraphs one, other;
  one.ring = channels(collctl::topology::Pattern::ring, {{{g[0], g[1]}, n[0], n[0]}});
  other.ring = channels(collctl::topology::Pattern::ring, {{{g[2]}, n[1], n[1]}});
  CHECK(topo_graph(three, {one, other}, 1) ==
        "channels of each node by the search, 1 node:\n"
        "the machine is 2 nodes: not all of its GPUs reach each other without the network\n"
        "ring: 1 channel x 24 GB/s between GPUs (PIX), 12 GB/s to the network (PXB)\n"
        " 0 : NET/0 GPU/0 GPU/1 NET/0\n"
        "ring: 1 channel x 24 GB/s between GPUs (PIX), 12 GB/s to the network (PXB)\n"
        " 0 : NET/1 GPU/2 NET/1\n");
  CHECK(topo_graph(three, {}, 1) ==
        "channels of the node by the search, 1 node:\nnone: there is no GPU\n");
}

}  // namespace topo_topo_text_tests
