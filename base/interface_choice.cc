#include "base/interface_choice.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "base/netlink.h"
#include "base/route.h"

namespace collctl::base {
namespace {

// More addresses of the card below, on its own network: hosts answer for each other's by either.
constexpr std::string_view kShares[] = {"ipvlan", "ipvtap", "macvlan", "macvtap"};

constexpr int kMostStacked = 8;  // a VLAN on a bond of ports of ...
constexpr int kAsks = 3;         // for links that change meanwhile, or fill the buffer
constexpr size_t kAnswerBytes = 64 << 10;

// These carry packets inside others', or to this host's own programs.
constexpr std::string_view kTunnels[] = {
    "dummy", "erspan", "geneve", "gre", "gretap", "ifb",   "ip6gre", "ip6tnl",    "ipip",
    "nlmon", "sit",    "tun",    "vti", "vti6",   "vxcan", "vxlan",  "wireguard", "xfrm"};

class Links {
 public:
  explicit Links(const std::vector<InterfaceLink>& links) : links_(links) {}

  const InterfaceLink* of(const std::string& name) const {
    const auto at = std::ranges::find(links_, name, &InterfaceLink::name);
    return at == links_.end() ? nullptr : &*at;
  }
  const InterfaceLink* of(int index) const {
    const auto at = std::ranges::find(links_, index, &InterfaceLink::index);
    return index == 0 || at == links_.end() ? nullptr : &*at;
  }

  // Stands on a device, however deep.
  bool leads_out(const InterfaceLink& link, int deep = 0) const {
    if (deep == kMostStacked) return false;
    if (link.kind.empty()) return link.name != "lo";
    if (link.kind == "veth" || std::ranges::count(kTunnels, link.kind) != 0) return false;
    if (link.kind != "bridge" && link.kind != "bond" && link.kind != "team" && link.lower == 0)
      return true;  // a driver with a kind of its own: ipoib, rmnet, openvswitch
    if (link.lower_elsewhere) return true;  // macvlan, ipvlan of a container
    const InterfaceLink* lower = of(link.lower);
    return (lower != nullptr && lower->index != link.index && leads_out(*lower, deep + 1)) ||
           std::ranges::any_of(links_, [&](const InterfaceLink& port) {
             return port.master == link.index && port.index != link.index &&
                    leads_out(port, deep + 1);
           });
  }

 private:
  const std::vector<InterfaceLink>& links_;
};

bool only_link_local(const NetInterface& interface) {
  return std::ranges::all_of(interface.addresses, is_link_local, &InterfaceAddress::text);
}

std::string by_kind(const InterfaceLink& link, const Links& links) {
  if (const InterfaceLink* master = links.of(link.master))
    if (master->kind != "vrf") return format("a port of {}", master->name);
  if (std::ranges::count(kTunnels, link.kind) != 0)
    return format("a tunnel or overlay ({})", link.kind);
  if (link.kind == "bridge" && !links.leads_out(link))
    return "a bridge that no network card is a port of";
  if (link.kind == "veth" && !link.lower_elsewhere && link.lower != 0)
    return "both its ends are on this host (veth)";
  return "";
}

}  // namespace

bool is_link_local(const std::string& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 16 == 0xa9fe;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, address.c_str(), &v6) != 1) return true;
  return v6.s6_addr[0] == 0xfe && (v6.s6_addr[1] & 0xc0) == 0x80;
}

std::string network_of(const std::string& address, int prefix) {
  const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  std::array<uint8_t, 16> bytes{};
  if (inet_pton(family, address.c_str(), bytes.data()) != 1) return address;
  for (int bit = std::max(prefix, 0); bit < int(8 * bytes.size()); ++bit)
    bytes[size_t(bit / 8)] &= uint8_t(~(0x80 >> bit % 8));
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes.data(), text, sizeof text);
  return format("{}/{}", text, prefix);
}

// The kernel is asked for the way to another address of the subnet than this host's own, to which
// nothing would leave it.
void ask_shared_subnets(std::vector<NetInterface>& interfaces) {
  std::map<std::string, std::vector<std::pair<NetInterface*, const InterfaceAddress*>>> sharing;
  for (NetInterface& each : interfaces)
    for (const InterfaceAddress& address : each.addresses)
      if (each.up && !each.loopback && address.prefix > 0 &&
          address.text.find(':') == std::string::npos)
        sharing[network_of(address.text, address.prefix)].emplace_back(&each, &address);
  for (const auto& entry : sharing) {
    const auto& list = entry.second;
    if (list.size() < 2) continue;
    const auto is_own = [&](const std::string& text) {
      return std::ranges::any_of(list, [&](const auto& one) { return one.second->text == text; });
    };
    for (const auto& [interface, address] : list) {
      in_addr other{};
      ::inet_pton(AF_INET, address->text.c_str(), &other);
      char text[INET_ADDRSTRLEN] = "";
      for (uint32_t flip = 1; flip < 256 && (*text == 0 || is_own(text)); ++flip) {
        const in_addr next{htonl(ntohl(other.s_addr) ^ flip)};
        ::inet_ntop(AF_INET, &next, text, sizeof text);
      }
      const auto from = parse_address(address->text + ":0"),
                 to = parse_address(text + std::string(":0"));
      if (from && to && interface->leaves_by.empty())
        interface->leaves_by = route_device(*to, *from);
    }
  }
}

void judge_interfaces(std::vector<NetInterface>& interfaces,
                      const std::vector<InterfaceLink>& known) {
  const Links links(known);
  for (NetInterface& each : interfaces) {
    const InterfaceLink* link = links.of(each.name);
    each.aside = !each.up                        ? "down"
                 : each.loopback                 ? "loopback"
                 : each.addresses.empty()        ? "no address"
                 : is_inner_interface(each.name) ? "of containers or virtual machines, by its name"
                 : link != nullptr               ? by_kind(*link, links)
                                                 : "";
    if (each.aside.empty() && only_link_local(each)) each.aside = "only link-local addresses";
  }
  for (NetInterface& each : interfaces) {
    const InterfaceLink* link = links.of(each.name);
    if (!each.aside.empty() || link == nullptr || link->lower_elsewhere ||
        std::ranges::count(kShares, link->kind) == 0)
      continue;
    const InterfaceLink* card = links.of(link->lower);
    const auto counts = [&](const NetInterface& other) {
      return card != nullptr && other.name == card->name && other.aside.empty();
    };
    if (std::ranges::any_of(interfaces, counts))
      each.aside = format("a {} of {}, which counts", link->kind, card->name);
  }
  // Two cards in one subnet are one way unless rules of routing tell them apart.
  for (NetInterface& each : interfaces) {
    const auto other = std::ranges::find(interfaces, each.leaves_by, &NetInterface::name);
    if (each.aside.empty() && other != interfaces.end() && &*other != &each && other->aside.empty())
      each.aside = format(
          "its packets leave by {}, which is in its subnet as well (no rule of ip rule sends them "
          "by {})",
          other->name, each.name);
  }
  // The end of a pair whose other one is in another namespace: the only way out of a container, and
  // on a host with a network card the way to one of its containers.
  const auto real = [&](const NetInterface& each) {
    const InterfaceLink* link = links.of(each.name);
    return each.aside.empty() && link != nullptr && links.leads_out(*link);
  };
  if (std::ranges::none_of(interfaces, real)) return;
  for (NetInterface& each : interfaces) {
    const InterfaceLink* link = links.of(each.name);
    if (each.aside.empty() && link != nullptr && link->kind == "veth")
      each.aside = "leads to a container (veth), and this host has a network card";
  }
}

namespace {

std::string text_of(ByteView value) {
  return {value.begin(), std::ranges::find(value, 0)};
}

int number_of(ByteView bytes) {
  int32_t value = 0;
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

InterfaceLink link_of(const nlmsghdr* message) {
  const auto* about = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
  InterfaceLink link;
  link.index = about->ifi_index;
  const ByteView attributes(reinterpret_cast<const uint8_t*>(IFLA_RTA(about)),
                            size_t(IFLA_PAYLOAD(message)));
  walk_attributes(attributes, [&](int type, ByteView value) {
    if (type == IFLA_IFNAME) link.name = text_of(value);
    if (type == IFLA_MASTER) link.master = number_of(value);
    if (type == IFLA_LINK) link.lower = number_of(value);
    if (type == IFLA_LINK_NETNSID) link.lower_elsewhere = true;
    if (type == IFLA_LINKINFO)
      walk_attributes(value, [&](int inner, ByteView info) {
        if (inner == IFLA_INFO_KIND) link.kind = text_of(info);
      });
  });
  return link;
}

// One answer of the kernel, whole; absent: it is cut short, or links changed while it was written.
std::optional<std::vector<InterfaceLink>> ask_links(size_t buffer) {
  const Fd asking(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr head;
    ifinfomsg about;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETLINK;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (!asking || ::send(asking.get(), &request, sizeof request, 0) != ssize_t(sizeof request))
    return std::nullopt;
  std::vector<InterfaceLink> links;
  std::vector<char> answer(buffer);
  // The kernel has answered when the call before returns: nothing here waits for anybody.
  while (true) {
    const ssize_t got =
        ::recv(asking.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got <= 0 || size_t(got) > answer.size()) return std::nullopt;
    auto left = unsigned(got);
    for (auto* at = reinterpret_cast<const nlmsghdr*>(answer.data()); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_type == NLMSG_ERROR || (at->nlmsg_flags & NLM_F_DUMP_INTR) != 0)
        return std::nullopt;
      if (at->nlmsg_type == NLMSG_DONE) return links;
      if (at->nlmsg_type == RTM_NEWLINK) links.push_back(link_of(at));
    }
  }
}

}  // namespace

std::vector<InterfaceLink> interface_links() {
  for (int time = 0; time < kAsks; ++time)
    if (auto links = ask_links(kAnswerBytes << (2 * time))) return std::move(*links);
  COLL_INFO(net, "the kernel does not list its links in one piece: names and addresses decide");
  return {};
}

}  // namespace collctl::base
