// Graph files: what is written reads back, what is not of the machine is refused with its line.
#include <random>

#include "tests/catch.h"
#include "tests/unit/topology/committed.h"
#include "tests/unit/topology/machine.h"
#include "topology/xml/graph_xml.h"

namespace xml_graph_xml_tests {

using namespace collctl::topology;

namespace {

// Two GPUs below one switch with two ports.
Machine small() {
  const auto net = [](int dev) {
    const std::string n = std::to_string(dev);
    return "<net name=\"n" + n + "\" dev=\"" + n + "\" speed=\"100000\" gdr=\"1\"/>";
  };
  return parse(chip(device("10", device("01", gpu(0)) + device("02", gpu(1)) +
                                     device("03", "<nic>" + net(0) + net(1) + "</nic>"))));
}

// One ring, with these attributes more or otherwise, and this inside.
std::string ring_file(const std::string& inner, const std::string& count = "1",
                      const std::string& head = "id=\"0\" pattern=\"4\"") {
  return "<graphs version=\"1\">\n<graph " + head + " crossnic=\"0\" nchannels=\"" + count +
         "\" speedintra=\"20\" speedinter=\"12\" typeintra=\"PIX\" typeinter=\"PXB\" "
         "samechannels=\"1\">\n" +
         inner + "\n</graph></graphs>";
}

const char* const kChannel =
    "<channel><net dev=\"1\"/><gpu dev=\"1\"/><gpu dev=\"0\"/><net dev=\"0\"/></channel>";

std::string refusal(const std::string& text) {
  const Machine machine = small();
  const auto read = read_graph_xml(text, "g.xml", machine.graph);
  REQUIRE_FALSE(read.ok());
  return read.error().message;
}

bool is_equal(const ChannelGraph& a, const ChannelGraph& b) {
  return a.pattern == b.pattern && a.collnet == b.collnet && a.bw_intra == b.bw_intra &&
         a.bw_inter == b.bw_inter && a.type_intra == b.type_intra && a.type_inter == b.type_inter &&
         a.same_channels == b.same_channels && a.cross_nic == b.cross_nic &&
         a.latency_inter_us == b.latency_inter_us && a.channels == b.channels;
}

}  // namespace

TEST_CASE("a graph file gives its channels as nodes of the machine") {
  const Machine machine = small();
  const auto read = read_graph_xml(ring_file(kChannel), "g.xml", machine.graph);
  REQUIRE(read.ok());
  REQUIRE(read->ring);
  CHECK_FALSE(read->tree);
  CHECK(read->ring->bw_intra == 20);
  CHECK(read->ring->bw_inter == 12);
  CHECK(read->ring->type_intra == PathType::pix);
  CHECK(read->ring->type_inter == PathType::pxb);
  REQUIRE(read->ring->channels.size() == 1);
  const GraphChannel& channel = read->ring->channels[0];
  CHECK(channel.gpus == std::vector<int>{machine.gpu(1), machine.gpu(0)});
  CHECK(channel.net_in == machine.net(1));
  CHECK(channel.net_out == machine.net(0));
}

TEST_CASE("numbers may be hexadecimal, and what is of other algorithms is left out with a note") {
  const Machine machine = small();
  const auto read = read_graph_xml(
      "<graphs version=\"1\"><graph id=\"3\" pattern=\"5\"/>"
      "<graph id=\"0x1\" pattern=\"0x3\" nchannels=\"0x1\" speedintra=\"20\" speedinter=\"12\" "
      "typeintra=\"PIX\" typeinter=\"PIX\"><channel><net dev=\"0x0\"/><gpu dev=\"0x0\"/>"
      "<gpu dev=\"0x1\"/><net dev=\"0x0\"/></channel></graph></graphs>",
      "g.xml", machine.graph);
  REQUIRE(read.ok());
  REQUIRE(read->tree);
  CHECK(read->tree->pattern == Pattern::tree);
  CHECK(read->tree->channels[0].gpus == std::vector<int>{machine.gpu(0), machine.gpu(1)});
  REQUIRE(read->findings.size() == 1);
  CHECK(read->findings[0].what == "graph id 3 is for an algorithm that does not exist here");
}

// The column is that of the element's name.
TEST_CASE("a graph that is not of this machine is refused with line and dev") {
  CHECK(refusal(ring_file("<channel><gpu dev=\"0\"/>\n<gpu dev=\"7\"/></channel>")) ==
        "g.xml:4:2: dev 7: there is no such GPU (of 2)");
  CHECK(refusal(ring_file("<channel><gpu dev=\"0\"/>\n<gpu dev=\"0\"/></channel>")) ==
        "g.xml:4:2: GPU/0 is in this channel twice: it is at line 3 too");
  CHECK(refusal(ring_file("<channel><net dev=\"2\"/><gpu dev=\"0\"/></channel>")) ==
        "g.xml:3:11: dev 2: there is no such network device (of 2)");
  CHECK(refusal(ring_file("<channel><gpu dev=\"0\"/></channel>")) ==
        "g.xml:3:2: a channel of 1 GPUs: expected each of the 2 once");
  CHECK(refusal(ring_file("<channel><net dev=\"0\"/><gpu dev=\"0\"/><gpu dev=\"1\"/></channel>")) ==
        "g.xml:3:2: a channel with 1 <net>: expected the one it enters by and the one it leaves "
        "by, or none");
  CHECK(refusal(ring_file(kChannel, "2")) == "g.xml:2:2: nchannels=\"2\", but 1 <channel> follow");
  CHECK(refusal(ring_file(
            std::string(kChannel) + "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/></channel>", "2")) ==
        "g.xml:2:2: some channels have network devices and some have none");
}

TEST_CASE("mistakes of a graph file's own are refused with their line") {
  CHECK(refusal("<system version=\"1\"/>") ==
        "g.xml:1:2: expected <graphs version=\"1\"> as the root");
  CHECK(refusal(ring_file(kChannel, "1", "id=\"0\" pattern=\"3\"")) ==
        "g.xml:2:2: graph id 0 has a tree's pattern: expected 4, a ring");
  CHECK(refusal(ring_file(kChannel, "1", "id=\"1\" pattern=\"4\"")) ==
        "g.xml:2:2: graph id 1 has a ring's pattern: expected a tree's, 1, 2 or 3");
  CHECK(refusal(ring_file(kChannel, "1", "id=\"0\" pattern=\"6\"")) ==
        "g.xml:2:2: unknown pattern 6: expected 1..4");
  CHECK(refusal(ring_file(kChannel, "65")).find("expected a whole number 0..64") !=
        std::string::npos);
  CHECK(refusal(ring_file("<channel><pci/></channel>")) ==
        "g.xml:3:11: expected <gpu> and <net> in a channel");
  CHECK(refusal(ring_file("<channel><gpu/></channel>")) ==
        "g.xml:3:11: <gpu> has no dev: expected a number");
  const std::string twice = ring_file(kChannel);
  CHECK(refusal(twice.substr(0, twice.size() - 9) + twice.substr(twice.find('\n') + 1)) ==
        "g.xml:4:10: a second graph with id 0: expected one");
  std::string speed = ring_file(kChannel);
  speed.replace(speed.find("\"20\""), 4, "\"-1\"");
  CHECK(refusal(speed).find("speedintra=\"-1\" in <graph>: expected a number") !=
        std::string::npos);
  std::string type = ring_file(kChannel);
  type.replace(type.find("PXB"), 3, "PXY");
  CHECK(refusal(type).find("g.xml:2:2: typeinter is not a path type") == 0);
}

TEST_CASE("graphs without channels count as absent, as NCCL writes those it does not use") {
  const Machine machine = small();
  const auto read = read_graph_xml(
      "<graphs version=\"1\"><graph id=\"4\" pattern=\"6\" crossnic=\"0\" nchannels=\"0\" "
      "speedintra=\"0\" speedinter=\"0\" latencyinter=\"0\" typeintra=\"LOC\" "
      "typeinter=\"LOC\" samechannels=\"0\"/><graph id=\"2\" pattern=\"3\" crossnic=\"0\" "
      "nchannels=\"0\" speedintra=\"0\" speedinter=\"0\" latencyinter=\"0\" "
      "typeintra=\"LOC\" typeinter=\"LOC\" samechannels=\"0\"/></graphs>",
      "g.xml", machine.graph);
  REQUIRE(read.ok());
  CHECK_FALSE(read->collnet);
}

TEST_CASE("the graphs of every committed file survive writing and reading") {
  int compared = 0;
  for (const auto& [path, graph, paths, made] : committed_machines()) {
    INFO(path);
    const std::string text = write_graph_xml(graph, made);
    const auto again = read_graph_xml(text, "g.xml", graph);
    if (!again.ok()) FAIL(again.error().message << "\n" << text);
    REQUIRE((again->ring && again->tree));
    CHECK(is_equal(*again->ring, made.ring));
    CHECK(is_equal(*again->tree, made.tree));
    CHECK(again->collnet.has_value() == !made.collnet.channels.empty());
    if (again->collnet) CHECK(is_equal(*again->collnet, made.collnet));
    ++compared;
  }
  CHECK(compared > fewest_machines());
}

TEST_CASE("GPUs of several hosts are told apart by the host's number above the dev") {
  const auto host = [](const std::string& n, int rank) {
    return "<cpu host_hash=\"0x" + n + "\" numaid=\"0\" arch=\"arm64\" vendor=\"ARM\">" +
           device("01", "<gpu dev=\"0\" rank=\"" + std::to_string(rank) +
                            "\" sm=\"100\" gdr=\"1\"><nvlink target=\"fffffff:ff:ff.0\" "
                            "count=\"18\" tclass=\"0x068000\"/></gpu>") +
           "</cpu>";
  };
  const Machine machine =
      parse("<system version=\"1\">" + host("a", 0) + host("b", 1) + "</system>");
  NodeGraphs graphs;
  graphs.ring.bw_intra = graphs.ring.bw_inter = 45;
  graphs.ring.channels = {{{machine.graph.gpus[1], machine.graph.gpus[0]}, -1, -1}};
  const std::string text = write_graph_xml(machine.graph, graphs);
  CHECK(text.find("<gpu dev=\"0x100000000000000\"/>") != std::string::npos);
  const auto read = read_graph_xml(text, "g.xml", machine.graph);
  REQUIRE(read.ok());
  CHECK(read->ring->channels == graphs.ring.channels);
}

TEST_CASE("cut and changed graph files are read or refused, never worse") {
  const Machine machine = load("oci-bm-gpu-h100-8-topo.xml");
  const Paths paths = effective_paths(machine.graph, machine.paths, {});
  const std::string whole =
      write_graph_xml(machine.graph, search_node(machine.graph, paths, {.nodes = 2}));
  int taken = 0, refused = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    std::string text = whole;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0)
        text.erase(at, random() % 200);
      else
        text[at] = "0179<>\"/x "[random() % 10];
    }
    const auto read = read_graph_xml(text, "g.xml", machine.graph);
    if (read.ok()) {
      ++taken;
      for (const auto* graph : {&read->ring, &read->tree})
        if (*graph)
          for (const GraphChannel& channel : (*graph)->channels)
            CHECK(channel.gpus.size() == machine.graph.gpus.size());
    } else {
      ++refused;
      CHECK(read.error().message.find("g.xml:") == 0);
    }
  }
  CHECK(taken > 10);
  CHECK(refused > 100);
}

}  // namespace xml_graph_xml_tests
