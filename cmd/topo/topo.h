// `topo`: the pieces of its report, pure: values to text. Called by topo.cc; threads: any.
#pragma once
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "cmd/cli/parse.h"
#include "cmd/topo/view.h"
#include "topology/search/search.h"

namespace collctl::cmd {

struct TreeStyle {
  bool colours = false;  // faults in bold red
  bool unfold = false;   // every device on a line of its own
};
// CPUs, switches, GPUs and network devices as they hang together, for people.
std::string topo_tree(const TopoView& view, const TreeStyle& style = {});
// Path type and GB/s between GPUs, and from GPUs to network devices, with a legend; in blocks of at
// most `width` characters.
std::string topo_matrix(const TopoView& view, size_t width);
// RDMA devices with ports, GIDs, firmware and the GPUs next to them, then whether they reach the
// GPUs' memory, and why not. Empty without RDMA devices. `verbose`: all GIDs.
std::string topo_rdma(const TopoView& view, bool verbose);
// The ports of a host among others, a line each: state, rate, and the GID that connections take
// first (`verbose`: all). Empty without RDMA devices.
std::string topo_ports(const TopoView& view, const std::string& host, bool verbose);
// "rdma" and "gdr" of the JSON, each with its key; nothing of a machine that is not this one.
void write_rdma(const TopoView& view, JsonWriter& json);
// Rings and trees as text: a summary of each pattern, then every distinct channel once. `parts`: of
// the machine, one unless its GPUs do not all reach each other (topology/graph/parts.h).
std::string topo_graph(const TopoView& view, const std::vector<topology::NodeGraphs>& parts,
                       int nodes);
// collctl.topo/1.
std::string topo_json(const TopoView& view, const std::vector<topology::NodeGraphs>& parts);

// Parts of it that `plan --json` has as well: from "schema" to "paths", one of "graphs", and
// "findings" with its key.
void write_machine(const TopoView& view, JsonWriter& json);
void write_graph(const TopoView& view, const topology::ChannelGraph& found, JsonWriter& json);
void write_findings(const std::vector<topology::Finding>& findings, JsonWriter& json);

// The command, and the rows of its options.
Result<int> topo_command(const ParsedLine& line, Console& console);
void add_topo_options(std::vector<Option>& table);

}  // namespace collctl::cmd
