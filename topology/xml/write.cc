#include <type_traits>

#include "base/format.h"
#include "base/markup.h"
#include "topology/xml/xml.h"

namespace collctl::topology {
namespace {

std::string escaped(const std::string& text) {
  return base::escaped_markup(text, [](char c) {
    // As they are, a reader takes line ends and tabs for blanks.
    return static_cast<unsigned char>(c) < ' ' ? format("&#{};", int(c)) : std::string(1, c);
  });
}

class Writer {
 public:
  void open(const char* name) {
    text_.append(size_t(depth_) * 2, ' ');
    text_ += '<';
    text_ += name;
  }
  template <class T>
  void put(const char* name, const std::optional<T>& value) {
    if (!value) return;
    if constexpr (std::is_same_v<T, bool>)
      attribute(name, *value ? "1" : "0");
    else if constexpr (std::is_same_v<T, std::string>)
      attribute(name, escaped(*value));
    else
      attribute(name, format("{}", *value));
  }
  void put_hex(const char* name, const std::optional<uint32_t>& value, int digits) {
    if (value) attribute(name, format("0x{:0{}x}", *value, digits));
  }
  void put_bits(const char* name, const std::optional<uint64_t>& value) {
    if (value) attribute(name, format("0x{:x}", *value));
  }
  void attribute(const std::string& name, const std::string& value) {
    text_ += format(" {}=\"{}\"", name, value);
  }
  void unknown(const Unknowns& attributes) {
    for (const auto& each : attributes) attribute(each.name, escaped(each.value));
  }
  // Between the attributes and the children, and after them.
  void begin_children(bool any) {
    text_ += any ? ">\n" : "/>\n";
    if (any) ++depth_;
  }
  void end_children(const char* name, bool any) {
    if (!any) return;
    --depth_;
    text_.append(size_t(depth_) * 2, ' ');
    text_ += format("</{}>\n", name);
  }
  void raw(const Unknowns& elements) {
    for (const auto& each : elements) {
      text_.append(size_t(depth_) * 2, ' ');
      text_ += each.value + '\n';
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

std::string bus_id_list(const std::vector<BusId>& ids) {
  std::string text;
  for (const BusId id : ids) text += (text.empty() ? "" : " ") + bus_id_text(id);
  return text;
}

void write_net(Writer& to, const Net& net) {
  to.open("net");
  to.attribute("name", escaped(net.name));
  to.put("dev", net.dev);
  to.put("latency", net.latency_us);
  to.put("speed", net.speed_mbps);
  to.put("port", net.port);
  to.put_bits("guid", net.guid);
  to.put("maxconn", net.max_connections);
  to.put("gdr", net.gdr);
  to.put("coll", net.coll);
  to.put("gin", net.gin);
  to.unknown(net.unknown);
  to.begin_children(false);
}

void write_nic(Writer& to, const Nic& nic) {
  const bool any = !nic.nets.empty() || !nic.unknown_elements.empty();
  to.open("nic");
  to.put("ports_down", nic.ports_down);
  to.unknown(nic.unknown);
  to.begin_children(any);
  for (const Net& net : nic.nets) write_net(to, net);
  to.raw(nic.unknown_elements);
  to.end_children("nic", any);
}

void write_gpu(Writer& to, const Gpu& gpu) {
  const bool any = !gpu.links.empty() || !gpu.c2c.empty() || !gpu.unknown_elements.empty();
  to.open("gpu");
  to.put("dev", gpu.dev);
  to.put("sm", gpu.sm);
  to.put("gcn", gpu.gcn);
  to.put("arch", gpu.arch);
  to.put("rank", gpu.rank);
  to.put("gdr", gpu.gdr);
  to.put("name", gpu.name);
  to.put("nvlinks_able", gpu.links_able);
  to.put("assumed", gpu.assumed);
  if (!gpu.no_p2p.empty()) to.attribute("no_p2p", bus_id_list(gpu.no_p2p));
  to.unknown(gpu.unknown);
  to.begin_children(any);
  for (const FabricLink& link : gpu.links) {
    to.open(link.kind == FabricKind::xgmi ? "xgmi" : "nvlink");
    to.attribute("target", bus_id_text(link.target));
    to.put("count", std::optional(link.count));
    to.put_hex("tclass", link.target_class, 6);
    to.unknown(link.unknown);
    to.begin_children(false);
  }
  for (const C2cLink& link : gpu.c2c) {
    to.open("c2c");
    to.put("bw", std::optional(link.mbytes_per_s));
    to.put("count", std::optional(link.count));
    to.unknown(link.unknown);
    to.begin_children(false);
  }
  to.raw(gpu.unknown_elements);
  to.end_children("gpu", any);
}

void write_pci(Writer& to, const Pci& pci) {
  const bool any = pci.gpu || !pci.nics.empty() || !pci.children.empty() || !pci.peers.empty() ||
                   !pci.unknown_elements.empty();
  to.open("pci");
  to.attribute("busid", bus_id_text(pci.bus_id));
  to.put_hex("class", pci.device_class, 6);
  to.put_hex("vendor", pci.vendor, 4);
  to.put_hex("device", pci.device, 4);
  to.put_hex("subsystem_vendor", pci.subsystem_vendor, 4);
  to.put_hex("subsystem_device", pci.subsystem_device, 4);
  to.put("link_speed", pci.link_speed);
  to.put("link_width", pci.link_width);
  to.put("link_speed_now", pci.state.speed_now);
  to.put("link_width_now", pci.state.width_now);
  to.put("link_speed_able", pci.state.speed_able);
  to.put("link_width_able", pci.state.width_able);
  to.unknown(pci.unknown);
  to.begin_children(any);
  if (pci.gpu) write_gpu(to, *pci.gpu);
  for (const Nic& nic : pci.nics) write_nic(to, nic);
  for (const Pci& child : pci.children) write_pci(to, child);
  for (const BusId peer : pci.peers) {
    to.open("pcilink");
    to.attribute("target", bus_id_text(peer));
    to.begin_children(false);
  }
  to.raw(pci.unknown_elements);
  to.end_children("pci", any);
}

void write_cpu(Writer& to, const Cpu& cpu) {
  const bool any = !cpu.children.empty() || !cpu.nics.empty() || !cpu.unknown_elements.empty();
  to.open("cpu");
  to.put_bits("host_hash", cpu.host_hash);
  to.put("numaid", cpu.numa);
  to.put("affinity", cpu.affinity);
  to.put("arch", cpu.arch);
  to.put("vendor", cpu.vendor);
  to.put("familyid", cpu.family);
  to.put("modelid", cpu.model);
  to.unknown(cpu.unknown);
  to.begin_children(any);
  for (const Pci& pci : cpu.children) write_pci(to, pci);
  for (const Nic& nic : cpu.nics) write_nic(to, nic);
  to.raw(cpu.unknown_elements);
  to.end_children("cpu", any);
}

}  // namespace

std::string write_xml(const System& system) {
  const bool any = !system.cpus.empty() || !system.unknown_elements.empty();
  Writer to;
  to.open("system");
  to.put("version", std::optional(system.version));
  to.unknown(system.unknown);
  to.begin_children(any);
  for (const Cpu& cpu : system.cpus) write_cpu(to, cpu);
  to.raw(system.unknown_elements);
  to.end_children("system", any);
  return to.take();
}

}  // namespace collctl::topology
