#include "base/format.h"
#include "topology/graph/graph.h"

namespace collctl::topology {

const char* node_kind_name(NodeKind kind) {
  static constexpr const char* kNames[] = {"GPU", "PCI", "NVS", "CPU", "NIC", "NET"};
  return kNames[size_t(kind)];
}

const char* link_kind_name(LinkKind kind) {
  static constexpr const char* kNames[] = {"LOC", "NVL", "C2C", "PCI", "SYS", "NET"};
  return kNames[size_t(kind)];
}

std::string node_name(const Graph& graph, int node) {
  const Node& self = graph.nodes[size_t(node)];
  const bool by_bus = self.kind == NodeKind::pci || (self.kind == NodeKind::nic && self.id != 0);
  const bool by_dev = self.kind == NodeKind::gpu || self.kind == NodeKind::net;
  const std::string id = by_bus   ? bus_id_text({self.id})
                         : by_dev ? std::to_string(self.dev)
                                  : std::to_string(self.id);
  const std::string host = graph.hosts > 1 ? std::to_string(self.host) + "-" : "";
  return format("{}/{}{}", node_kind_name(self.kind), host, id);
}

}  // namespace collctl::topology
