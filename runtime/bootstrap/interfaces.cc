#include "runtime/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/log.h"

namespace collctl::runtime {
namespace {

bool has_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

int prefix_of(const Address& netmask) {
  int bits = 0;
  for (const uint8_t byte : netmask.host_bytes()) bits += std::popcount(byte);
  return bits;
}

bool same_subnet(const InterfaceFact& fact, const Address& other) {
  return base::in_one_subnet(fact.address, other, prefix_of(fact.netmask));
}

bool family_fits(const InterfaceFact& fact, const std::string& family) {
  if (family == "AF_INET") return fact.address.family() == AF_INET;
  if (family == "AF_INET6") return fact.address.family() == AF_INET6;
  return fact.address.family() == AF_INET || fact.address.family() == AF_INET6;
}

// An IPv6 loopback serves only a root that is itself there.
bool usable(const InterfaceFact& fact, const InterfaceFilter& filter) {
  if (!fact.up || !family_fits(fact, filter.family)) return false;
  if (fact.address.family() != AF_INET6 || !fact.address.is_loopback()) return true;
  return filter.same_subnet_as != nullptr && filter.same_subnet_as->family() == AF_INET6 &&
         filter.same_subnet_as->is_loopback();
}

bool counts(const InterfaceFact& fact) {
  return fact.aside.empty() && !fact.address.is_link_local() && !fact.address.is_loopback();
}

bool only_excludes(std::string_view names) {
  return has_prefix(names, "^") || has_prefix(names, "=^");
}

// Lower is better: an address others can dial before a link-local one, IPv4 before IPv6.
int address_rank(const InterfaceFact& fact) {
  return (fact.address.is_link_local() ? 2 : 0) + (fact.address.family() == AF_INET ? 0 : 1);
}

// Interfaces of the facts that pass, each once with its best address, in the machine's order.
template <class Passes>
std::vector<Interface> take(const std::vector<InterfaceFact>& facts, const InterfaceFilter& filter,
                            Passes passes) {
  std::vector<const InterfaceFact*> best;
  for (const InterfaceFact& fact : facts) {
    if (!usable(fact, filter) || !passes(fact)) continue;
    const auto known = std::find_if(best.begin(), best.end(),
                                    [&](const auto* other) { return other->name == fact.name; });
    if (known == best.end())
      best.push_back(&fact);
    else if (address_rank(fact) < address_rank(**known))
      *known = &fact;
  }
  std::vector<Interface> chosen;
  for (const InterfaceFact* fact : best)
    if (chosen.size() < filter.at_most)
      chosen.push_back({fact->name, fact->address, prefix_of(fact->netmask)});
  return chosen;
}

}  // namespace

bool name_matches(std::string_view list, std::string_view name) {
  const bool turned = has_prefix(list, "^");
  if (turned) list.remove_prefix(1);
  const bool all_exact = has_prefix(list, "=");
  if (all_exact) list.remove_prefix(1);
  bool wanted = false, excluded = false, only_exclusions = true;
  while (!list.empty()) {
    std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const bool item_turned = has_prefix(item, "^");
    if (item_turned) item.remove_prefix(1);
    const bool exact = all_exact || has_prefix(item, "=");
    if (has_prefix(item, "=")) item.remove_prefix(1);
    if (item.empty()) continue;
    const bool hit = exact ? item == name : has_prefix(name, item);
    if (turned || item_turned) {
      excluded |= hit;
    } else {
      wanted |= hit;
      only_exclusions = false;
    }
  }
  return !excluded && (wanted || only_exclusions);
}

std::vector<Interface> choose_interfaces(const std::vector<InterfaceFact>& facts,
                                         const InterfaceFilter& filter) {
  if (!filter.names.empty()) {
    const auto matches = [&](const auto& f) { return name_matches(filter.names, f.name); };
    std::vector<Interface> chosen;
    // To exclude some is not to ask for all of the rest, least of all for loopback.
    if (only_excludes(filter.names)) {
      chosen = take(facts, filter, [&](const auto& f) { return matches(f) && counts(f); });
      if (chosen.empty())
        chosen = take(facts, filter,
                      [&](const auto& f) { return matches(f) && !f.address.is_loopback(); });
    }
    return chosen.empty() ? take(facts, filter, matches) : chosen;
  }
  const auto prefixed = [&](std::string_view prefix) {
    return take(facts, filter, [&](const auto& f) { return has_prefix(f.name, prefix); });
  };
  // IPoIB that has no address of its own leads nowhere.
  std::vector<Interface> chosen =
      take(facts, filter, [](const auto& f) { return has_prefix(f.name, "ib") && counts(f); });
  for (const bool any : {false, true})
    if (chosen.empty() && filter.same_subnet_as != nullptr)
      chosen = take(facts, filter, [&](const auto& f) {
        return same_subnet(f, *filter.same_subnet_as) && (any || counts(f));
      });
  if (chosen.empty()) chosen = take(facts, filter, counts);
  // A host may have no way but a tunnel.
  if (chosen.empty())
    chosen = take(facts, filter, [](const auto& f) {
      return !base::is_inner_interface(f.name) && !f.address.is_link_local();
    });
  for (const std::string_view last : base::kInnerInterfaces)
    if (chosen.empty()) chosen = prefixed(last);
  if (chosen.empty()) chosen = take(facts, filter, [](const auto&) { return true; });
  return chosen;
}

namespace {

Address copy_address(const sockaddr* from) {
  Address a;
  if (from == nullptr || (from->sa_family != AF_INET && from->sa_family != AF_INET6)) return a;
  a.length = from->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&a.storage, from, a.length);
  return a;
}

Result<std::vector<InterfaceFact>> interface_facts() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return base::errno_error(ErrorCode::unavailable, "list network interfaces", errno);
  std::vector<InterfaceFact> facts;
  const std::vector<base::NetInterface> judged = base::net_interfaces();
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    InterfaceFact fact{at->ifa_name, copy_address(at->ifa_addr), copy_address(at->ifa_netmask),
                       (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_RUNNING) != 0, ""};
    const auto known = std::ranges::find(judged, fact.name, &base::NetInterface::name);
    if (known != judged.end()) fact.aside = known->aside;
    if (fact.address.length != 0) facts.push_back(std::move(fact));
  }
  ::freeifaddrs(list);
  return facts;
}

// " NAME=VALUE", by the variable that the user has set and the file that it stands in.
std::string said(base::KnobId id, const char* name, const std::string& value) {
  if (value.empty()) return "";
  const base::KnobValue known = base::knob_value(id);
  const bool from_it = !known.variable.empty() && known.text == value;
  return format(" {}={}{}", from_it ? known.variable : name, value,
                from_it && !known.file.empty() ? format(" ({})", known.file) : "");
}

}  // namespace

Result<std::vector<Interface>> find_interfaces(const std::string& ifname_list,
                                               const std::string& family,
                                               const Address* same_subnet_as, size_t at_most) {
  if (!family.empty() && family != "AF_INET" && family != "AF_INET6")
    return Error(ErrorCode::usage, format("COLLCTL_SOCKET_FAMILY = '{}': expected AF_INET or "
                                          "AF_INET6",
                                          family));
  COLL_ASSIGN(const std::vector<InterfaceFact> facts, interface_facts());
  std::vector<Interface> chosen =
      choose_interfaces(facts, {ifname_list, family, same_subnet_as, at_most});
  if (!chosen.empty()) {
    for (const InterfaceFact& f : facts)
      if (!f.aside.empty() && std::ranges::find(chosen, f.name, &Interface::name) == chosen.end())
        COLL_INFO(net, "{} {} : not used: {}", f.name, f.address.host_text(), f.aside);
    return chosen;
  }
  std::string there;
  for (const InterfaceFact& f : facts)
    there += format("{}{} ({}{})", there.empty() ? "" : ", ", f.name, f.address.host_text(),
                    f.up ? "" : ", down");
  return Error(ErrorCode::unavailable,
               format("no network interface matches{}{}; this host has: {}",
                      said(base::KnobId::socket_ifname, "COLLCTL_SOCKET_IFNAME", ifname_list),
                      said(base::KnobId::socket_family, "COLLCTL_SOCKET_FAMILY", family),
                      there.empty() ? "none" : there),
               "choose one with COLLCTL_SOCKET_IFNAME");
}

Result<std::vector<Interface>> bootstrap_interfaces(const std::string& names,
                                                    const std::string& family,
                                                    const Address& root) {
  if (!root.is_loopback() || !names.empty()) return find_interfaces(names, family, &root);
  Address here = root;
  here.set_port(0);
  return std::vector<Interface>{{"lo", here, here.family() == AF_INET ? 8 : 128}};
}

Result<Interface> bootstrap_interface(const std::string& names, const std::string& family,
                                      const Address& root) {
  COLL_ASSIGN(auto found, bootstrap_interfaces(names, family, root));
  return found[0];
}

Result<std::vector<Address>> own_addresses() {
  COLL_ASSIGN(const auto facts, interface_facts());
  std::vector<Address> all;
  for (const InterfaceFact& fact : facts)
    if (fact.up) all.push_back(fact.address);
  return all;
}

std::vector<Interface> data_interfaces(const std::vector<Interface>& matching,
                                       const Interface& first, bool named, const Address& root) {
  std::vector<Interface> all{first};
  if (first.address.is_loopback()) return all;
  for (const Interface& each : matching) {
    const Address& at = each.address;
    if (each.name == first.name || at.family() != first.address.family() || at.is_loopback() ||
        at.is_link_local())
      continue;
    if (named || has_prefix(each.name, "ib") || base::in_one_subnet(at, root, each.prefix_bits))
      all.push_back(each);
  }
  return all;
}

}  // namespace collctl::runtime
