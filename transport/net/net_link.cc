#include "transport/net/net_link.h"

#include <algorithm>
#include <atomic>

#include "base/format.h"
#include "base/wait.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/memory/fifo_memory.h"
#include "transport/net/ll_lines.h"
#include "transport/net/net.h"

namespace collctl::transport {

namespace {

using kernels::Fifo;
using kernels::Protocol;

uint64_t load_counter(uint64_t* counter) {
  // Pairs with the block's release of the same counter: the slot is written (tail) or read (head).
  return std::atomic_ref<uint64_t>(*counter).load(std::memory_order_acquire);
}

// Publishes a counter and wakes the block if it sleeps on it; a GPU's never does.
void publish(uint64_t* counter, uint64_t value, uint32_t* sleepers) {
  std::atomic_ref<uint64_t>(*counter).store(value, std::memory_order_release);
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t> word(*sleepers);
  // Pairs with the sleeper's exchange of 1: it sees the counter, or this sees the 1.
  if (word.fetch_or(0, std::memory_order_acq_rel) == 0) return;
  word.store(0, std::memory_order_release);
  base::futex_wake(sleepers, 1 << 30);
}

void arm_word(uint32_t* sleepers) {
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t>(*sleepers).exchange(1, std::memory_order_acq_rel);
}

void disarm_word(uint32_t* sleepers) {
  if (sleepers == nullptr) return;
  std::atomic_ref<uint32_t>(*sleepers).store(0, std::memory_order_release);
}

// One protocol of one end: the fifo whose other side is a block, and how far its slots have got.
struct Stage {
  Fifo fifo{};
  std::vector<NetRequest> requests;  // by slot
  uint64_t posted = 0;               // steps given to the network
  uint64_t done = 0;                 // steps the network is done with
  uint64_t seen = 0;                 // the limit of posted at the last look
  uint64_t packed = 0;               // send, LL: steps whose slot holds packed data
  uint64_t memory = 0;               // registration
  uint8_t* staging = nullptr;        // receive, LL: packed data before it becomes lines
  bool used() const { return fifo.slots != nullptr; }
  bool is_ll() const { return fifo.protocol == Protocol::ll; }
  uint32_t index(uint64_t step) const { return uint32_t(step % fifo.slot_count); }
  uint8_t* slot(uint64_t step) const { return fifo.slots + size_t(index(step)) * fifo.slot_bytes; }
};

class NetLink : public Link {
 public:
  NetLink(const LinkSpec& spec, const Net& net, std::unique_ptr<NetConnection> connection)
      : spec_(spec), via_(net.via), connection_(std::move(connection)) {}
  Status prepare(const FifoLayout& layout, const std::shared_ptr<Device>& device);

  Fifo* fifo(Protocol protocol) override {
    Stage& stage = stages_[size_t(protocol)];
    return stage.used() ? &stage.fifo : nullptr;
  }
  const std::string& via() const override { return via_; }
  bool needs_progress() const override { return true; }
  Result<Progress> progress() override;
  void add_interest(std::vector<pollfd>& fds) override { connection_->add_interest(fds); }
  bool arm() override;
  void disarm() override;
  bool drained() const override;
  void attach_bell(int fd) override;
  void say_goodbye() override { connection_->say_goodbye(); }

 private:
  bool sending() const { return spec_.direction == Direction::send; }
  Result<bool> post(Stage& stage);
  Result<NetRequest> post_send(Stage& stage);
  Result<NetRequest> post_recv(Stage& stage);
  Result<bool> complete(Stage& stage);
  Status announce(Stage& stage, uint32_t bytes);
  Result<bool> move();
  // Steps that may be posted now.
  uint64_t limit(const Stage& stage) const {
    return sending() ? load_counter(stage.fifo.tail)
                     : load_counter(stage.fifo.head) + stage.fifo.slot_count;
  }

  LinkSpec spec_;
  std::string via_;
  base::Mapping memory_, staging_;
  PinnedMemory pinned_;  // in place of memory_ for a GPU
  Stage stages_[kernels::kProtocolCount];
  std::unique_ptr<NetConnection> connection_;  // last: its helpers end before the memory goes
};

Status NetLink::prepare(const FifoLayout& layout, const std::shared_ptr<Device>& device) {
  void* slots = nullptr;
  if (device != nullptr) {
    COLL_ASSIGN(pinned_, PinnedMemory::make(device, layout.total_bytes));
    slots = pinned_.data();
  } else {
    COLL_ASSIGN(memory_, private_fifo_memory(layout));
    slots = memory_.get();
  }
  size_t staging_bytes = 0;
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    const FifoGeometry& geometry = layout.parts[p].geometry;
    if (geometry.slot_bytes == 0) continue;
    Stage& stage = stages_[p];
    stage.fifo = fifo_end(slots, layout, Protocol(p), spec_);
    stage.fifo.flags = sending() ? kernels::kFifoProxyReads : kernels::kFifoProxyWrites;
    stage.requests.resize(geometry.slot_count, kNoRequest);
    const size_t bytes = size_t(geometry.slot_bytes) * geometry.slot_count;
    COLL_ASSIGN(stage.memory, connection_->register_memory(stage.fifo.slots, bytes));
    if (stage.is_ll() && !sending()) staging_bytes = bytes / 2;
  }
  if (staging_bytes == 0) return {};
  void* block = ::mmap(nullptr, staging_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable, "memory to receive into", errno);
  staging_ = base::Mapping(block, staging_bytes);
  Stage& ll = stages_[size_t(Protocol::ll)];
  ll.staging = static_cast<uint8_t*>(block);
  COLL_ASSIGN(ll.memory, connection_->register_memory(block, staging_bytes));
  return {};
}

Result<Progress> NetLink::progress() {
  Result<bool> moved = move();
  if (!moved) return edge_error(spec_, std::move(moved.error())).within(via_);
  if (*moved) return Progress::moved;
  return connection_->idle() ? Progress::idle : Progress::would_block;
}

Result<bool> NetLink::move() {
  bool moved = false;
  for (Stage& stage : stages_) {
    if (!stage.used()) continue;
    COLL_ASSIGN(const bool posted, post(stage));
    moved |= posted && sending();
  }
  COLL_ASSIGN(const bool carried, connection_->progress());
  moved |= carried;
  for (Stage& stage : stages_) {
    if (!stage.used()) continue;
    COLL_ASSIGN(const bool completed, complete(stage));
    moved |= completed;
  }
  return moved;
}

Result<bool> NetLink::post(Stage& stage) {
  const uint64_t first = stage.posted;
  const uint64_t end = stage.seen = limit(stage);
  while (stage.posted < end) {
    COLL_ASSIGN(const NetRequest request, sending() ? post_send(stage) : post_recv(stage));
    if (request == kNoRequest) break;
    stage.requests[stage.index(stage.posted)] = request;
    ++stage.posted;
  }
  return stage.posted != first;
}

Result<NetRequest> NetLink::post_send(Stage& stage) {
  const uint64_t step = stage.posted;
  uint32_t bytes = stage.fifo.records[stage.index(step)].bytes;
  if (bytes > stage.fifo.slot_bytes || (stage.is_ll() && bytes % 16 != 0))
    return Error(ErrorCode::defect, format("step {} says it has {} bytes in a slot of {}", step,
                                           bytes, stage.fifo.slot_bytes));
  if (stage.is_ll()) {
    if (stage.packed == step) pack_lines_in_place(stage.slot(step), bytes / 16);
    stage.packed = step + 1;  // so that a post that found no credit does not pack again
    bytes /= 2;
  }
  return connection_->post_send(int(stage.fifo.protocol), stage.slot(step), bytes, stage.memory);
}

Result<NetRequest> NetLink::post_recv(Stage& stage) {
  const uint64_t step = stage.posted;
  const uint32_t capacity = stage.fifo.slot_bytes / (stage.is_ll() ? 2 : 1);
  uint8_t* to =
      stage.is_ll() ? stage.staging + size_t(stage.index(step)) * capacity : stage.slot(step);
  return connection_->post_recv(int(stage.fifo.protocol), to, capacity, stage.memory);
}

Result<bool> NetLink::complete(Stage& stage) {
  const uint64_t first = stage.done;
  while (stage.done < stage.posted) {
    COLL_ASSIGN(const NetDone result, connection_->test(stage.requests[stage.index(stage.done)]));
    if (!result.done) break;
    if (sending()) {
      publish(stage.fifo.head, stage.done + 1, stage.fifo.producer_sleeps);
    } else {
      COLL_TRY(announce(stage, result.bytes));
    }
    ++stage.done;
  }
  return stage.done != first;
}

Status NetLink::announce(Stage& stage, uint32_t bytes) {
  const uint64_t step = stage.done;
  if (stage.is_ll()) {
    if (bytes % 8 != 0)
      return Error(ErrorCode::lost, format("{} sent {} bytes where whole lines of 8 were due",
                                           peer_text(spec_.peer), bytes));
    const size_t at = size_t(stage.index(step)) * (stage.fifo.slot_bytes / 2);
    unpack_lines(stage.staging + at, bytes / 8,
                 {stage.slot(step), stage.fifo.slot_bytes, stage.fifo.slot_count, step});
    bytes *= 2;
  }
  stage.fifo.records[stage.index(step)].bytes = bytes;
  publish(stage.fifo.tail, step + 1, stage.fifo.consumer_sleeps);
  return {};
}

// A send end moves when the block publishes; a receive end when the block frees a slot that must
// be told to the peer. Credit and data from the peer come through the descriptors.
bool NetLink::arm() {
  bool quiet = true;
  for (Stage& stage : stages_) {
    if (!stage.used()) continue;
    arm_word(sending() ? stage.fifo.consumer_sleeps : stage.fifo.producer_sleeps);
    quiet &= limit(stage) == stage.seen;
  }
  return connection_->arm() && quiet;
}

void NetLink::disarm() {
  for (Stage& stage : stages_)
    if (stage.used())
      disarm_word(sending() ? stage.fifo.consumer_sleeps : stage.fifo.producer_sleeps);
  connection_->disarm();
}

bool NetLink::drained() const {
  if (!connection_->idle() || !connection_->delivered()) return false;
  if (!sending()) return true;
  return std::all_of(std::begin(stages_), std::end(stages_), [](const Stage& stage) {
    return !stage.used() ||
           (stage.posted == stage.done && load_counter(stage.fifo.tail) == stage.posted);
  });
}

void NetLink::attach_bell(int fd) {
  for (Stage& stage : stages_)
    if (stage.used()) stage.fifo.bell_fd = fd;
  connection_->attach_bell(fd);
}

class NetEndpoint : public Endpoint {
 public:
  NetEndpoint(const NetEnd& end, const FifoLayout& layout, const Net& net, const Services& services)
      : end_(end), layout_(layout), net_(net), services_(services) {}

  Result<Bytes> describe(Deadline) override {
    const bool sends = end_.spec.direction == Direction::send;
    auto blob = sends ? net_.introduce(end_, services_) : net_.listen(end_, services_);
    if (!blob) return edge_error(end_.spec, std::move(blob.error())).within(net_.via);
    ByteWriter w;
    w.put_string(net_.name).put_bytes(*blob);
    for (const NetStream& stream : end_.streams) w.put(stream);
    return w.take();
  }

  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) override {
    Result<std::unique_ptr<Link>> link = make_link(peer_blob, deadline);
    if (!link) return edge_error(end_.spec, std::move(link.error())).within(net_.via);
    return link;
  }

 private:
  Result<std::unique_ptr<Link>> make_link(ByteView peer_blob, Deadline deadline) {
    ByteReader r(peer_blob);
    const std::string name = r.get_string(64);
    const ByteView blob = r.get_bytes(4096);
    NetStream streams[kernels::kProtocolCount];
    for (NetStream& stream : streams) stream = r.get<NetStream>();
    if (!r.ok() || !r.at_end() || name != net_.name)
      return Error(ErrorCode::lost, format("what {} sent to connect by network is malformed",
                                           peer_text(end_.spec.peer)));
    for (int p = 0; p < kernels::kProtocolCount; ++p)
      if (streams[p].window != end_.streams[p].window ||
          streams[p].max_bytes != end_.streams[p].max_bytes)
        return Error(ErrorCode::usage,
                     format("{} has {} slots of {} bytes for {}, here it is {} of {}",
                            peer_text(end_.spec.peer), streams[p].window, streams[p].max_bytes,
                            kernels::name_of(Protocol(p)), end_.streams[p].window,
                            end_.streams[p].max_bytes),
                     "BUFFSIZE, LL_BUFFSIZE and STEPS must be the same on every rank");
    const bool sends = end_.spec.direction == Direction::send;
    COLL_ASSIGN(auto connection, sends ? net_.connect(end_, services_, blob, deadline)
                                       : net_.accept(end_, services_, blob, deadline));
    auto link = std::make_unique<NetLink>(end_.spec, net_, std::move(connection));
    COLL_TRY(link->prepare(layout_, services_.device));
    return std::unique_ptr<Link>(std::move(link));
  }

  NetEnd end_;
  FifoLayout layout_;
  const Net& net_;
  Services services_;
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
  // A loopback address means something only within one network namespace of one host.
  const bool together = a.host_hash == b.host_hash && a.network_namespace == b.network_namespace;
  if (!together && (at_a.is_loopback() || at_b.is_loopback()))
    return {.ok = false,
            .why = format("{} listens at {} and {} at {}: a loopback address is not reachable "
                          "from elsewhere",
                          peer_text(a), at_a.text(), peer_text(b), at_b.text())};
  return {.ok = true, .why = {}};
}

Result<std::unique_ptr<Endpoint>> net_open(const LinkSpec& wanted, const Services& services) {
  LinkSpec spec = wanted;
  FifoGeometry& ll128 = spec.geometry[int(Protocol::ll128)];
  if (ll128.slot_bytes != 0 && spec.self.kind == DeviceKind::cpu)
    return edge_error(spec, Error(ErrorCode::unavailable,
                                  "LL128 does not travel over the network between CPU ranks",
                                  "use --proto simple or ll"));
  ll128 = {};  // GPUs have links with it where they reach each other; this one is without
  COLL_ASSIGN(const FifoLayout layout, fifo_layout(spec.geometry));
  NetEnd end{.spec = spec, .streams = {}};
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    const FifoGeometry& g = spec.geometry[p];
    const uint32_t halves = p == int(Protocol::ll) ? 2 : 1;  // the wire carries no flags
    if (g.slot_bytes != 0)
      end.streams[p] = {.window = g.slot_count, .max_bytes = g.slot_bytes / halves};
  }
  return std::unique_ptr<Endpoint>(
      std::make_unique<NetEndpoint>(end, layout, nets().front(), services));
}

}  // namespace collctl::transport
