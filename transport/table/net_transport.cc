#include "transport/table/net_transport.h"

#include "base/format.h"
#include "transport/edge.h"
#include "transport/memory/fifo_memory.h"
#include "transport/net/net_link.h"
#include "transport/table/nets.h"

namespace collctl::transport {

using kernels::Protocol;

namespace {

class NetEndpoint : public Endpoint {
 public:
  NetEndpoint(const NetEnd& end, const Net& net, const Services& services,
              std::unique_ptr<NetHalf> half)
      : end_(end), net_(net), services_(services), half_(std::move(half)) {}

  Result<Bytes> describe(Deadline deadline) override {
    auto blob = half_->describe(deadline);
    if (!blob) return fail(std::move(blob.error()));
    ByteWriter w;
    w.put_string(net_.name).put_bytes(*blob);
    for (const NetStream& stream : end_.streams) w.put(stream);
    return w.take();
  }

  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) override {
    Result<std::unique_ptr<Link>> link = make_link(peer_blob, deadline);
    if (!link) return fail(std::move(link.error()));
    return link;
  }

 private:
  Error fail(Error error) const {
    return edge_error(end_.spec, std::move(error)).within(format("network {}", net_.name));
  }
  Result<std::unique_ptr<Link>> make_link(ByteView peer_blob, Deadline deadline) {
    ByteReader r(peer_blob);
    const std::string name = r.get_string(64);
    const ByteView blob = r.get_bytes(4096);
    NetStream streams[kernels::kProtocolCount];
    for (NetStream& stream : streams) stream = r.get<NetStream>();
    if (!r.ok() || !r.at_end() || name != net_.name)
      return Error(ErrorCode::lost, format("network connection data from {} is malformed",
                                           peer_text(end_.spec.peer)));
    for (int p = 0; p < kernels::kProtocolCount; ++p)
      if (streams[p].window != end_.streams[p].window ||
          streams[p].max_bytes != end_.streams[p].max_bytes)
        return Error(ErrorCode::usage,
                     format("{} has {} slots of {} bytes for {}, this rank has {} of {}",
                            peer_text(end_.spec.peer), streams[p].window, streams[p].max_bytes,
                            kernels::name_of(Protocol(p)), end_.streams[p].window,
                            end_.streams[p].max_bytes),
                     "BUFFSIZE, LL_BUFFSIZE and STEPS must be the same on every rank");
    COLL_ASSIGN(auto connection, half_->connect(blob, deadline));
    auto link = std::make_unique<NetLink>(end_.spec, std::move(connection));
    if (Status ready = link->prepare(services_); !ready)
      return own_error(end_.spec, std::move(ready.error()));
    return std::unique_ptr<Link>(std::move(link));
  }

  NetEnd end_;
  const Net& net_;
  Services services_;
  std::unique_ptr<NetHalf> half_;
};

}  // namespace

Reach net_reach(const PeerInfo& a, const PeerInfo& b) {
  const base::Address at_a = net_address(a), at_b = net_address(b);
  if (at_a.family() == 0 || at_b.family() == 0)
    return {.ok = false,
            .why = format("{} has no network address", peer_text(at_a.family() == 0 ? a : b))};
  if (at_a.family() != at_b.family())
    return {.ok = false,
            .why = format("{} uses {} and {} uses {}: one is IPv4, the other IPv6", peer_text(a),
                          at_a.host_text(), peer_text(b), at_b.host_text())};
  // A loopback address means something only within one network namespace.
  if (!in_one_namespace(a, b) && (at_a.is_loopback() || at_b.is_loopback()))
    return {.ok = false,
            .why = format("{} listens at {} and {} at {}: a loopback address is not reachable "
                          "from other hosts",
                          peer_text(a), at_a.text(), peer_text(b), at_b.text())};
  Reach reach;
  reach.ok = choose_net(a, b, reach.why) != nullptr;
  return reach;
}

Result<std::unique_ptr<Endpoint>> net_open(const LinkSpec& wanted, const Services& services) {
  LinkSpec spec = wanted;
  FifoGeometry& ll128 = spec.geometry[int(Protocol::ll128)];
  if (ll128.slot_bytes != 0 && spec.self.kind == DeviceKind::cpu)
    return edge_error(spec, Error(ErrorCode::unavailable,
                                  "LL128 is not supported over the network between CPU ranks",
                                  "use --proto simple or ll"));
  std::string why;
  const Net* net = choose_net(spec.self, spec.peer, why);
  if (net == nullptr) return edge_error(spec, Error(ErrorCode::unavailable, why));
  // LL128 between GPUs works only with RDMA writes from memory to memory, in order.
  if (std::string_view(net->name) != "ib") ll128 = {};
  COLL_TRY(fifo_layout(spec.geometry));  // before anything is made
  NetEnd end{.spec = spec, .streams = {}};
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    const FifoGeometry& g = spec.geometry[p];
    const uint32_t halves = p == int(Protocol::ll) ? 2 : 1;  // the wire carries no flags
    if (g.slot_bytes != 0)
      end.streams[p] = {.window = g.slot_count, .max_bytes = g.slot_bytes / halves};
  }
  if (services.integrity) COLL_TRY(refuse_without_macs(*net, spec.self, spec.peer));
  COLL_ASSIGN(auto half, net->open(end, services));
  return std::unique_ptr<Endpoint>(
      std::make_unique<NetEndpoint>(end, *net, services, std::move(half)));
}

}  // namespace collctl::transport
