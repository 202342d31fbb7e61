// Which interfaces count, by what the kernel says of them.
#include "base/interface_choice.h"

#include <algorithm>

#include "tests/catch.h"

namespace interface_choice_tests {

using namespace collctl;
using base::InterfaceLink;
using base::NetInterface;

namespace {

struct Machine {
  std::vector<NetInterface> interfaces;
  std::vector<InterfaceLink> links;

  Machine& add(InterfaceLink link, const std::string& address, bool up = true) {
    NetInterface made;
    made.name = link.name;
    made.up = up;
    made.loopback = link.name == "lo";
    if (!address.empty()) made.addresses.push_back({address, 24});
    interfaces.push_back(made);
    links.push_back(std::move(link));
    return *this;
  }
  std::string counting() {
    judge_interfaces(interfaces, links);
    std::string names;
    for (const NetInterface& each : interfaces)
      if (each.aside.empty()) names += (names.empty() ? "" : " ") + each.name;
    return names;
  }
  std::string why(const std::string& name) {
    judge_interfaces(interfaces, links);
    for (const NetInterface& each : interfaces)
      if (each.name == name) return each.aside;
    return "no such interface";
  }
};

// A node of Kubernetes, with podman and a BMC beside.
Machine node() {
  Machine made;
  made.add({.name = "lo", .index = 1}, "127.0.0.1")
      .add({.name = "eth0", .index = 2}, "10.0.0.1")
      .add({.name = "eth1", .index = 3}, "10.1.0.1", false)
      .add({.name = "cni0", .kind = "bridge", .index = 4}, "10.244.1.1")
      .add({.name = "veth1",
            .kind = "veth",
            .index = 5,
            .master = 4,
            .lower = 2,
            .lower_elsewhere = true},
           "")
      .add({.name = "podman0", .kind = "bridge", .index = 6}, "10.88.0.1")
      .add({.name = "flannel.1", .kind = "vxlan", .index = 7, .lower = 2}, "10.244.1.0")
      .add({.name = "idrac", .index = 8}, "169.254.1.2")
      .add({.name = "lxc7", .kind = "veth", .index = 9, .lower = 3, .lower_elsewhere = true},
           "10.244.1.1");
  return made;
}

}  // namespace

TEST_CASE("of a node with containers and a BMC the network card alone counts", "[interfaces]") {
  Machine made = node();
  CHECK(made.counting() == "eth0");
  CHECK(made.why("lo") == "loopback");
  CHECK(made.why("eth1") == "down");
  CHECK(made.why("cni0") == "a bridge that no network card is a port of");
  CHECK(made.why("veth1") == "no address");
  CHECK(made.why("podman0") == "a bridge that no network card is a port of");
  CHECK(made.why("flannel.1") == "a tunnel or overlay (vxlan)");
  CHECK(made.why("idrac") == "only link-local addresses");
  CHECK(made.why("lxc7") == "leads to a container (veth), and this host has a network card");
}

TEST_CASE("bonds, VLANs, bridges of cards, macvlan and InfiniBand count", "[interfaces]") {
  Machine made;
  made.add({.name = "eth0", .index = 2, .master = 4}, "10.9.0.1")
      .add({.name = "eth1", .index = 3, .master = 5}, "")
      .add({.name = "bond0", .kind = "bond", .index = 4}, "10.0.0.1")
      .add({.name = "br0", .kind = "bridge", .index = 5}, "10.1.0.1")
      .add({.name = "bond0.7", .kind = "vlan", .index = 6, .lower = 4}, "10.2.0.1")
      .add({.name = "net1", .kind = "macvlan", .index = 7, .lower = 3, .lower_elsewhere = true},
           "10.3.0.1")
      .add({.name = "ib0", .kind = "ipoib", .index = 8}, "10.4.0.1")
      .add({.name = "red", .kind = "vrf", .index = 9}, "")
      .add({.name = "eth2", .index = 10, .master = 9}, "10.5.0.1");
  CHECK(made.counting() == "bond0 br0 bond0.7 net1 ib0 eth2");
  CHECK(made.why("eth0") == "a port of bond0");
}

TEST_CASE("a macvlan of a card that counts does not, of one without an address it does",
          "[interfaces]") {
  Machine made;
  made.add({.name = "eth0", .index = 2}, "10.0.0.1")
      .add({.name = "eth1", .index = 3}, "")
      .add({.name = "net0", .kind = "macvlan", .index = 4, .lower = 2}, "10.1.0.1")
      .add({.name = "net1", .kind = "ipvlan", .index = 5, .lower = 3}, "10.2.0.1");
  CHECK(made.counting() == "eth0 net1");
  CHECK(made.why("net0") == "a macvlan of eth0, which counts");
}

TEST_CASE("of two cards in one subnet the one that packets leave by counts", "[interfaces]") {
  Machine made;
  made.add({.name = "eth0", .index = 2}, "10.0.0.1").add({.name = "eth1", .index = 3}, "10.0.0.9");
  CHECK(made.counting() == "eth0 eth1");  // by rules of routing
  made.interfaces[0].leaves_by = made.interfaces[1].leaves_by = "eth0";
  CHECK(made.counting() == "eth0");
  CHECK(made.why("eth1").starts_with("its packets leave by eth0, which is in its subnet as well"));
  made.interfaces[0].up = false;
  CHECK(made.counting() == "eth1");
}

TEST_CASE("in a container the end of a veth counts, unless both ends are here", "[interfaces]") {
  Machine made;
  made.add({.name = "eth0", .kind = "veth", .index = 2, .lower = 9, .lower_elsewhere = true},
           "10.83.0.1")
      .add({.name = "bmc0", .kind = "veth", .index = 3, .lower = 4}, "10.7.0.1")
      .add({.name = "bmc1", .kind = "veth", .index = 4, .lower = 3}, "");
  CHECK(made.counting() == "eth0");
  CHECK(made.why("bmc0") == "both its ends are on this host (veth)");
}

TEST_CASE("where the kernel lists no links, names and addresses decide", "[interfaces]") {
  Machine made = node();
  made.add({.name = "docker0", .index = 12}, "172.17.0.1");
  made.links.clear();
  CHECK(made.counting() == "eth0 cni0 podman0 flannel.1 lxc7");
  CHECK(made.why("docker0") == "of containers or virtual machines, by its name");
}

TEST_CASE("the kernel's list of links has every interface of this machine", "[interfaces]") {
  const auto links = base::interface_links();
  for (const NetInterface& each : base::net_interfaces())
    CHECK(std::ranges::any_of(links, [&](const auto& link) { return link.name == each.name; }));
}

}  // namespace interface_choice_tests
