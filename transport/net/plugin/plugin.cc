#include "transport/net/plugin/plugin.h"

#include <algorithm>

#include "base/format.h"
#include "transport/nccl_numbers.h"

namespace collctl::transport {

using kernels::DataType;
using kernels::RedOp;

namespace {

// The reductions that a network says it supports.
uint64_t reductions_of(const NetPluginEntry& entry) {
  uint64_t all = 0;
  for (int t = 0; t < kernels::kDataTypeCount; ++t)
    for (const auto op : {RedOp::sum, RedOp::prod, RedOp::min, RedOp::max}) {
      const auto type = DataType(t);
      int supported = 0;
      if (nccl_type(type) >= 0 &&
          collective_calls(entry).reduces(nccl_type(type), nccl_op(op), &supported) ==
              kNetPluginOk &&
          supported != 0)
        all |= reduction_bit(type, op);
    }
  return all;
}

}  // namespace

Result<std::shared_ptr<NetPlugin>> NetPlugin::open(const std::string& name, uint64_t comm_hash,
                                                   bool collnet) {
  auto plugin = std::make_shared<NetPlugin>();
  COLL_ASSIGN(const NetPluginLibrary library, load_net_plugin(name));
  COLL_ASSIGN(plugin->session_, NetPluginSession::start(library.net, comm_hash));
  if (collnet)
    plugin->open_reducer(library, comm_hash);
  else
    plugin->why_no_reducer_ = "COLLNET_ENABLE is 0";
  return plugin;
}

void NetPlugin::open_reducer(const NetPluginLibrary& library, uint64_t comm_hash) {
  why_no_reducer_ = library.why_no_collective;
  if (library.collective.calls == nullptr) return;
  auto session = NetPluginSession::start(library.collective, comm_hash);
  if (!session) {
    why_no_reducer_ = session.error().chain();
    return;
  }
  reductions_ = reductions_of(library.collective);
  if (reductions_ == 0)
    why_no_reducer_ = format("network plugin {} ({}): it supports no reduction that collctl knows",
                             library.collective.name, library.collective.library);
  else
    reducer_ = std::move(*session);
}

uint64_t NetPlugin::most_reduced_bytes() const {
  uint64_t most = ~uint64_t{0};
  for (const NetPluginDevice& device : reducer_->devices())
    most = std::min<uint64_t>(most, device.most_message_bytes);
  return most;
}

std::string NetPlugin::text() const {
  std::string devices;
  for (const NetPluginDevice& device : session_->devices())
    devices += format("{}{} ({} Mb/s)", devices.empty() ? "" : ", ", device.name, device.mbps);
  return format("{}, version {} of {}", devices, entry().calls->version(), entry().library);
}

int plugin_device(const NetPluginSession& session, const std::string& nic, int channel,
                  const PeerInfo& self) {
  const auto& devices = session.devices();
  for (size_t d = 0; d < devices.size(); ++d)
    if (devices[d].name == nic) return int(d);
  return int((size_t(channel) + size_t(std::max(0, self.device))) % devices.size());
}

}  // namespace collctl::transport
