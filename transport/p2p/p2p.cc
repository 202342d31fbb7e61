#include "transport/p2p/p2p.h"

#include <algorithm>

#include "base/format.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/memory/fifo_memory.h"
#include "transport/memory/offers.h"
#include "transport/p2p/head_pages.h"

namespace collctl::transport {

namespace {

using kernels::Protocol;

// By what the other end gets at an end's memory.
const char* via_text(MemoryHandle handle) {
  switch (handle) {
    case MemoryHandle::pointer:
      return "P2P/direct pointer";
    case MemoryHandle::descriptor:
      return "P2P/CUMEM";
    default:
      return "P2P/IPC";
  }
}

// Both ends' blocks. The sender's holds the heads, and Simple's slots in read mode.
struct Shape {
  FifoLayout receiver;
  size_t sender_slots = 0, sender_bytes = 0;
  size_t bytes_of(Direction direction) const {
    return direction == Direction::recv ? receiver.total_bytes : sender_bytes;
  }
};

constexpr size_t kSlotsAlign = 4096;

Result<Shape> shape_of(const LinkSpec& spec) {
  Shape shape;
  COLL_ASSIGN(shape.receiver,
              fifo_layout(spec.geometry, spec.p2p_read ? protocol_bit(Protocol::simple) : 0));
  shape.sender_bytes = kernels::kProtocolCount * sizeof(kernels::FifoCounters);
  const FifoGeometry& simple = spec.geometry[int(Protocol::simple)];
  if (spec.p2p_read && simple.slot_bytes != 0) {
    shape.sender_slots = kSlotsAlign;
    shape.sender_bytes = kSlotsAlign + size_t(simple.slot_bytes) * simple.slot_count;
  }
  return shape;
}

using Memory = DeviceMemory;

Offers<Memory>& memory_offers() {
  static Offers<Memory> instance;
  return instance;
}

// One end's block in memory that others may have a part of.
struct P2pBlock {
  std::shared_ptr<Memory> memory;
  uint64_t page_id = 0;  // 0: all of the memory is this block's
  uint64_t offset = 0;
  uint8_t* data() const { return memory->data() + offset; }
};

// One end's fifos over both blocks.
class P2pLink : public Link {
 public:
  P2pLink(const LinkSpec& spec, const Shape& shape, MemoryHandle handle, P2pBlock own,
          P2pBlock peers, Offers<Memory>::Offer offer)
      : via_(via_text(handle)),
        own_(std::move(own)),
        peers_(std::move(peers)),
        offer_(std::move(offer)) {
    if (spec.p2p_read) via_ += "/read";
    const bool sends = spec.direction == Direction::send;
    uint8_t* receiver = (sends ? peers_ : own_).data();
    uint8_t* sender = (sends ? own_ : peers_).data();
    auto* counters = reinterpret_cast<kernels::FifoCounters*>(sender);
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (spec.geometry[p].slot_bytes == 0) continue;
      fifos_[p] = fifo_end(receiver, shape.receiver, Protocol(p), spec);
      fifos_[p].head = &counters[p].head;
      if (spec.p2p_read && p == int(Protocol::simple))
        fifos_[p].slots = sender + shape.sender_slots;
    }
  }
  kernels::Fifo* fifo(Protocol protocol) override {
    kernels::Fifo* fifo = &fifos_[int(protocol)];
    return fifo->slots == nullptr ? nullptr : fifo;
  }
  const std::string& via() const override { return via_; }
  uint64_t device_bytes() const override {
    return own_.offset == 0 ? own_.memory->held_bytes() : 0;  // a page counts once
  }

 private:
  kernels::Fifo fifos_[kernels::kProtocolCount]{};
  std::string via_;
  P2pBlock own_, peers_;
  Offers<Memory>::Offer offer_;  // the peer may fetch it after this end is connected
};

Direction other_end(const LinkSpec& spec) {
  return spec.direction == Direction::send ? Direction::recv : Direction::send;
}

// One tag for each direction in which a descriptor travels.
uint64_t fd_tag(const LinkSpec& spec, uint64_t comm_hash, Direction from) {
  return edge_key(spec, comm_hash, from == Direction::send ? 1 : 2);
}

class P2pEndpoint : public Endpoint {
 public:
  P2pEndpoint(const LinkSpec& spec, const Shape& shape, const Services& services)
      : spec_(spec),
        shape_(shape),
        device_(services.device),
        fds_(services.fds),
        comm_hash_(services.comm_hash) {
    handle_ = memory_handle(spec.self, spec.peer, device_->facts());
  }

  Result<Bytes> describe(Deadline deadline) override {
    auto blob = offer(deadline);
    if (!blob) return edge_error(spec_, std::move(blob.error())).within("P2P");
    return blob;
  }

  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) override {
    Result<P2pBlock> peers = take(peer_blob, deadline);
    if (!peers) return edge_error(spec_, std::move(peers.error())).within("P2P");
    if (own_.memory == nullptr) return Error(ErrorCode::defect, "connect before describe");
    return std::unique_ptr<Link>(std::make_unique<P2pLink>(
        spec_, shape_, handle_, own_, std::move(peers).value(), std::move(offer_)));
  }

 private:
  Direction other_direction() const { return other_end(spec_); }
  uint64_t tag(Direction from) const { return fd_tag(spec_, comm_hash_, from); }

  Status make() {
    const size_t bytes = shape_.bytes_of(spec_.direction);
    if (spec_.direction == Direction::send && shape_.sender_slots == 0) {
      COLL_ASSIGN(HeadPlace place, take_heads(device_, bytes));
      own_ = {std::move(place.page), place.page_id, place.offset};
      return {};
    }
    COLL_ASSIGN(Memory made, Memory::make(device_, bytes, device_->facts().fd_handles));
    own_ = {.memory = std::make_shared<Memory>(std::move(made))};
    return {};
  }

  Result<Bytes> offer(Deadline deadline) {
    if (Status made = make(); !made) return own_error(spec_, std::move(made.error()));
    ByteWriter blob;
    blob.put(handle_).put(uint8_t(spec_.p2p_read)).put(own_.memory->bytes());
    blob.put(own_.page_id).put(own_.offset);
    for (const FifoGeometry& geometry : spec_.geometry) blob.put(geometry);
    if (handle_ == MemoryHandle::pointer) {
      COLL_ASSIGN(offer_, memory_offers().put(own_.memory));
      blob.put(offer_.token());
    } else if (handle_ == MemoryHandle::descriptor) {
      COLL_ASSIGN(const base::Fd fd, own_.memory->export_fd());
      COLL_TRY(fds_->send_fd(spec_.peer.rank, tag(spec_.direction), fd.get(), deadline));
    } else {
      COLL_ASSIGN(const IpcName name, own_.memory->export_ipc());
      blob.put_bytes(name.bytes);
    }
    return blob.take();
  }

  // The peer's description of its block.
  struct PeerBlob {
    MemoryHandle handle{};
    bool read = false;
    uint64_t bytes = 0, page_id = 0, offset = 0;
    FifoGeometry geometry[kernels::kProtocolCount];
    Offers<Memory>::Token token{};
    IpcName name{};
  };

  Result<PeerBlob> read_blob(ByteView blob) const {
    ByteReader reader(blob);
    PeerBlob peer;
    peer.handle = reader.get<MemoryHandle>();
    peer.read = reader.get<uint8_t>() != 0;
    peer.bytes = reader.get<uint64_t>();
    peer.page_id = reader.get<uint64_t>();
    peer.offset = reader.get<uint64_t>();
    for (FifoGeometry& g : peer.geometry) g = reader.get<FifoGeometry>();
    if (peer.handle == MemoryHandle::pointer) peer.token = reader.get<Offers<Memory>::Token>();
    if (peer.handle == MemoryHandle::ipc) {
      const ByteView text = reader.get_bytes(sizeof peer.name.bytes);
      std::copy(text.begin(), text.end(), peer.name.bytes);
    }
    if (!reader.ok() || !reader.at_end() || peer.handle != handle_)
      return Error(ErrorCode::lost, format("P2P connection data from {} does not describe this "
                                           "connection",
                                           peer_text(spec_.peer)));
    return peer;
  }

  // The peer's block as this end's kernels see it.
  Result<P2pBlock> take(ByteView peer_blob, Deadline deadline) {
    COLL_ASSIGN(const PeerBlob peer, read_blob(peer_blob));
    COLL_TRY(agree(peer));
    P2pBlock block{.memory = nullptr, .page_id = peer.page_id, .offset = peer.offset};
    COLL_ASSIGN(block.memory, take_memory(peer, deadline));
    return block;
  }

  Result<std::shared_ptr<Memory>> take_memory(const PeerBlob& peer, Deadline deadline) {
    if (peer.handle == MemoryHandle::pointer) return take_pointer(peer);
    base::Fd fd;  // was sent for this link, whether it is needed or not
    if (peer.handle == MemoryHandle::descriptor) {
      COLL_ASSIGN(fd, fds_->recv_fd(spec_.peer.rank, tag(other_direction()), deadline));
    }
    if (peer.page_id != 0)
      if (auto known = find_mapped(*device_, peer.page_id);
          known != nullptr && known->bytes() == peer.bytes)
        return known;
    Result<Memory> mapped = peer.handle == MemoryHandle::descriptor
                                ? Memory::import(device_, fd.get(), peer.bytes)
                                : Memory::import_ipc(device_, peer.name, peer.bytes);
    if (!mapped) return no_access(std::move(mapped.error()));
    auto memory = std::make_shared<Memory>(std::move(mapped).value());
    if (peer.page_id != 0) remember_mapped(*device_, peer.page_id, memory);
    return memory;
  }

  Status agree(const PeerBlob& peer) const {
    if (peer.read != spec_.p2p_read)
      return Error(ErrorCode::usage,
                   format("{} wants GPUs to {}, this rank to {}", peer_text(spec_.peer),
                          peer.read ? "read" : "write", spec_.p2p_read ? "read" : "write"),
                   "P2P_READ (--p2p) must be the same on every rank");
    for (int p = 0; p < kernels::kProtocolCount; ++p)
      if (peer.geometry[p].slot_bytes != spec_.geometry[p].slot_bytes ||
          peer.geometry[p].slot_count != spec_.geometry[p].slot_count)
        return Error(ErrorCode::usage,
                     format("{} has {} slots of {} bytes for {}, this rank has {} of {}",
                            peer_text(spec_.peer), peer.geometry[p].slot_count,
                            peer.geometry[p].slot_bytes, kernels::name_of(Protocol(p)),
                            spec_.geometry[p].slot_count, spec_.geometry[p].slot_bytes),
                     "BUFFSIZE, LL_BUFFSIZE and STEPS must be the same on every rank");
    const uint64_t wanted = shape_.bytes_of(other_direction());
    if (peer.bytes < wanted || peer.offset > peer.bytes - wanted ||
        peer.offset % alignof(kernels::FifoCounters) != 0)
      return Error(ErrorCode::lost, format("{} offers {} bytes at {}, but {} were agreed",
                                           peer_text(spec_.peer), peer.bytes, peer.offset, wanted));
    return {};
  }

  Result<std::shared_ptr<Memory>> take_pointer(const PeerBlob& peer) {
    std::shared_ptr<Memory> memory = memory_offers().take(peer.token);
    if (memory == nullptr || memory->bytes() != peer.bytes)
      return Error(
          ErrorCode::lost,
          format("{} offers no memory for this connection any more (closed, or taken already)",
                 peer_text(spec_.peer)));
    if (Status allowed = memory->allow(*device_); !allowed)
      return no_access(std::move(allowed.error()));
    return memory;
  }

  // The error for the peer's memory, unless this GPU has broken.
  Error no_access(Error error) const {
    if (error.code == ErrorCode::lost) return own_error(spec_, std::move(error));
    if (error.hint.empty())
      error.hint = format(
          "{} cannot map the memory of GPU {} of {}: check the NVLinks and PCI "
          "Express ACS between them (nvidia-smi topo -p2p rw), MIG, and which GPUs "
          "their containers show; --transport shm or net works without",
          device_->text(), spec_.peer.device, peer_text(spec_.peer));
    return error;
  }

  LinkSpec spec_;
  Shape shape_;
  std::shared_ptr<Device> device_;
  FdExchange* fds_;
  uint64_t comm_hash_;
  MemoryHandle handle_;
  P2pBlock own_;
  Offers<Memory>::Offer offer_;
};

}  // namespace

Status p2p_decline(const LinkSpec& spec, const Services& services, ByteView peer_blob,
                   Deadline deadline) {
  if (ByteReader(peer_blob).get<MemoryHandle>() != MemoryHandle::descriptor ||
      services.fds == nullptr)
    return {};
  COLL_ASSIGN(const base::Fd dropped,
              services.fds->recv_fd(spec.peer.rank,
                                    fd_tag(spec, services.comm_hash, other_end(spec)), deadline));
  return {};
}

Reach p2p_reach(const PeerInfo& a, const PeerInfo& b) {
  for (const PeerInfo* rank : {&a, &b})
    if (rank->kind != DeviceKind::cuda)
      return {.ok = false, .why = format("{} is a CPU rank", peer_text(*rank))};
  if (a.host_hash != b.host_hash)
    return {.ok = false,
            .why = format("{} and {} are on different hosts", peer_text(a), peer_text(b))};
  if (a.process_hash != b.process_hash && a.network_namespace != b.network_namespace)
    return {.ok = false,
            .why = format("{} and {} are in different network namespaces ({} and {}), where "
                          "descriptors cannot be passed",
                          peer_text(a), peer_text(b), a.network_namespace, b.network_namespace)};
  if (a.process_hash != b.process_hash && a.shm_device != b.shm_device)
    return {.ok = false,
            .why = format("{} and {} see different /dev/shm, where descriptors are passed "
                          "(separate containers)",
                          peer_text(a), peer_text(b))};
  return {.ok = true, .why = {}};
}

Result<std::unique_ptr<Endpoint>> p2p_open(const LinkSpec& spec, const Services& services) {
  if (services.device == nullptr)
    return edge_error(spec, Error(ErrorCode::defect, "P2P of a rank without a GPU"));
  if (services.fds == nullptr && spec.self.process_hash != spec.peer.process_hash)
    return edge_error(spec, Error(ErrorCode::unavailable,
                                  "P2P needs a descriptor channel, and this communicator has "
                                  "none"));
  if (auto reaches = services.device->reaches(spec.peer); !reaches)
    return edge_error(spec, std::move(reaches.error())).within("P2P");
  COLL_ASSIGN(const Shape shape, shape_of(spec));
  return std::unique_ptr<Endpoint>(std::make_unique<P2pEndpoint>(spec, shape, services));
}

}  // namespace collctl::transport
