// Shapes of GPU ranks: rings and trees looked at from the ranks alone, against a search over a
// machine that has the job's GPUs only, and what hosts send each other against damage.
#include "runtime/plan/gpu_shape.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/plan/model.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_job.h"
#include "tests/unit/topology/data_files.h"
#include "topology/cluster/cluster.h"
#include "topology/graph/decide.h"
#include "topology/xml/graph_xml.h"
#include "topology/xml/xml.h"

namespace plan_gpu_shape_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

using Order = std::vector<int32_t>;

Order rotated_to_lowest(Order ring) {
  std::rotate(ring.begin(), std::min_element(ring.begin(), ring.end()), ring.end());
  return ring;
}

// Checks the rules of any rings and trees: every rank once, both ends of a tree's link agree, one
// root, no loop; all ranks have the same rings.
void check_shapes(const std::vector<CommShape>& shapes) {
  const int n = int(shapes.size());
  for (const CommShape& s : shapes) {
    REQUIRE(s.gpu);
    REQUIRE(s.model != nullptr);
    REQUIRE(s.channels.size() == shapes[0].channels.size());
    REQUIRE(s.pair_channels == shapes[0].pair_channels);
    REQUIRE(s.nranks == n);
  }
  for (size_t c = 0; c < shapes[0].channels.size(); ++c) {
    Order seen = shapes[0].channels[c].ring;
    for (const CommShape& s : shapes) REQUIRE(s.channels[c].ring == seen);
    std::sort(seen.begin(), seen.end());
    for (int r = 0; r < n; ++r) REQUIRE(seen[size_t(r)] == r);
    int roots = 0;
    for (const CommShape& s : shapes) {
      const kernels::TreeLinks& mine = s.channels[c].tree;
      roots += mine.up < 0;
      for (const int32_t child : mine.down)
        if (child >= 0) REQUIRE(shapes[size_t(child)].channels[c].tree.up == s.rank);
      // Up and up comes to the root in fewer steps than there are ranks.
      int at = s.rank, steps = 0;
      while (shapes[size_t(at)].channels[c].tree.up >= 0 && steps++ < n)
        at = shapes[size_t(at)].channels[c].tree.up;
      REQUIRE(steps < n);
      if (mine.up >= 0) {
        const auto& down = shapes[size_t(mine.up)].channels[c].tree.down;
        REQUIRE(std::count(std::begin(down), std::end(down), s.rank) == 1);
      }
    }
    REQUIRE(roots == 1);
  }
}

// Takes all GPUs but these out of a machine.
void keep_only(std::vector<topology::Pci>& devices, const std::vector<int64_t>& wanted) {
  for (auto& pci : devices) {
    if (pci.gpu && std::find(wanted.begin(), wanted.end(), pci.bus_id.value) == wanted.end())
      pci.gpu.reset();
    keep_only(pci.children, wanted);
  }
}

// A machine that has the job's GPUs only, and its search.
struct Searched {
  topology::Graph graph;
  topology::NodeGraphs graphs;
};
Searched searched(topology::System system, const std::vector<int64_t>& gpus) {
  for (auto& cpu : system.cpus) keep_only(cpu.children, gpus);
  auto graph = make_graph(system, "f.xml");
  REQUIRE(graph.ok());
  REQUIRE(graph->gpus.size() == gpus.size());
  for (const int at : graph->gpus) {
    auto& node = graph->nodes[size_t(at)];
    node.rank = int(std::find(gpus.begin(), gpus.end(), node.id) - gpus.begin());
  }
  const auto effective = effective_paths(*graph, topology::base_paths(*graph), {});
  auto graphs = search_node(*graph, effective, {});
  return {std::move(*graph), std::move(graphs)};
}

// Each channel of the search is used twice, so there are twice as many.
void check_rings(const std::vector<ChannelShape>& channels, const Searched& found) {
  const auto& rings = found.graphs.ring.channels;
  REQUIRE(channels.size() == 2 * rings.size());
  for (size_t c = 0; c < channels.size(); ++c) {
    Order wanted;
    for (const int at : rings[c % rings.size()].gpus)
      wanted.push_back(found.graph.nodes[size_t(at)].rank);
    CHECK(rotated_to_lowest(channels[c].ring) == rotated_to_lowest(wanted));
  }
}

}  // namespace

TEST_CASE("shapes of GPU ranks: every rank once in each ring and tree", "[gpu][shape]") {
  for (const char* file :
       {kH100, "vastai-hgx-h200-8x.xml", "rtx3090-8x-pcieswitch-2socket-icelake.xml"})
    for (const int n : {1, 2, 3, 4, 7, 8, 9, 16, 24}) {
      INFO(file << ", " << n << " ranks");
      check_shapes(gpu_job(n, file).shapes());
    }
}

TEST_CASE("shapes of GPU ranks: the rings are the search's", "[gpu][shape]") {
  for (const int n : {2, 3, 4, 8}) {
    GpuPlanJob job = gpu_job(n);
    std::reverse(job.bus_ids.begin(), job.bus_ids.end());  // ranks need not follow the slots
    check_rings(job.shapes()[0].channels, searched(job.system, job.bus_ids));
  }
}

TEST_CASE("shapes of GPU ranks: channels out of a graph file", "[gpu][shape]") {
  GpuPlanJob job = gpu_job(4);
  Searched found = searched(job.system, job.bus_ids);
  // No search would order every second ring the other way round.
  for (size_t c = 0; c < found.graphs.ring.channels.size(); c += 2) {
    auto& gpus = found.graphs.ring.channels[c].gpus;
    std::swap(gpus[1], gpus[2]);
  }
  namespace fs = std::filesystem;
  const fs::path file = fs::temp_directory_path() / ("collctl-graph-" + std::to_string(::getpid()));
  std::ofstream(file) << write_graph_xml(found.graph, found.graphs);
  const HostGpus host = host_gpus(job.system, job.bus_ids, 1,
                                  {.rules = {}, .cross_nic = 2, .graph_file = file}, "host");
  fs::remove(file);
  REQUIRE(host.why_not.empty());
  std::vector<Bytes> blobs(4);
  blobs[0] = host.encode();
  auto shape = make_gpu_shape(3, job.all_facts(), job.hosts(), blobs, job.settings);
  REQUIRE(shape.ok());
  check_rings(shape->channels, found);
  const HostGpus none = host_gpus(job.system, job.bus_ids, 1,
                                  {.rules = {}, .cross_nic = 2, .graph_file = file}, "host");
  CHECK(none.why_not.find(file.string()) != std::string::npos);
}

TEST_CASE(
    "shapes of GPU ranks: channels are dumped as they are, and a dump that fails stops nothing",
    "[gpu][shape]") {
  namespace fs = std::filesystem;
  const GpuPlanJob job = gpu_job(4);
  const fs::path file = fs::temp_directory_path() / ("collctl-dump-" + std::to_string(::getpid()));
  GpuSearch search;
  search.dump_file = file;
  const HostGpus searched = host_gpus(job.system, job.bus_ids, 1, search, "host");
  REQUIRE(searched.why_not.empty());
  REQUIRE(fs::exists(file));
  // The file read back is what was in use: the same channels come out of it.
  GpuSearch given;
  given.graph_file = file;
  const HostGpus read = host_gpus(job.system, job.bus_ids, 1, given, "host");
  fs::remove(file);
  REQUIRE(read.why_not.empty());
  REQUIRE(read.parts.size() == 1);
  const auto& from = searched.parts[0].node.ring_channels;
  const auto& to = read.parts[0].node.ring_channels;
  REQUIRE(from.size() == to.size());
  CHECK(from.size() > 1);
  for (size_t c = 0; c < from.size(); ++c) CHECK(from[c].order == to[c].order);
  search.dump_file = "/nowhere/at/all";
  CHECK(host_gpus(job.system, job.bus_ids, 1, search, "host").why_not.empty());
}

TEST_CASE("shapes of GPU ranks: hosts that ranks are dealt to in turn", "[gpu][shape]") {
  // Ranks 0 and 1 are on the first GPU of two hosts, 2 and 3 on the second, and so on.
  GpuPlanJob job = gpu_job(8);
  const auto gpus = gpus_of(job.system);
  for (int r = 0; r < 8; ++r) {
    job.host_of[size_t(r)] = r % 2;
    job.bus_ids[size_t(r)] = gpus[size_t(r / 2)];
  }
  const auto shapes = job.shapes();
  check_shapes(shapes);
  CHECK_FALSE(shapes[0].all_on_one_host);
  CHECK(shapes[0].model->nodes == 2);
  for (const ChannelShape& channel : shapes[0].channels) {
    int crossings = 0;
    for (size_t i = 0; i < 8; ++i)
      crossings += channel.ring[i] % 2 != channel.ring[(i + 1) % 8] % 2;
    CHECK(crossings == 2);  // in and out of each host once
  }
}

TEST_CASE("shapes of GPU ranks: channels and protocols as settings have them", "[gpu][shape]") {
  GpuPlanJob job = gpu_job(4);
  CHECK(job.shapes()[0].pair_channels == 32);
  CHECK(job.shapes()[0].slot_bytes[2] == 1280);
  CHECK_FALSE(job.shapes()[0].ll128_passed);
  job.settings.max_channels = 3;
  CHECK(job.shapes()[0].channels.size() == 3);
  CHECK(job.shapes()[0].pair_channels == 3);
  job.settings.choices.channels = 40;
  CHECK(job.shapes()[0].channels.size() == 40);
  CHECK(job.shapes()[0].pair_channels == 40);
  // PCIe only: LL128 may tear.
  GpuPlanJob pci = gpu_job(2, "rtx3090-8x-pcieswitch-2socket-icelake.xml");
  const CommShape shape = pci.shapes()[0];
  CHECK(shape.slot_bytes[2] == 0);
  CHECK(shape.no_ll128.find("NVLink") != std::string::npos);
  CHECK(shape.pair_channels <= 8);
  // Through the host's memory a block waits more than it moves: at least 16, unless fewer are
  // asked.
  GpuPlanJob host = gpu_job(4);
  host.search.rules.p2p = host.search.rules.net_intra = false;
  CHECK(host.shapes()[0].channels.size() == 16);
  CHECK(host.shapes()[0].slot_bytes[2] == 0);
  check_shapes(host.shapes());
  host.settings.max_channels = 2;
  CHECK(host.shapes()[0].channels.size() == 2);
  // Each GPU a node of its own: over the network through host memory at least 8, 4 without.
  GpuPlanJob net = gpu_job(2);
  net.search.rules.p2p = net.search.rules.shm = false;
  CHECK(net.shapes()[0].model->nodes == 2);
  CHECK(net.shapes()[0].channels.size() == 8);
  CHECK(net.shapes()[0].pair_channels == 8);
  net.gdr = true;
  CHECK(net.shapes()[0].channels.size() == 4);
}

TEST_CASE("shapes of GPU ranks: more channels only where each waits for host memory", "[shape]") {
  const auto least = [](int ranks, topology::PathType type, int nodes, bool staged, int most) {
    topology::ClusterNode kind;
    kind.ranks = ranks;
    kind.ring.type_intra = type;
    return least_channels(std::span(&kind, 1), nodes, staged, most);
  };
  using topology::PathType;
  CHECK(least(4, PathType::nvl, 1, true, 0) == 0);
  CHECK(least(4, PathType::pxb, 1, true, 0) == 0);
  CHECK(least(4, PathType::phb, 1, true, 0) == 16);
  CHECK(least(4, PathType::phb, 1, true, 3) == 3);
  CHECK(least(1, PathType::phb, 1, true, 0) == 0);
  CHECK(least(4, PathType::phb, 2, true, 0) == 8);
  CHECK(least(4, PathType::phb, 2, false, 0) == 4);
}

TEST_CASE("shapes of GPU ranks: slots as the links between them want them", "[gpu][shape]") {
  const auto slot = [](GpuPlanJob& job, uint32_t asked, bool planned) {
    job.settings.slot_bytes[0] = asked;
    job.settings.plans_slots = planned;
    return job.shapes()[0].slot_bytes[0];
  };
  GpuPlanJob nvlink = gpu_job(4);
  CHECK(slot(nvlink, 512 << 10, true) == 256 << 10);
  CHECK(slot(nvlink, 512 << 10, false) == 512 << 10);
  GpuPlanJob pci = gpu_job(2, "rtx3090-8x-pcieswitch-2socket-icelake.xml");
  CHECK(slot(pci, 512 << 10, true) == 512 << 10);
  // 6 MiB for 16 channels of so many slots.
  GpuPlanJob host = gpu_job(4);
  host.search.rules.p2p = host.search.rules.net_intra = false;
  const uint64_t fits = (6u << 20) / 16 / host.settings.slot_count / 4096 * 4096;
  CHECK(slot(host, 512 << 10, true) == std::min<uint64_t>(fits, 512 << 10));
  CHECK(slot(host, 512 << 10, false) == 512 << 10);
  host.settings.slot_bytes[1] = 64 << 10;
  host.settings.plans_slots = true;
  CHECK(host.shapes()[0].slot_bytes[1] == 16 << 10);
  host.settings.plans_ll_slots = false;
  CHECK(host.shapes()[0].slot_bytes[1] == 64 << 10);
}

TEST_CASE("hosts say which network devices may reach which GPU's memory", "[gpu][shape]") {
  GpuPlanJob job = gpu_job(8);
  const HostGpus host = host_gpus(job.system, job.bus_ids, 2, {}, "host");
  REQUIRE(host.parts.size() == 1);
  const HostGpus::Part& part = host.parts[0];
  REQUIRE(part.gdr.size() == 8);
  // By the graph's own paths: P2C and better.
  auto graph = make_graph(job.system, "f.xml");
  REQUIRE(graph.ok());
  const auto paths = topology::base_paths(*graph);
  int may = 0, may_not = 0;
  for (const int gpu : graph->gpus) {
    const auto rank =
        size_t(std::find(job.bus_ids.begin(), job.bus_ids.end(), graph->nodes[size_t(gpu)].id) -
               job.bus_ids.begin());
    REQUIRE(part.gdr[rank].size() == graph->nets.size());
    for (size_t n = 0; n < graph->nets.size(); ++n) {
      const bool near = paths.at(gpu, graph->nets[n]).type <= topology::PathType::p2c;
      CHECK(part.gdr[rank][n].no_read.empty() == near);
      CHECK(part.gdr[rank][n].no_write.empty() == near);
      ++(near ? may : may_not);
    }
  }
  CHECK(may > 0);
  CHECK(may_not > 0);
  // Where NICs must not read or write, data goes through host memory: at least 8 channels, else 4.
  GpuPlanJob direct = gpu_job(2);
  direct.search.rules.p2p = direct.search.rules.shm = false;
  direct.gdr = true;
  CHECK(direct.shapes()[0].channels.size() == 4);
  direct.search.rules.gdr_read = false;
  CHECK(direct.shapes()[0].channels.size() == 8);
  direct.search.rules.gdr_read.reset();
  direct.search.rules.gdr_level = topology::PathType::loc;
  CHECK(direct.shapes()[0].channels.size() == 8);
}

TEST_CASE("shapes of GPU ranks: an unknown machine has the order of ranks", "[gpu][shape]") {
  GpuPlanJob job = gpu_job(5);
  job.bus_ids[3] = 0xAB000;
  const HostGpus host = host_gpus(job.system, job.bus_ids, 1, {}, "host");
  CHECK(host.parts.empty());
  CHECK(host.why_not == "GPU 0000:ab:00.0 was not found on the machine");
  const auto shapes = job.shapes();
  check_shapes(shapes);
  for (const ChannelShape& channel : shapes[0].channels)
    CHECK(channel.ring == Order{0, 1, 2, 3, 4});
  CHECK(shapes[0].slot_bytes[2] == 0);
  job.bus_ids[3] = job.bus_ids[2];
  CHECK(host_gpus(job.system, job.bus_ids, 1, {}, "host").why_not.find("shared by several ranks") !=
        std::string::npos);
  check_shapes(job.shapes());
}

TEST_CASE("what hosts say of their GPUs survives the way, and damage is noticed", "[gpu][shape]") {
  const GpuPlanJob job = gpu_job(16);
  const auto hosts = job.hosts();
  const std::vector<Bytes> sent = job.blobs();
  const auto all_facts = job.all_facts();
  const Bytes& blob = sent[0];
  const auto back = HostGpus::decode(blob, 8);
  REQUIRE(back.ok());
  CHECK(back->encode() == blob);
  CHECK_FALSE(HostGpus::decode(blob, 7).ok());
  for (size_t length = 0; length < blob.size(); ++length)
    REQUIRE_FALSE(HostGpus::decode(ByteView(blob).first(length), 8).ok());
  // Damage inside must end in an error or in rings that are whole.
  std::mt19937 random(7);
  int taken = 0;
  for (int i = 0; i < test::how_much(test::Sweep::gpu_shape_damage); ++i) {
    auto blobs = sent;
    Bytes& hit = blobs[i % 2 == 0 ? 0 : 8];
    for (int k = 0; k < 3; ++k) hit[random() % hit.size()] = uint8_t(random());
    std::vector<CommShape> shapes;
    for (int rank = 0; rank < 16; ++rank) {
      auto shape = make_gpu_shape(rank, all_facts, hosts, blobs, job.settings);
      if (!shape.ok()) break;
      shapes.push_back(std::move(*shape));
    }
    if (shapes.size() != 16) continue;
    check_shapes(shapes);
    ++taken;
  }
  CHECK(taken > 0);
}

// The facts that the run gets of each NIC and GPU are the topology's rule, whatever the machine.
TEST_CASE("links are told to flush where the topology decides it, on every machine", "[gpu]") {
  const auto chip = [](const char* devices) {
    return std::string(
               "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\"><pci busid=\"0000:10:00.0\" "
               "class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">") +
           devices + "</pci></cpu></system>";
  };
  // GPUs that reach their CPU by C2C, the NIC below the GPU's own switch.
  std::vector<std::string> texts = {
      chip("<pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
           "link_width=\"16\"><gpu dev=\"0\" sm=\"100\" rank=\"0\" gdr=\"1\"><c2c bw=\"44712\" "
           "count=\"5\"/></gpu></pci><pci busid=\"0000:12:00.0\" class=\"0x020700\" "
           "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" "
           "speed=\"400000\" port=\"1\" guid=\"0x1\" gdr=\"1\"/></nic></pci>")};
  for (const std::string& path : data_files()) texts.push_back(data_text(path));
  int flushed = 0, not_flushed = 0, machines = 0;
  for (const std::string& text : texts) {
    const auto read = topology::read_xml(text, "f.xml");
    REQUIRE(read.ok());
    auto graph = make_graph(read->system, "f.xml");
    REQUIRE(graph.ok());
    if (graph->gpus.empty() || graph->nets.empty() || graph->hosts > 1) continue;
    ++machines;
    std::vector<int> ranks;
    for (const int gpu : graph->gpus) {
      graph->nodes[size_t(gpu)].rank = int(ranks.size());
      ranks.push_back(int(ranks.size()));
    }
    const auto paths = topology::base_paths(*graph);
    const auto told = gdr_rules(*graph, {}, ranks, read->system);
    for (size_t g = 0; g < graph->gpus.size(); ++g)
      for (size_t n = 0; n < graph->nets.size(); ++n) {
        const topology::Node& net = graph->nodes[size_t(graph->nets[n])];
        INFO(read->system.cpus.size() << " NUMA nodes, GPU " << g << ", " << net.name);
        const bool asked = flush_wanted(*graph, paths, graph->gpus[g], graph->nets[n]).yes;
        const bool below = graph->nodes[size_t(graph->gpus[g])].sm < 90;
        // By themselves GPUs of sm 90 need none; what decides for them is the way.
        CHECK((!below || told[g][n].flush));
        CHECK(told[g][n].flush == asked);
        ++(told[g][n].flush ? flushed : not_flushed);
      }
    if (machines == 1) CHECK(told[0][0].flush);
  }
  CHECK(flushed > 50);
  CHECK(not_flushed > 50);
}

}  // namespace plan_gpu_shape_tests
