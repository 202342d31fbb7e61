// THE table of networks below the NET transport, which of them a rank has (PeerInfo::nets), and
// which one two ranks use: the external plugin where both have one (where one has, none: an error),
// else IB where both have a port of the same kind, else sockets. Threads: any.
#pragma once
#include <memory>
#include <string>

#include "transport/net/net.h"
#include "transport/net/plugin/plugin.h"

namespace collctl::transport {

struct Net {
  const char* name;  // as in --net
  Result<std::unique_ptr<NetHalf>> (*open)(const NetEnd& end, const Services& services);
};
std::span<const Net> nets();

// The networks of this rank. `keep` holds devices open as long as it lives, so that connections
// find them quickly.
struct NetPresence {
  uint8_t kinds = 0;
  std::shared_ptr<void> keep;
  std::shared_ptr<NetPlugin> plugin;  // null: none
  std::string network = "Socket";     // of the log line "Using network"
  std::string devices;                // of the log line "NET/IB : Using"; may be empty
  std::string why_no_ib;              // empty when there is
};
// `wanted` is empty, "ib", "socket" or a plugin's name: of the network of COLLCTL_NET_PLUGIN, or,
// without that, of a library. Errors: unavailable: what is wanted, or the plugin that is named, is
// not available; usage: a knob IB_* that is malformed.
Result<NetPresence> find_networks(const std::string& wanted, uint64_t comm_hash = 0);

// The same answer for (a, b) and (b, a). Null: none; `why` says so.
const Net* choose_net(const PeerInfo& a, const PeerInfo& b, std::string& why);

// Error unavailable: this network's data carries no MACs, and they are asked for (--integrity).
Status refuse_without_macs(const Net& net, const PeerInfo& self, const PeerInfo& peer);

}  // namespace collctl::transport
