#include "transport/table/nets.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "transport/edge.h"
#include "transport/net/ib/devices.h"
#include "transport/net/ib/ib.h"
#include "transport/net/plugin/half.h"
#include "transport/net/socket/socket.h"

namespace collctl::transport {

namespace {

constexpr Net kNets[] = {{.name = "plugin", .open = plugin_open},
                         {.name = "ib", .open = ib_open},
                         {.name = "socket", .open = socket_open}};
constexpr const Net *kPluginRow = &kNets[0], *kIbRow = &kNets[1], *kSocketRow = &kNets[2];

bool same_word(const std::string& a, const std::string& b) {
  const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return low(x) == low(y); });
}

// The plugin is first choice where a library is named, and the only one where `wanted` names it. A
// network that the user named is used, or an error: no other is measured in its place.
Status find_plugin(const std::string& wanted, uint64_t comm_hash, NetPresence& found) {
  const base::KnobValue knob = base::knob_value(base::KnobId::net_plugin);
  std::string library = knob.text;
  const bool by_name = !wanted.empty() && wanted != "ib" && wanted != "socket";
  if (library == "none") library.clear();
  if (by_name && library.empty()) library = wanted;
  if (library.empty() || (!by_name && !wanted.empty())) return {};
  COLL_ASSIGN(const int64_t collnet, base::knob_int(base::KnobId::collnet_enable));
  auto plugin = NetPlugin::open(library, comm_hash, collnet != 0);
  if (plugin && by_name && library != wanted && !same_word((*plugin)->name(), wanted))
    plugin = Error(ErrorCode::unavailable,
                   format("the plugin {} is the network '{}'", library, (*plugin)->name()));
  if (!plugin) {
    Error& error = plugin.error();
    if (by_name)
      return std::move(error).within(
          format("network '{}', which is neither ib nor socket", wanted));
    error.hint += format("{}{}=none, or --net ib or socket, goes without the plugin",
                         error.hint.empty() ? "" : "; ", knob.origin);
    return std::move(error).within(format("{}={}", knob.origin, library));
  }
  found.kinds |= by_name ? kNetPlugin | kNetOnlyPlugin : kNetPlugin;
  found.plugin = std::move(*plugin);
  if (found.plugin->reducer() != nullptr) found.kinds |= kNetCollNet;
  found.network = found.plugin->name();
  found.devices = found.plugin->text();
  return {};
}

const PeerInfo* first_with(const PeerInfo& a, const PeerInfo& b, uint8_t kind) {
  return (a.nets & kind) != 0 ? &a : (b.nets & kind) != 0 ? &b : nullptr;
}

}  // namespace

std::span<const Net> nets() {
  return kNets;
}

Result<NetPresence> find_networks(const std::string& wanted, uint64_t comm_hash) {
  NetPresence found;
  COLL_TRY(find_plugin(wanted, comm_hash, found));
  if ((found.kinds & kNetOnlyPlugin) != 0) return found;
  COLL_ASSIGN(const IbSettings settings, read_ib_settings());
  if (wanted == "socket") {
    found.why_no_ib = "sockets were requested";
    return found;
  }
  if (wanted == "ib") found.kinds |= kNetNoSocket;
  Result<std::shared_ptr<IbDevices>> devices =
      settings.disabled ? Error(ErrorCode::unavailable, "COLLCTL_IB_DISABLE is set")
                        : IbDevices::open(settings);
  if (!devices) {
    if (wanted == "ib" || devices.error().code == ErrorCode::usage)
      return std::move(devices.error()).within("network 'ib'");
    found.why_no_ib = devices.error().chain();
    return found;
  }
  for (const auto& port : (*devices)->ports())
    found.kinds |= port->ethernet() ? kNetRoce : kNetInfiniBand;
  found.keep = *devices;
  if (found.plugin != nullptr) return found;
  found.network = "IB";
  found.devices = (*devices)->text();
  return found;
}

const Net* choose_net(const PeerInfo& a, const PeerInfo& b, std::string& why) {
  if ((a.nets & b.nets & kNetPlugin) != 0) return kPluginRow;
  if (const PeerInfo* with = first_with(a, b, kNetPlugin); with != nullptr) {
    why = format("{} has no network plugin, and {} is to use one (COLLCTL_NET_PLUGIN)",
                 peer_text(with == &a ? b : a), peer_text(*with));
    return nullptr;
  }
  if ((a.nets & b.nets & (kNetInfiniBand | kNetRoce)) != 0) return kIbRow;
  const PeerInfo* refuses = first_with(a, b, kNetNoSocket);
  if (refuses == nullptr) return kSocketRow;
  const auto kinds = [](const PeerInfo& peer) {
    const int kind = peer.nets & (kNetInfiniBand | kNetRoce);
    return kind == 0 ? "no RDMA port" : kind == kNetRoce ? "RoCE" : "InfiniBand";
  };
  why = format("{} has {}, {} has {}, and {} may use IB only (COLLCTL_NET)", peer_text(a), kinds(a),
               peer_text(b), kinds(b), peer_text(*refuses));
  return nullptr;
}

Status refuse_without_macs(const Net& net, const PeerInfo& self, const PeerInfo& peer) {
  if (&net == kSocketRow) return {};
  return Error(ErrorCode::unavailable,
               format("--integrity (COLLCTL_INTEGRITY): data between {} and {} would go by the "
                      "network '{}', which has no MACs",
                      peer_text(self), peer_text(peer), net.name),
               "add --net socket, whose data carries them");
}

}  // namespace collctl::transport
