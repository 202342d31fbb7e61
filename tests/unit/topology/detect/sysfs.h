// Worlds written by tests: the kernel's files in memory, laid out as sysfs does it, and driver
// facts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "topology/detect/discover.h"
#include "topology/xml/xml.h"

struct PciFiles {
  std::string device_class = "0x030200", vendor = "0x10de", device = "0x2330";
  std::string speed = "32.0 GT/s PCIe", width = "16", numa = "0";
  std::string speed_now = "", width_now = "";  // empty: no such file
};

class Sysfs {
 public:
  void file(const std::string& path, const std::string& text) {
    nodes_[path] = {collctl::topology::EntryKind::file, text + "\n"};
  }
  void link(const std::string& path, const std::string& target) {
    nodes_[path] = {collctl::topology::EntryKind::link, target};
  }
  void folder(const std::string& path) {
    nodes_[path] = {collctl::topology::EntryKind::folder, ""};
  }

  // `where`: below /sys/devices, "pci0000:00/0000:00:01.0/0000:01:00.0". Returns its folder.
  std::string pci(const std::string& where, const PciFiles& files = {}) {
    const std::string at = "/sys/devices/" + where, name = where.substr(where.rfind('/') + 1);
    const std::string parent = where.substr(0, where.rfind('/'));
    const std::string bus = name.substr(0, name.rfind(':'));
    file(at + "/class", files.device_class);
    file(at + "/vendor", files.vendor);
    file(at + "/device", files.device);
    file(at + "/max_link_speed", files.speed);
    file(at + "/max_link_width", files.width);
    file(at + "/numa_node", files.numa);
    if (!files.speed_now.empty()) file(at + "/current_link_speed", files.speed_now);
    if (!files.width_now.empty()) file(at + "/current_link_width", files.width_now);
    link("/sys/bus/pci/devices/" + name, "../../../devices/" + where);
    link("/sys/class/pci_bus/" + bus, "../../devices/" + parent + "/pci_bus/" + bus);
    folder("/sys/devices/" + parent + "/pci_bus/" + bus);
    return at;
  }
  // A root port, switch port or bridge.
  std::string bridge(const std::string& where, const std::string& speed = "32.0 GT/s PCIe",
                     const std::string& width = "16", const std::string& numa = "0") {
    return pci(where, {"0x060400", "0x1000", "0xc030", speed, width, numa, "", ""});
  }
  // An RDMA device of the PCI device at `where` with one port.
  void rdma(const std::string& name, const std::string& where, const std::string& guid,
            const std::string& rate = "400 Gb/sec (4X NDR)", const std::string& state = "4: ACTIVE",
            int port = 1) {
    const std::string at = "/sys/devices/" + where + "/infiniband/" + name;
    link("/sys/class/infiniband/" + name, "../../devices/" + where + "/infiniband/" + name);
    link(at + "/device", "../../../" + where.substr(where.rfind('/') + 1));
    file(at + "/sys_image_guid", guid);
    const std::string ports = at + "/ports/" + std::to_string(port);
    file(ports + "/state", state);
    file(ports + "/rate", rate);
    file(ports + "/link_layer", "InfiniBand");
  }
  // `where`: the device's folder below /sys/devices; empty: a virtual interface.
  void interface(const std::string& name, const std::string& where, const std::string& speed = "",
                 const std::string& state = "up") {
    const std::string above = where.empty() ? "virtual" : where;
    const std::string at = "/sys/devices/" + above + "/net/" + name;
    link("/sys/class/net/" + name, "../../devices/" + above + "/net/" + name);
    file(at + "/operstate", state);
    if (!speed.empty()) file(at + "/speed", speed);
    if (!where.empty()) link(at + "/device", "../../../" + where.substr(where.rfind('/') + 1));
  }
  void numa(int id, const std::string& cpumap) {
    file("/sys/devices/system/node/node" + std::to_string(id) + "/cpumap", cpumap);
  }
  void cpuinfo(const std::string& vendor, int family, int model) {
    file("/proc/cpuinfo",
         "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: " + std::to_string(family) +
             "\nmodel\t\t: " + std::to_string(model) + "\nmodel name\t: a processor\n");
  }

  const collctl::topology::TreeNodes& nodes() const { return nodes_; }
  collctl::topology::Reader reader(collctl::topology::DriverFacts facts = {}) const {
    collctl::topology::Reader made;
    made.files = std::make_unique<collctl::topology::MemoryTree>(nodes_);
    made.drivers = std::move(facts);
    made.host = "node";
    made.arch = "x86_64";
    return made;
  }
  collctl::topology::Detected discover(collctl::topology::DriverFacts facts = {}) const {
    auto world = reader(std::move(facts));
    return collctl::topology::discover(world);
  }

 private:
  collctl::topology::TreeNodes nodes_;
};

// A socket of 16 processors.
inline Sysfs machine() {
  Sysfs world;
  world.cpuinfo("GenuineIntel", 6, 143);
  world.numa(0, "0000ffff");
  return world;
}
inline const std::string kCpu0 =
    "<system version=\"1\"><cpu numaid=\"0\" affinity=\"0000ffff\" arch=\"x86_64\" "
    "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">";
inline const std::string kEnd = "</cpu></system>";

inline collctl::topology::BusId bus(const std::string& text) {
  return *collctl::topology::parse_bus_id(text);
}

inline collctl::topology::GpuFacts gpu_facts(int index, const std::string& address, int sm = 90) {
  collctl::topology::GpuFacts facts;
  facts.index = index;
  facts.bus_id = bus(address);
  facts.sm = sm;
  facts.cuda_dmabuf = facts.cuda_gdr = true;
  return facts;
}

inline void add_nvlinks(collctl::topology::GpuFacts& gpu, int count, const std::string& target,
                        bool active = true) {
  for (int i = 0; i < count; ++i) {
    const int link = int(gpu.links.size());
    if (active)
      gpu.links.push_back({link, true, bus(target)});
    else
      gpu.links.push_back({link, false, std::nullopt});
  }
}

// The detected machine is this text's: everything, down to the last attribute.
inline void check_system(const collctl::topology::Detected& detected, const std::string& expected) {
  const auto read = collctl::topology::read_xml(expected, "expected.xml");
  if (!read.ok()) FAIL(read.error().message);
  INFO("detected:\n" << collctl::topology::write_xml(detected.system));
  CHECK(detected.system == read->system);
}

inline bool has_finding(const std::vector<collctl::topology::Finding>& findings,
                        const std::string& part) {
  for (const auto& finding : findings)
    if ((finding.what + " (" + finding.where + ")").find(part) != std::string::npos) return true;
  return false;
}
