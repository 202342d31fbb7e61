#include "transport/net/relay.h"

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/numa.h"
#include "transport/edge.h"
#include "transport/memory/offers.h"
#include "transport/memory/shared_file.h"
#include "transport/net/fifo_counters.h"

namespace collctl::transport {

using kernels::Protocol;

namespace {

// Parts of the connection's key.
constexpr uint64_t kBlock = 1, kSlots = 2, kBell = 3;

Offers<RelayMemory>& relay_offers() {
  static Offers<RelayMemory> instance;
  return instance;
}

MemoryHandle handle_of(const LinkSpec& spec, const Services& services) {
  return memory_handle(spec.self, spec.peer, services.device->facts());
}

Error malformed(const LinkSpec& spec) {
  return {ErrorCode::lost, format("PXN connection data from {} does not describe this connection",
                                  peer_text(spec.peer))};
}

class RelayedLink : public Link {
 public:
  RelayedLink(const LinkSpec& spec, std::shared_ptr<RelayMemory> memory)
      : memory_(std::move(memory)),
        why_(format("{} sends it (PXN)", peer_text(spec.peer))),
        nic_(spec.nic.name) {
    const FifoLayout& layout = memory_->layout();
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (layout.parts[p].geometry.slot_bytes == 0) continue;
      fifos_[p] = fifo_end(memory_->block(), layout, Protocol(p), spec);
      fifos_[p].flags = kernels::kFifoProxyReads;
      if (memory_->on_device().has(Protocol(p)))
        fifos_[p].slots = memory_->slots().data() + memory_->on_device().at[p];
    }
  }
  kernels::Fifo* fifo(Protocol protocol) override {
    kernels::Fifo* fifo = &fifos_[int(protocol)];
    return fifo->slots == nullptr ? nullptr : fifo;
  }
  const std::string& via() const override { return via_; }
  std::string nic() const override { return nic_; }
  std::string why() const override { return why_; }

  bool needs_progress() const override { return true; }
  Result<Progress> progress(const kernels::Fifo*) override {
    bool moved = false;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (fifos_[p].slots == nullptr) continue;
      const uint64_t published = load_counter(fifos_[p].tail);
      if (published == seen_[p]) continue;
      seen_[p] = published;
      moved = true;
      // Pairs with the relay's arm: it sees the counter, or this sees the 1.
      std::atomic_ref<uint32_t> sleeps(memory_->counters(p).consumer_sleeps);
      if (sleeps.exchange(0, std::memory_order_acq_rel) != 0) base::ring_bell(memory_->bell());
    }
    return moved ? Progress::moved : Progress::idle;
  }
  bool drained() const override {
    return std::ranges::all_of(fifos_, [](const kernels::Fifo& fifo) {
      return fifo.slots == nullptr || load_counter(fifo.head) == load_counter(fifo.tail);
    });
  }

 private:
  std::shared_ptr<RelayMemory> memory_;
  kernels::Fifo fifos_[kernels::kProtocolCount]{};
  uint64_t seen_[kernels::kProtocolCount]{};
  std::string via_ = "PXN", why_, nic_;
};

class RelayedEndpoint : public Endpoint {
 public:
  RelayedEndpoint(const LinkSpec& spec, const Services& services)
      : spec_(spec), services_(services) {}
  Result<Bytes> describe(Deadline) override { return Bytes{}; }
  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) override {
    auto memory = RelayMemory::take(spec_, services_, peer_blob, deadline);
    if (!memory) return edge_error(spec_, std::move(memory.error())).within("PXN");
    return std::unique_ptr<Link>(std::make_unique<RelayedLink>(spec_, std::move(*memory)));
  }

 private:
  LinkSpec spec_;
  Services services_;
};

}  // namespace

kernels::FifoCounters& RelayMemory::counters(int protocol) const {
  auto* at = static_cast<uint8_t*>(mapping_.get()) + layout_.parts[protocol].counters;
  return *reinterpret_cast<kernels::FifoCounters*>(at);
}

Result<std::shared_ptr<RelayMemory>> RelayMemory::make(const LinkSpec& spec,
                                                       const Services& services, bool on_device,
                                                       Deadline deadline) {
  const auto& device = services.device;
  if (device == nullptr || services.fds == nullptr)
    return Error(ErrorCode::defect, "a relay without a GPU, or without a descriptor channel");
  COLL_ASSIGN([[maybe_unused]] const bool reached, device->reaches(spec.peer));
  auto made = std::make_shared<RelayMemory>();
  if (on_device) made->on_device_ = device_slots(spec.geometry);
  const DeviceSlots& there = made->on_device_;
  COLL_ASSIGN(made->layout_, fifo_layout(spec.geometry, there.protocols));
  const size_t bytes = made->layout_.total_bytes;
  {
    const base::PreferredNode near(base::pci_numa_node(device->facts().bus_id));
    COLL_ASSIGN(made->file_, shared_file(bytes, deadline));
    COLL_ASSIGN(made->mapping_, map_shared(made->file_.get(), bytes));
    fifo_memory_init(made->mapping_.get(), made->layout_);
    COLL_ASSIGN(made->pinned_, PinnedMemory::over(device, made->mapping_.get(), bytes));
  }
  if (there.bytes != 0) {
    COLL_ASSIGN(made->slots_, DeviceMemory::make(device, there.bytes, device->facts().fd_handles));
  }
  COLL_ASSIGN(made->bell_, base::make_bell());
  return made;
}

class RelayOffer : public Endpoint {
 public:
  RelayOffer(const LinkSpec& spec, const Services& services, std::shared_ptr<RelayMemory> memory)
      : spec_(spec), services_(services), memory_(std::move(memory)) {}

  Result<Bytes> describe(Deadline deadline) override {
    auto blob = offer(deadline);
    if (!blob) return edge_error(spec_, std::move(blob.error())).within("PXN");
    return blob;
  }
  Result<std::unique_ptr<Link>> connect(ByteView, Deadline) override {
    return Error(ErrorCode::defect, "a relay's offer makes no link");
  }

 private:
  Result<Bytes> offer(Deadline deadline) {
    ByteWriter blob;
    RelayMemory& memory = *memory_;
    const MemoryHandle handle = handle_of(spec_, services_);
    blob.put(handle);
    if (handle == MemoryHandle::pointer) {
      COLL_ASSIGN(offer_, relay_offers().put(memory_));
      return blob.put(offer_.token()).take();
    }
    blob.put(memory.slots_.bytes());
    COLL_TRY(push(kBlock, memory.file_.get(), deadline));
    COLL_TRY(push(kBell, memory.bell_.get(), deadline));
    if (memory.slots_.bytes() == 0) return blob.take();
    if (handle == MemoryHandle::descriptor) {
      COLL_ASSIGN(const base::Fd fd, memory.slots_.export_fd());
      COLL_TRY(push(kSlots, fd.get(), deadline));
    } else {
      COLL_ASSIGN(const IpcName name, memory.slots_.export_ipc());
      blob.put(name);
    }
    return blob.take();
  }
  Status push(uint64_t part, int fd, Deadline deadline) const {
    return services_.fds->send_fd(spec_.peer.rank, edge_key(spec_, services_.comm_hash, part), fd,
                                  deadline);
  }

  LinkSpec spec_;
  Services services_;
  std::shared_ptr<RelayMemory> memory_;
  Offers<RelayMemory>::Offer offer_;
};

Result<std::shared_ptr<RelayMemory>> RelayMemory::take(const LinkSpec& spec,
                                                       const Services& services, ByteView blob,
                                                       Deadline deadline) {
  if (handle_of(spec, services) != MemoryHandle::pointer) {
    auto memory = std::make_shared<RelayMemory>();
    COLL_TRY(memory->import(spec, services, blob, deadline));
    return memory;
  }
  ByteReader reader(blob);
  const auto handle = reader.get<MemoryHandle>();
  const auto token = reader.get<Offers<RelayMemory>::Token>();
  if (!reader.ok() || !reader.at_end() || handle != MemoryHandle::pointer) return malformed(spec);
  std::shared_ptr<RelayMemory> memory = relay_offers().take(token);
  if (memory == nullptr)
    return Error(ErrorCode::lost,
                 format("{} offers no memory for this connection any more", peer_text(spec.peer)));
  if (memory->slots_.bytes() != 0) COLL_TRY(memory->slots_.allow(*services.device));
  return memory;
}

Status RelayMemory::import(const LinkSpec& spec, const Services& services, ByteView blob,
                           Deadline deadline) {
  ByteReader reader(blob);
  const auto handle = reader.get<MemoryHandle>();
  const auto slot_bytes = reader.get<uint64_t>();
  const bool named = handle == MemoryHandle::ipc && slot_bytes != 0;
  const IpcName name = named ? reader.get<IpcName>() : IpcName{};
  if (!reader.ok() || !reader.at_end() ||
      (handle != MemoryHandle::descriptor && handle != MemoryHandle::ipc))
    return malformed(spec);
  const auto pull = [&](uint64_t part) {
    return services.fds->recv_fd(spec.peer.rank, edge_key(spec, services.comm_hash, part),
                                 deadline);
  };
  if (slot_bytes != 0) on_device_ = device_slots(spec.geometry);
  COLL_ASSIGN(layout_, fifo_layout(spec.geometry, on_device_.protocols));
  if (slot_bytes < on_device_.bytes)
    return Error(ErrorCode::lost, format("{} offers {} bytes for slots of {}", peer_text(spec.peer),
                                         slot_bytes, on_device_.bytes));
  COLL_ASSIGN(const base::Fd file, pull(kBlock));
  COLL_ASSIGN(bell_, pull(kBell));
  COLL_ASSIGN(mapping_, map_shared(file.get(), layout_.total_bytes));
  COLL_TRY(fifo_memory_check(mapping_.get(), mapping_.size(), layout_));
  COLL_ASSIGN(pinned_, PinnedMemory::over(services.device, mapping_.get(), mapping_.size()));
  if (slot_bytes == 0) return {};
  if (named) {
    COLL_ASSIGN(slots_, DeviceMemory::import_ipc(services.device, name, slot_bytes));
    return {};
  }
  COLL_ASSIGN(const base::Fd fd, pull(kSlots));
  COLL_ASSIGN(slots_, DeviceMemory::import(services.device, fd.get(), slot_bytes));
  return {};
}

Result<std::unique_ptr<Endpoint>> offer_relay(const LinkSpec& spec, const Services& services,
                                              std::shared_ptr<RelayMemory> memory) {
  return std::unique_ptr<Endpoint>(std::make_unique<RelayOffer>(spec, services, std::move(memory)));
}

Result<std::unique_ptr<Endpoint>> open_relayed(const LinkSpec& spec, const Services& services) {
  if (services.device == nullptr || services.fds == nullptr)
    return Error(ErrorCode::defect, "a relayed link of a rank without a GPU");
  return std::unique_ptr<Endpoint>(std::make_unique<RelayedEndpoint>(spec, services));
}

}  // namespace collctl::transport
