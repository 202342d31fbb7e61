// The rules by which an interface is chosen, on a given list: pure, so that they can be tested
// without the machine. find_interfaces (bootstrap.h) feeds it with what getifaddrs says.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

struct InterfaceFact {
  std::string name;
  Address address;
  Address netmask;  // family 0 when unknown
  bool up = true;
  std::string aside =
      {};  // why no other host is reached by it (base/interface_choice.h); empty: it counts
};

struct InterfaceFilter {
  std::string names;   // SOCKET_IFNAME; empty: the default order
  std::string family;  // "", AF_INET or AF_INET6
  const Address* same_subnet_as = nullptr;
  size_t at_most = 16;
};

// Does this interface name match a list such as "eth,=ib0" or "^docker,lo" or "^=eth0"?
// A leading ^ negates the whole list; a leading = makes every name in it exact; either may also
// stand before a single name.
bool name_matches(std::string_view list, std::string_view name);

// Best first, each interface once. Empty when nothing matches.
std::vector<Interface> choose_interfaces(const std::vector<InterfaceFact>& facts,
                                         const InterfaceFilter& filter);

// Where a rank may listen for the others whose root is at `root`, best first: loopback alone where
// the root is there and no names are given, else as find_interfaces; not empty. Error: unavailable.
Result<std::vector<Interface>> bootstrap_interfaces(const std::string& names,
                                                    const std::string& family, const Address& root);
// The best of them.
Result<Interface> bootstrap_interface(const std::string& names, const std::string& family,
                                      const Address& root);

// The addresses of all interfaces that are up, as the kernel lists them; the ports are 0. Error:
// unavailable.
Result<std::vector<Address>> own_addresses();

// Interfaces for the sockets' data: `first`, the bootstrap's, and those of `matching` (as
// find_interfaces has them) that others can reach as well: of its family, neither loopback nor
// link-local. Where the user has named none, only what the rules take on purpose: ib*, or the
// root's subnet; the others may lead anywhere.
std::vector<Interface> data_interfaces(const std::vector<Interface>& matching,
                                       const Interface& first, bool named, const Address& root);

}  // namespace collctl::runtime
