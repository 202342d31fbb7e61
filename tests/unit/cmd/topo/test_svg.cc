// The picture of topo: well-formed, complete, and without texts or boxes that lie on each other,
// computed from the layout for all committed files.
#include <algorithm>
#include <pugixml.hpp>

#include "cmd/topo/svg_plane.h"
#include "tests/unit/cmd/topo/topo_machines.h"

namespace topo_svg_tests {

using namespace collctl::cmd;
using namespace collctl::topology;

namespace {

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() - 0.01 && b.x < a.right() - 0.01 && a.y < b.bottom() - 0.01 &&
         b.y < a.bottom() - 0.01;
}

bool inside(const Box& inner, const Box& outer) {
  return inner.x >= outer.x - 0.01 && inner.y >= outer.y - 0.01 &&
         inner.right() <= outer.right() + 0.01 && inner.bottom() <= outer.bottom() + 0.01;
}

void check_layout(const Picture& picture) {
  const Box page{0, 0, picture.width, picture.height};
  for (size_t i = 0; i < picture.texts.size(); ++i) {
    const PictureText& text = picture.texts[i];
    INFO(text.text);
    if (!inside(text.box(), page)) FAIL_CHECK("outside of the page");
    for (size_t k = i + 1; k < picture.texts.size(); ++k)
      if (overlap(text.box(), picture.texts[k].box()))
        FAIL_CHECK("lies on " << picture.texts[k].text);
    // A text is in a box or beside it, never across an edge.
    for (const PictureBox& box : picture.boxes)
      if (box.style != "cpu" && overlap(text.box(), box.box) && !inside(text.box(), box.box))
        FAIL_CHECK("crosses the edge of a box");
  }
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    if (!inside(picture.boxes[i].box, page)) FAIL_CHECK("a box is outside of the page");
    for (size_t k = i + 1; k < picture.boxes.size(); ++k) {
      const PictureBox &a = picture.boxes[i], &b = picture.boxes[k];
      const bool contains = a.style == "cpu" || b.style == "cpu";
      if (!overlap(a.box, b.box)) continue;
      if (!contains || (!inside(a.box, b.box) && !inside(b.box, a.box)))
        FAIL_CHECK("boxes lie on each other: " << a.tip << " and " << b.tip);
    }
  }
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool has_tip(const Picture& picture, const std::string& part) {
  return std::any_of(picture.boxes.begin(), picture.boxes.end(), [&](const PictureBox& box) {
    return (box.tip + "\n").find(part) != std::string::npos;
  });
}

const PictureBox* box_of(const Picture& picture, const std::string& part) {
  for (const PictureBox& box : picture.boxes)
    if (box.tip.find(part) != std::string::npos) return &box;
  return nullptr;
}

}  // namespace

TEST_CASE("the picture of every file is well-formed, complete and free of overlaps", "[topo]") {
  for (const std::string& path : data_files()) {
    INFO(path);
    const TopoView machine = view(data_text(path), path.substr(path.rfind('/') + 1));
    const Picture picture = make_picture(machine, nullptr);
    check_layout(picture);
    const std::string svg = write_svg(picture);
    pugi::xml_document parsed;
    CHECK(parsed.load_buffer(svg.data(), svg.size()));
    CHECK(std::string(parsed.document_element().name()) == "svg");
    for (const int gpu : machine.graph.gpus) {
      const Node& node = machine.graph.nodes[size_t(gpu)];
      CHECK(has_tip(picture, bus_id_text({node.id}) + "\n"));
      const auto shown = [&](const PictureText& text) {
        const std::string name = "GPU " + std::to_string(node.dev);
        return text.text == name || text.text.rfind(name + " ", 0) == 0;
      };
      CHECK(std::any_of(picture.texts.begin(), picture.texts.end(), shown));
    }
    for (const int net : machine.graph.nets) {
      const Node& node = machine.graph.nodes[size_t(net)];
      CHECK(has_tip(picture, "NET " + std::to_string(node.dev) + " " + node.name + ", "));
    }
  }
}

TEST_CASE("links are as wide as they are fast, and faults are red", "[topo]") {
  const Picture picture = make_picture(view(worn_machine()), nullptr);
  const PictureBox* gpu = box_of(picture, "GPU 0 H100");
  const PictureBox* nic = box_of(picture, "mlx5_0");
  const PictureBox* bridge = box_of(picture, "0000:10:00.0");
  REQUIRE(gpu != nullptr);
  REQUIRE(nic != nullptr);
  REQUIRE(bridge != nullptr);
  CHECK(gpu->fault);
  CHECK(nic->fault);
  CHECK_FALSE(bridge->fault);
  // 329.6 GB/s of NVLink against 48 GB/s of PCI: about seven times as fast, wider by the root.
  double nvlink = 0, pci = 0;
  for (const PictureLine& line : picture.lines) {
    if (line.style == "nvl") nvlink = std::max(nvlink, line.width);
    if (line.style == "pci" && !line.fault) pci = std::max(pci, line.width);
  }
  CHECK(pci > 0);
  CHECK(nvlink > 2 * pci);
  const auto has = [&](const char* words) {
    return std::any_of(picture.texts.begin(), picture.texts.end(),
                       [&](const PictureText& text) { return text.text == words; });
  };
  CHECK(has("gen5 x16, 48 GB/s"));
  CHECK(has("16 NVLinks"));
  CHECK(has("329.6 GB/s"));
  CHECK(has("degraded, or not as its equals"));
}

TEST_CASE("text of a file stays text in the picture", "[topo]") {
  const std::string text =
      replaced(worn_machine(), "\"mlx5_0\"", "\"&lt;script&gt;&amp;&quot;&#x7;\"");
  const std::string svg = topo_svg(view(text, "<b>&\"\x01\xff.xml"), nullptr);
  pugi::xml_document parsed;
  CHECK(parsed.load_buffer(svg.data(), svg.size()));
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("<b>") == std::string::npos);
  CHECK(std::string(parsed.document_element().child("title").text().get()) == "<b>&\"??.xml");
}

TEST_CASE("a ring is drawn through its GPUs and back", "[topo]") {
  const TopoView machine = view(data_text(data_path("oci-bm-gpu-h100-8-topo-k8s.xml")));
  GraphChannel ring{machine.graph.gpus, -1, -1};
  const Picture closed = make_picture(machine, &ring);
  check_layout(closed);
  CHECK(count_of(write_svg(closed), "class=\"ring\"") == 8);
  ring.net_in = ring.net_out = machine.graph.nets[0];
  // It does not close inside the node.
  CHECK(count_of(topo_svg(machine, &ring), "class=\"ring\"") == 7);
}

TEST_CASE("GPUs with C2C and a machine without devices are drawn too", "[topo]") {
  const std::string grace = R"(<system version="1"><cpu numaid="0" arch="arm64">
<pci busid="0009:01:00.0" class="0x030200" vendor="0x10de" device="0x2941" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="100" rank="0" gdr="1"><c2c bw="44712" count="5"/></gpu></pci></cpu></system>)";
  const Picture picture = make_picture(view(grace), nullptr);
  check_layout(picture);
  // 5 x 44,712 MB/s
  CHECK(std::any_of(picture.lines.begin(), picture.lines.end(), [](const PictureLine& line) {
    return line.style == "c2c" && line.tip == "C2C 223.6 GB/s";
  }));
  check_layout(make_picture(view("<system version=\"1\"><cpu/></system>"), nullptr));
}

}  // namespace topo_svg_tests
