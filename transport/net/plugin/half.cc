#include "transport/net/plugin/half.h"

#include "base/env.h"
#include "base/format.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/net/plugin/connection.h"
#include "transport/net/rendezvous.h"

namespace collctl::transport {

namespace {

constexpr uint64_t kPluginPart = 0x706c7567;  // of the edge's keys: the TCP connection
constexpr uint32_t kPluginMagic = 0x47554c50;
constexpr uint32_t kMostName = 64;

using Handles = std::array<PluginHandle, kernels::kProtocolCount>;

class PluginHalf : public NetHalf {
 public:
  PluginHalf(const NetEnd& end, const Services& services)
      : end_(end),
        services_(services),
        device_(plugin_device(services.plugin->session(), end.spec.nic.name, end.spec.channel,
                              end.spec.self)) {}

  Result<Bytes> describe(Deadline) override {
    COLL_TRY(check_sizes());
    Handles handles{};
    if (!sends()) {
      listener_ = std::make_unique<PluginListener>(lines(), end_);
      COLL_ASSIGN(handles, listener_->start());
      COLL_TRY(expect_peer(end_, services_, control_key()));
    }
    ByteWriter w;
    w.put(kPluginMagic).put_string(services_.plugin->name());
    for (const PluginHandle& handle : handles) w.put(handle);
    return w.take();
  }

  Result<std::unique_ptr<NetConnection>> connect(ByteView blob, Deadline deadline) override {
    COLL_ASSIGN(const Handles handles, decode(blob));
    const PluginWait wait{.deadline = deadline,
                          .abort_word = services_.abort_word,
                          .what = format("the connection of {} by network plugin {}",
                                         peer_text(end_.spec.peer), services_.plugin->name())};
    PluginLines made = lines();
    if (sends()) {
      COLL_TRY(connect_lines(made, end_, handles, wait));
      return finish(std::move(made), deadline);
    }
    COLL_ASSIGN(PluginLines accepted, listener_->take(wait));
    return finish(std::move(accepted), deadline);
  }

 private:
  bool sends() const { return end_.spec.direction == Direction::send; }
  uint64_t control_key() const { return edge_key(end_.spec, services_.comm_hash, kPluginPart); }
  PluginLines lines() const { return {services_.plugin, device_, end_.spec.direction}; }

  Status check_sizes() const {
    const NetPluginDevice& device = services_.plugin->session().devices()[size_t(device_)];
    for (const NetStream& stream : end_.streams)
      if (stream.window != 0 && stream.max_bytes > device.most_message_bytes)
        return Error(ErrorCode::usage,
                     format("network plugin {}: {} sends at most {} bytes at once, a step has {}",
                            services_.plugin->name(), device.name, device.most_message_bytes,
                            stream.max_bytes),
                     "lower COLLCTL_BUFFSIZE");
    return {};
  }

  Result<Handles> decode(ByteView blob) const {
    ByteReader r(blob);
    const auto magic = r.get<uint32_t>();
    const std::string name = r.get_string(kMostName);
    Handles handles;
    for (PluginHandle& handle : handles) handle = r.get<PluginHandle>();
    if (!r.ok() || !r.at_end() || magic != kPluginMagic)
      return Error(ErrorCode::lost, format("plugin connection data from {} is malformed",
                                           peer_text(end_.spec.peer)));
    if (name != services_.plugin->name())
      return Error(ErrorCode::usage,
                   format("{} has the network plugin {}, {} has {}", peer_text(end_.spec.peer),
                          name, peer_text(end_.spec.self), services_.plugin->name()),
                   "give every rank the same COLLCTL_NET_PLUGIN");
    return handles;
  }

  Result<std::unique_ptr<NetConnection>> finish(PluginLines made, Deadline deadline) {
    COLL_ASSIGN(const int64_t dmabuf, base::knob_int(base::KnobId::dmabuf_enable));
    COLL_ASSIGN(const int64_t force, base::knob_int(base::KnobId::net_force_flush));
    COLL_ASSIGN(base::Fd control, rendezvous(end_, services_, control_key(), deadline));
    const bool flush =
        services_.device != nullptr &&
        (force != 0 || made.device().force_flush ||
         needs_flush(services_.device->facts().compute_capability, end_.spec.nic.gdr));
    return PluginConnection::make({.end = end_,
                                   .lines = std::move(made),
                                   .control = std::move(control),
                                   .device = services_.device,
                                   .flush = flush,
                                   .dmabuf = dmabuf != 0});
  }

  NetEnd end_;
  Services services_;
  int device_;
  std::unique_ptr<PluginListener> listener_;
};

}  // namespace

Result<std::unique_ptr<NetHalf>> plugin_open(const NetEnd& end, const Services& services) {
  if (services.plugin == nullptr)
    return Error(ErrorCode::defect,
                 "a connection by a network plugin that this rank has not opened");
  return std::unique_ptr<NetHalf>(std::make_unique<PluginHalf>(end, services));
}

}  // namespace collctl::transport
