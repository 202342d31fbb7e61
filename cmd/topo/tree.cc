// The tree of `topo`: the file's own structure, so that every device is where it is plugged in.
#include <algorithm>

#include "base/format.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {
namespace {

using namespace topology;

constexpr size_t kFoldNets = 3;      // more virtual interfaces of one CPU are one line
constexpr size_t kFoldSiblings = 3;  // that many equal devices without further meaning are one line
constexpr size_t kNamesInFold = 2, kIdsInFold = 4;

// A line and what hangs below it.
struct Branch {
  std::string text;
  std::vector<Branch> below;
};

void draw(const std::vector<Branch>& branches, const std::string& indent, std::string& to) {
  for (size_t i = 0; i < branches.size(); ++i) {
    const bool last = i + 1 == branches.size();
    to += indent + (last ? "`- " : "|- ") + branches[i].text + "\n";
    draw(branches[i].below, indent + (last ? "   " : "|  "), to);
  }
}

// "a, b, c and 12 more"
std::string listed(const std::vector<std::string>& words, size_t at_most) {
  std::string text;
  for (size_t i = 0; i < words.size() && i < at_most; ++i) text += (i > 0 ? ", " : "") + words[i];
  return words.size() > at_most ? format("{} and {} more", text, words.size() - at_most) : text;
}

class Tree {
 public:
  Tree(const TopoView& view, const TreeStyle& style)
      : view_(view), style_(style), parts_(machine_parts(view)) {}

  std::string text() const {
    std::vector<Branch> branches;
    for (const Part& cpu : parts_.cpus) branches.push_back(cpu_branch(cpu));
    if (const std::string text = switch_text(); !text.empty()) branches.push_back({text, {}});
    std::string all = plain(view_.source) + ": " + machine_summary(view_) + "\n";
    draw(branches, "", all);
    return all;
  }

 private:
  std::string fault(const std::string& marks) const {
    if (marks.empty()) return "";
    const std::string text = "! " + marks;
    return "  " + (style_.colours ? "\x1b[1;31m" + text + "\x1b[0m" : text);
  }

  Branch cpu_branch(const Part& cpu) const {
    std::string text = cpu.title;
    if (parts_.several_hosts) text = format("host {} ", cpu.host) + text;
    std::vector<std::string> said;
    if (cpu.cpu->numa == -1) said.emplace_back("NUMA node unknown");
    said.insert(said.end(), cpu.details.begin(), cpu.details.end());
    if (parts_.cpu_gbps > 0) said.push_back(format("{:.4g} GB/s to other CPUs", parts_.cpu_gbps));
    if (!said.empty()) text += "  " + joined(said);
    Branch branch{text, {}};
    add_below(cpu, branch);
    return branch;
  }

  static std::string link_text(const Part& part) {
    return format("{}  {} {:.4g} GB/s", part.bus, part.link, part.gbps);
  }

  std::string net_text(const PartNet& net) const {
    std::string text = format("NET {} {}  {}", net.node->dev, net.name, net.speed);
    if (net.node->port > 1) text += format(" port {}", net.node->port);
    if (net.node->gdr) text += " GDR";
    if (net.node->coll) text += "  in-network reduction";
    return text;
  }

  Branch part_branch(const Part& part) const {
    Branch branch;
    // A card with one port is one line.
    const bool one = part.kind == PartKind::nic && part.nets.size() == 1 && part.below.empty();
    branch.text = one ? net_text(part.nets[0]) + "  " + part.title : part.title;
    if (part.assumed) branch.text += " (assumed)";
    branch.text += "  " + link_text(part);
    for (const auto* list : {&part.details, &part.fabrics})
      for (const std::string& each : *list) branch.text += "  " + each;
    std::string marks = part.marks;
    if (one && !part.nets[0].marks.empty())
      marks += (marks.empty() ? "" : ", ") + part.nets[0].marks;
    branch.text += fault(marks);
    if (!one)
      for (const PartNet& net : part.nets)
        branch.below.push_back({net_text(net) + fault(net.marks), {}});
    add_parts(part.below, branch);
    return branch;
  }

  void add_below(const Part& cpu, Branch& to) const {
    add_parts(cpu.below, to);
    if (cpu.nets.size() <= kFoldNets || style_.unfold) {
      for (const PartNet& net : cpu.nets) to.below.push_back({net_text(net), {}});
      return;
    }
    std::vector<std::string> names;
    for (const PartNet& net : cpu.nets) names.push_back(net.name);
    const bool alike = std::ranges::all_of(
        cpu.nets, [&](const PartNet& net) { return net.speed == cpu.nets[0].speed; });
    to.below.push_back({format("{} interfaces without a PCI device: {}{}", names.size(),
                               listed(names, kNamesInFold), alike ? "  " + cpu.nets[0].speed : ""),
                        {}});
  }

  // Equal ones beside each other that a job does not use.
  void add_parts(const std::vector<Part>& parts, Branch& to) const {
    for (size_t i = 0; i < parts.size();) {
      const auto foldable = [&](const Part& part) {
        return part.kind == PartKind::other && part.below.empty() && part.marks.empty() &&
               part.title == parts[i].title && part.link == parts[i].link;
      };
      size_t end = i;
      while (end < parts.size() && foldable(parts[end])) ++end;
      if (style_.unfold || end - i < kFoldSiblings) {
        to.below.push_back(part_branch(parts[i++]));
        continue;
      }
      std::vector<std::string> ids;
      for (size_t k = i; k < end; ++k) ids.push_back(parts[k].bus);
      to.below.push_back({format("{} x {}  {}  {} {:.4g} GB/s", end - i, parts[i].title,
                                 listed(ids, kIdsInFold), parts[i].link, parts[i].gbps),
                          {}});
      i = end;
    }
  }

  // NVSwitches, which join all GPUs; the number of links stands with each GPU.
  std::string switch_text() const {
    size_t gpus = 0;
    double least = 0, most = 0;
    for (const Fabric& fabric : parts_.fabrics) {
      if (fabric.to >= 0) continue;
      least = gpus == 0 ? fabric.gbps : std::min(least, fabric.gbps);
      most = std::max(most, fabric.gbps);
      ++gpus;
    }
    if (gpus == 0) return "";
    const std::string low = format("{:.4g}", least), high = format("{:.4g}", most);
    const int count = parts_.nvswitches;
    return format("{} {}, {} GB/s each",
                  count > 1 ? format("{} NVSwitches  join", count) : "NVSwitch  joins",
                  counted(gpus, "GPU"), low == high ? low : low + " to " + high);
  }

  const TopoView& view_;
  const TreeStyle& style_;
  Parts parts_;
};

}  // namespace

std::string topo_tree(const TopoView& view, const TreeStyle& style) {
  return Tree(view, style).text();
}

}  // namespace collctl::cmd
