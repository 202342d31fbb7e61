// Which network interfaces count: those by which other hosts may be reached. ONE rule, on values,
// for whatever chooses, tests or lists interfaces. Threads: any.
#pragma once
#include <string>
#include <vector>

#include "base/host_devices.h"

namespace collctl::base {

// A link as the kernel lists it (rtnetlink).
struct InterfaceLink {
  std::string name = {};
  std::string kind =
      {};  // "bridge", "vxlan", "veth", ...; empty: a device, or the kernel does not say
  int index = 0;
  int master = 0;                // index of the bridge or bond that it is a port of; 0: none
  int lower = 0;                 // index of what it stands on, of a veth the other end; 0: none
  bool lower_elsewhere = false;  // ... in another network namespace, where the index says nothing
};
// All links of this network namespace. Empty where the kernel does not answer, or not with all of
// them: then names and addresses decide.
std::vector<InterfaceLink> interface_links();

// 169.254.0.0/16 or fe80::/10; also what is no address: no other host is reached by it.
bool is_link_local(const std::string& address);

// "10.83.0.0/24": equal for all addresses of one network. Text that is no address stays as it is.
std::string network_of(const std::string& address, int prefix);

// Fills `leaves_by` of those that share a subnet.
void ask_shared_subnets(std::vector<NetInterface>& interfaces);

// Fills `aside` of each: empty where it counts, else why not, in one phrase.
void judge_interfaces(std::vector<NetInterface>& interfaces,
                      const std::vector<InterfaceLink>& links);

}  // namespace collctl::base
