// The reader of the vocabulary: elements and attributes into types.h.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>

#include "base/format.h"
#include "topology/xml/source.h"
#include "topology/xml/xml.h"

namespace collctl::topology {
namespace {

constexpr int kMaxIndex = 1 << 20;              // dev, rank, numaid
constexpr int kMaxXmlLinks = 1024;              // of one <nvlink>
constexpr int64_t kMaxXmlMbps = 1000000000000;  // published files lie: 200 Tb/s stands in one
constexpr int kNoDevice = -1;

struct Printed : pugi::xml_writer {
  std::string text;
  void write(const void* data, size_t size) override {
    text.append(static_cast<const char*>(data), size);
  }
};

class XmlReader {
 public:
  explicit XmlReader(XmlSource& source) : source_(source) {}

  System system(pugi::xml_node node) {
    System made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    if (std::string_view(node.name()) != "system")
      source_.fail(made.at, "expected <system version=\"1\"> as the root");
    made.version = attributes.small("version", 1, 2).value_or(0);
    if (made.version == 0) {
      source_.note(made.at, "<system> has no version; 1 is assumed");
      made.version = 1;
    }
    made.unknown = attributes.rest();
    for (const pugi::xml_node child : node.children()) {
      if (is(child, "cpu"))
        made.cpus.push_back(cpu(child));
      else
        other(child, made.unknown_elements, "<cpu>");
    }
    return made;
  }

 private:
  static bool is(pugi::xml_node node, const char* name) {
    return node.type() == pugi::node_element && std::string_view(node.name()) == name;
  }

  // Elements that no rule of the parent takes: unknown ones are kept, misplaced ones refused.
  void other(pugi::xml_node node, Unknowns& kept, const char* expected) {
    static const std::set<std::string_view> known{"system", "cpu",  "pci", "gpu",    "nic",
                                                  "net",    "xgmi", "c2c", "nvlink", "pcilink"};
    const Place at = source_.place(node);
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata)
      return source_.note(source_.place(node.parent()),
                          format("text inside <{}> is ignored", node.parent().name()));
    if (node.type() != pugi::node_element) return;
    if (known.count(node.name()) != 0)
      return source_.fail(at, format("<{}> inside <{}>: expected {} there", node.name(),
                                     node.parent().name(), expected));
    source_.note(at, format("unknown element <{}> is kept but has no effect here",
                            std::string(node.name()).substr(0, 40)));
    Printed printed;
    node.print(printed, "", pugi::format_raw, pugi::encoding_utf8);
    kept.push_back({node.name(), printed.text});
  }

  // Elements that hold nothing: what is inside all the same is not kept, and that is said.
  void leaf(pugi::xml_node node) {
    for (const pugi::xml_node child : node.children())
      if (child.type() == pugi::node_element || child.type() == pugi::node_pcdata)
        return source_.note(source_.place(node),
                            format("the content of <{}> is ignored", node.name()));
  }

  Cpu cpu(pugi::xml_node node) {
    Cpu made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.host_hash = attributes.bits("host_hash");
    made.numa = attributes.small("numaid", -1, kMaxIndex);
    made.affinity = attributes.text("affinity");
    made.arch = attributes.text("arch");
    made.vendor = attributes.text("vendor");
    made.family = attributes.small("familyid", 0, 1 << 20);
    made.model = attributes.small("modelid", 0, 1 << 20);
    made.unknown = attributes.rest();
    for (const pugi::xml_node child : node.children()) {
      if (is(child, "pci"))
        made.children.push_back(pci(child));
      else if (is(child, "nic"))
        made.nics.push_back(nic(child));
      else
        other(child, made.unknown_elements, "<pci> or <nic>");
    }
    return made;
  }

  Pci pci(pugi::xml_node node) {
    Pci made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.bus_id = attributes.required("busid", attributes.bus_id("busid"),
                                      "a PCI address such as 0000:0f:00.0");
    made.device_class = attributes.hex("class", 0xffffff);
    made.vendor = attributes.hex("vendor", 0xffff);
    made.device = attributes.hex("device", 0xffff);
    made.subsystem_vendor = attributes.hex("subsystem_vendor", 0xffff);
    made.subsystem_device = attributes.hex("subsystem_device", 0xffff);
    made.link_speed = attributes.text("link_speed");
    made.link_width = attributes.small("link_width", 0, 255);
    made.state.speed_now = attributes.text("link_speed_now");
    made.state.width_now = attributes.small("link_width_now", 0, 255);
    made.state.speed_able = attributes.text("link_speed_able");
    made.state.width_able = attributes.small("link_width_able", 0, 255);
    made.unknown = attributes.rest();
    if (!above_.insert(made.bus_id).second)
      source_.fail(made.at, format("{} is nested in itself: expected another busid",
                                   bus_id_text(made.bus_id)));
    for (const pugi::xml_node child : node.children()) pci_child(made, child);
    above_.erase(made.bus_id);
    return made;
  }

  // One of several GPUs that NCCL makes of a device; the first has number 0.
  static bool is_part(pugi::xml_node gpu) { return gpu.attribute("mlopart").as_int(0) > 0; }

  void pci_child(Pci& made, pugi::xml_node child) {
    if (is(child, "pci")) {
      if (!source_.failed()) made.children.push_back(pci(child));
    } else if (is(child, "nic")) {
      made.nics.push_back(nic(child));
    } else if (is(child, "gpu")) {
      if (made.gpu && !is_part(child))
        source_.fail(source_.place(child), "a second <gpu>: expected one per device");
      else if (made.gpu)
        // MLOPart: ranks of their own on one device, whose links they share.
        source_.note(source_.place(child),
                     format("<gpu> with mlopart=\"{}\" is a part of the one before it: both are "
                            "read as one GPU",
                            std::string(child.attribute("mlopart").value()).substr(0, 10)));
      else
        made.gpu = gpu(child);
    } else if (is(child, "pcilink")) {
      XmlAttributes attributes(source_, child);
      made.peers.push_back(
          attributes.required("target", attributes.bus_id("target"), "a PCI address"));
      leaf(child);
      for (const Unknown& each : attributes.rest())
        source_.note(source_.place(child),
                     format("{} of <pcilink> is ignored", each.name.substr(0, 40)));
    } else {
      other(child, made.unknown_elements, "<pci>, <gpu>, <nic> or <pcilink>");
    }
  }

  Gpu gpu(pugi::xml_node node) {
    Gpu made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.dev = attributes.small("dev", kNoDevice, kMaxIndex);
    made.rank = attributes.small("rank", kNoDevice, kMaxIndex);
    made.sm = attributes.small("sm", 0, 10000);
    made.gdr = attributes.flag("gdr");
    made.gcn = attributes.text("gcn");
    made.arch = attributes.text("arch");
    made.name = attributes.text("name");
    made.links_able = attributes.small("nvlinks_able", 0, kMaxXmlLinks);
    made.assumed = attributes.flag("assumed");
    made.no_p2p = attributes.bus_ids("no_p2p");
    made.unknown = attributes.rest();
    for (const pugi::xml_node child : node.children()) {
      if (is(child, "nvlink") || is(child, "xgmi"))
        made.links.push_back(fabric(child));
      else if (is(child, "c2c"))
        made.c2c.push_back(c2c(child));
      else
        other(child, made.unknown_elements, "<nvlink>, <xgmi> or <c2c>");
    }
    return made;
  }

  FabricLink fabric(pugi::xml_node node) {
    FabricLink made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.kind = is(node, "xgmi") ? FabricKind::xgmi : FabricKind::nvlink;
    made.target = attributes.required("target", attributes.bus_id("target"), "a PCI address");
    made.count = attributes.required("count", attributes.small("count", 1, kMaxXmlLinks),
                                     "a number of links");
    made.target_class = attributes.hex("tclass", 0xffffff);
    made.unknown = attributes.rest();
    leaf(node);
    return made;
  }

  C2cLink c2c(pugi::xml_node node) {
    C2cLink made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.count = attributes.required("count", attributes.small("count", 1, kMaxXmlLinks),
                                     "a number of links");
    made.mbytes_per_s =
        attributes.required("bw", attributes.integer("bw", 0, kMaxXmlMbps), "MB/s of each link");
    made.unknown = attributes.rest();
    leaf(node);
    return made;
  }

  Nic nic(pugi::xml_node node) {
    Nic made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.ports_down = attributes.text("ports_down");
    made.unknown = attributes.rest();
    for (const pugi::xml_node child : node.children()) {
      if (is(child, "net"))
        made.nets.push_back(net(child));
      else
        other(child, made.unknown_elements, "<net>");
    }
    return made;
  }

  Net net(pugi::xml_node node) {
    Net made;
    XmlAttributes attributes(source_, node);
    made.at = source_.place(node);
    made.name = attributes.required("name", attributes.text("name"), "the device's name");
    made.dev = attributes.small("dev", kNoDevice, kMaxIndex);
    made.latency_us = attributes.number("latency", 0, 1e9);
    made.speed_mbps = attributes.integer("speed", -1, kMaxXmlMbps);
    made.port = attributes.small("port", 0, kMaxIndex);
    made.guid = attributes.bits("guid");
    made.max_connections = attributes.integer("maxconn", 0, int64_t{1} << 40);
    made.gdr = attributes.flag("gdr");
    made.coll = attributes.flag("coll");
    made.gin = attributes.flag("gin");
    made.unknown = attributes.rest();
    leaf(node);
    return made;
  }

  XmlSource& source_;
  std::set<BusId> above_;  // the elements around the present one
};

}  // namespace

Result<Document> read_xml(std::string_view text, const std::string& name) {
  XmlSource source(text, name);
  COLL_TRY(source.parse());
  Document made;
  made.system = XmlReader(source).system(source.root());
  if (source.failed()) return source.take_failure();
  made.findings = source.take_notes();
  return made;
}

Result<std::string> read_xml_text(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return base::errno_error(ErrorCode::usage, path, errno);
  if (!S_ISREG(facts.st_mode))
    return Error(ErrorCode::usage,
                 format("{}: not a regular file: expected a topology file", path));
  std::ifstream file(path, std::ios::binary);
  // One byte more than allowed shows that the file is too large.
  std::string text(std::min(size_t(facts.st_size), kMaxFileBytes) + 1, '\0');
  if (!file) return base::errno_error(ErrorCode::usage, path, errno);
  file.read(text.data(), std::streamsize(text.size()));
  if (file.bad()) return base::errno_error(ErrorCode::unavailable, path, errno);
  text.resize(size_t(file.gcount()));
  return text;
}

Result<Document> read_xml_file(const std::string& path) {
  COLL_ASSIGN(const std::string text, read_xml_text(path));
  return read_xml(text, path);
}

}  // namespace collctl::topology
