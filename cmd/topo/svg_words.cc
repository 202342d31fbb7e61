// Words in the boxes of the picture.
#include <algorithm>

#include "base/format.h"
#include "base/split.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/svg_plane.h"

namespace collctl::cmd {
namespace {

using namespace topology;

// Cut between words, so that each line fits; words that are too long are shortened.
void add_wrapped(std::vector<Words>& to, const std::string& text, double width, Words form) {
  std::string line;
  for (const std::string_view each : base::split(text, ' ')) {
    const std::string word(each), longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && text_width(longer, form.size, form.bold || form.fault) > width) {
      form.text = fitted_text(line, width, form.size, form.bold || form.fault);
      to.push_back(form);
      line = word;
    } else {
      line = longer;
    }
  }
  form.text = fitted_text(line, width, form.size, form.bold || form.fault);
  if (!line.empty()) to.push_back(form);
}

// On one line where they fit, else each on its own.
void add_list(std::vector<Words>& to, const std::vector<std::string>& words, double width,
              const Words& form) {
  const std::string all = joined(words);
  if (text_width(all, form.size, form.bold) <= width) return add_wrapped(to, all, width, form);
  for (const std::string& each : words) add_wrapped(to, each, width, form);
}

std::vector<std::string> link_list(const Part& part) {
  return {part.link, format("{:.4g} GB/s", part.gbps)};
}
std::string net_words(const PartNet& net) {
  return format("NET {} {}", net.node->dev, net.name);
}

// Last lines of every device's box.
void add_place(std::vector<Words>& to, const Part& part, const std::vector<const Part*>& bridges,
               double width, std::vector<std::string> more) {
  add_list(to, link_list(part), width, {});
  more.push_back(part.bus);
  add_list(to, more, width, {.muted = true});
  for (const Part* bridge : bridges) {
    add_wrapped(to, "via switch " + bridge->bus, width, {.muted = true});
    if (bridge->link != part.link) add_list(to, link_list(*bridge), width, {.muted = true});
    add_wrapped(to, bridge->marks, width, {.fault = true});
  }
  if (part.assumed) add_wrapped(to, "(assumed)", width, {.muted = true});
  add_wrapped(to, part.marks, width, {.fault = true});
}

// `named`: the card's title is the device's name already.
void add_net_lines(std::vector<Words>& to, const std::vector<PartNet>& nets, bool named,
                   double width) {
  // One speed for all is said once.
  const bool alike = nets.size() > 1 && std::ranges::all_of(nets, [&](const auto& net) {
                       return net.marks.empty() && net.speed == nets[0].speed;
                     });
  if (alike) add_wrapped(to, "each " + nets[0].speed, width, {});
  for (const PartNet& net : nets) {
    std::vector<std::string> words{named ? format("NET {}", net.node->dev) : net_words(net)};
    if (!alike) words.push_back(net.speed);
    add_list(to, words, width, {});
    add_wrapped(to, net.marks, width, {.fault = true});
  }
}

}  // namespace

double height_of(const std::vector<Words>& lines) {
  double height = 12;
  for (const Words& line : lines) height += line.size > kSmall ? 18 : kLineHeight;
  return height;
}

std::string link_words(const Part& part) {
  return link_list(part)[0] + ", " + link_list(part)[1];
}

std::string tip_of(const Part& part) {
  std::string tip = part.title;
  if (part.pci != nullptr)
    tip += format("\n{}\n{}", bus_id_text(part.pci->bus_id), link_words(part));
  for (const auto* list : {&part.details, &part.fabrics})
    for (const std::string& each : *list) tip += "\n" + each;
  for (const PartNet& net : part.nets) tip += "\n" + net_words(net) + ", " + net.speed;
  return part.marks.empty() ? tip : tip + "\n! " + part.marks;
}

std::vector<Words> leaf_lines(const Part& part, const std::vector<const Part*>& bridges,
                              double width) {
  std::vector<Words> lines;
  const bool one = part.nets.size() == 1, on_cpu = part.kind == PartKind::cpu;
  const std::string title = on_cpu ? "no PCI device" : one ? part.nets[0].name : part.title;
  add_wrapped(lines, title, width, {.size = kTitle, .bold = true});
  add_net_lines(lines, part.nets, one && !on_cpu, width);
  if (on_cpu) return lines;
  std::vector<std::string> more = part.details;
  if (one) more.push_back(part.title);
  add_place(lines, part, bridges, width, std::move(more));
  return lines;
}

std::vector<Words> head_lines(const Part& part, double width, bool several_hosts) {
  std::vector<Words> lines;
  const bool cpu = part.kind == PartKind::cpu;
  std::string title = cpu ? part.title : part.title + " " + part.bus;
  if (cpu && several_hosts) title = format("host {} {}", part.host, title);
  add_wrapped(lines, title, width, {.size = cpu ? kTitle + 1 : kTitle - 1, .bold = true});
  add_list(lines, cpu ? part.details : link_list(part), width, {.muted = cpu});
  add_wrapped(lines, part.marks, width, {.fault = true});
  return lines;
}

}  // namespace collctl::cmd
