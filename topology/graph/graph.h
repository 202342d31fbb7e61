// The machine as nodes and links: what follows from a System by NCCL's rules. Two-level
// Broadcom switches become one, all NVSwitches one node (of several hosts too: there are files of
// several hosts only where NVLink joins them), functions of a card one NIC, branches without a used
// GPU or NIC fall away. Defaults that had to be taken are findings. Made once by
// make_graph, then read by paths (and search). Pure; threads: values.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/types.h"

namespace collctl::topology {

enum class NodeKind : uint8_t { gpu, pci, nvs, cpu, nic, net };
enum class LinkKind : uint8_t { loc, nvl, c2c, pci, sys, net };
const char* node_kind_name(NodeKind kind);
const char* link_kind_name(LinkKind kind);

struct GraphLink {
  int to = 0;  // index of a node
  LinkKind kind = LinkKind::loc;
  double gbps = 0;
};

struct Node {
  NodeKind kind = NodeKind::pci;
  int host = 0;    // counted in the file's order
  int64_t id = 0;  // bus id of gpu, pci, nic; NUMA id of cpu; dev of net; 0 of nvs
  int cpu = -1;    // the node of the CPU that it hangs below
  // gpu and net:
  int dev = -1;
  bool gdr = false;
  Place at;
  // gpu:
  int rank = -1;
  int sm = 0;  // 0: unknown
  bool amd = false;
  int fabric_links = 0;     // NVLinks or xGMI links, all neighbours together
  std::vector<int> no_p2p;  // GPUs that the driver lets it not reach
  // net:
  std::string name;
  double net_gbps = 0;
  bool net_assumed = false;  // the device does not say it
  int port = 0;
  uint64_t guid = 0;
  double latency_us = 0;
  bool coll = false;
  // pci, gpu, nic: vendor and device, 0 when unknown.
  uint32_t model = 0;
  // cpu:
  std::string arch, vendor;
  int family = 0, cpu_model = 0;
  // Fastest first, ties in the file's order; at most one of a kind to one neighbour.
  std::vector<GraphLink> links;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<int> gpus, nets, cpus;  // indexes: gpus by host and dev, nets by host and dev
  int hosts = 1;
  std::vector<Finding> findings;
};

// "GPU/0" (dev), "NET/3" (dev), "CPU/1" (NUMA), "PCI/0000:08:00.0", "NIC/...", "NVS/0"; with
// several hosts "GPU/1-0".
std::string node_name(const Graph& graph, int node);

// GPUs, network devices and NUMA nodes together: the path matrix is their square.
inline constexpr size_t kMaxEndpoints = 512;
inline constexpr size_t kMaxNodes = 4096;

// `source` names the file in findings. Errors: usage: two GPUs of one rank or dev, more than
// kMaxEndpoints or kMaxNodes.
Result<Graph> make_graph(const System& system, const std::string& source);

// The rule by which NCCL merges two-level Broadcom switches; for tests and for the tree.
void flatten_switches(System& system);

}  // namespace collctl::topology
