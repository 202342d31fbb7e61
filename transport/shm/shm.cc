#include "transport/shm/shm.h"

#include "base/format.h"
#include "base/host_facts.h"
#include "base/numa.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/memory/fifo_memory.h"
#include "transport/memory/shared_file.h"

namespace collctl::transport {

namespace {

// This end's view of the shared memory; pinned for a GPU.
struct ShmBlock {
  explicit ShmBlock(base::Mapping m) : mapping(std::move(m)) {}
  base::Mapping mapping;
  PinnedMemory pinned;
};

class ShmEndpoint : public Endpoint {
 public:
  ShmEndpoint(const LinkSpec& spec, const FifoLayout& layout, const Services& services)
      : spec_(spec),
        layout_(layout),
        fds_(services.fds),
        device_(services.device),
        tag_(edge_key(spec, services.comm_hash, 0)) {}

  Result<Bytes> describe(Deadline deadline) override {
    ByteWriter blob;
    blob.put(tag_).put(uint64_t(layout_.total_bytes));
    if (spec_.direction == Direction::recv) {
      lending_ = try_lending(spec_);
      put_lending(blob, lending_);
      if (Status made = make_memory(deadline); !made)
        return edge_error(spec_, std::move(made.error())).within("SHM");
    }
    return blob.take();
  }

  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) override {
    ByteReader reader(peer_blob);
    const auto tag = reader.get<uint64_t>();
    const auto bytes = reader.get<uint64_t>();
    if (spec_.direction == Direction::send) lending_ = get_lending(reader);
    if (!reader.ok() || !reader.at_end() || tag != tag_)
      return edge_error(spec_,
                        Error(ErrorCode::lost, format("shared-memory connection data from {} "
                                                      "does not describe this connection",
                                                      peer_text(spec_.peer))));
    if (bytes != layout_.total_bytes)
      return edge_error(spec_,
                        Error(ErrorCode::usage,
                              format("{} uses {} bytes of shared memory, this rank {}",
                                     peer_text(spec_.peer), bytes, layout_.total_bytes),
                              "BUFFSIZE, LL_BUFFSIZE and STEPS must be the same on every rank"));
    if (spec_.direction == Direction::send) {
      if (Status taken = take_memory(deadline); !taken)
        return edge_error(spec_, std::move(taken.error())).within("SHM");
    }
    if (memory_ == nullptr)
      return Error(ErrorCode::defect, "connect before describe on a receiving end");
    void* block = memory_->mapping.get();
    return std::unique_ptr<Link>(
        std::make_unique<MemoryLink>(block, layout_, spec_, "SHM", memory_, lending_));
  }

 private:
  Status make_memory(Deadline deadline) {
    // The pages of a GPU's memory lie near the one that reads them.
    const base::PreferredNode node(device_ != nullptr ? base::pci_numa_node(device_->facts().bus_id)
                                                      : -1);
    COLL_ASSIGN(const base::Fd fd, shared_file(layout_.total_bytes, deadline));
    COLL_ASSIGN(base::Mapping mapping, map_shared(fd.get(), layout_.total_bytes));
    fifo_memory_init(mapping.get(), layout_);
    COLL_TRY(keep(std::move(mapping)));
    return fds_->send_fd(spec_.peer.rank, tag_, fd.get(), deadline);
  }

  Status take_memory(Deadline deadline) {
    COLL_ASSIGN(const base::Fd fd, fds_->recv_fd(spec_.peer.rank, tag_, deadline));
    auto mapping = map_shared(fd.get(), layout_.total_bytes);
    if (!mapping) return std::move(mapping.error()).within(peer_text(spec_.peer));
    COLL_TRY(fifo_memory_check(mapping->get(), mapping->size(), layout_));
    return keep(std::move(*mapping));
  }

  Status keep(base::Mapping mapping) {
    memory_ = std::make_shared<ShmBlock>(std::move(mapping));
    if (device_ == nullptr) return {};
    auto pinned = PinnedMemory::over(device_, memory_->mapping.get(), memory_->mapping.size());
    if (!pinned) return own_error(spec_, std::move(pinned.error()));
    memory_->pinned = std::move(*pinned);
    return {};
  }

  LinkSpec spec_;
  FifoLayout layout_;
  FdExchange* fds_;
  std::shared_ptr<Device> device_;
  uint64_t tag_;
  Lending lending_;
  std::shared_ptr<ShmBlock> memory_;
};

}  // namespace

// The receiver pushes its memory to the sender.
Status shm_decline(const LinkSpec& spec, const Services& services, ByteView, Deadline deadline) {
  if (spec.direction == Direction::recv || services.fds == nullptr) return {};
  COLL_ASSIGN(
      const base::Fd dropped,
      services.fds->recv_fd(spec.peer.rank, edge_key(spec, services.comm_hash, 0), deadline));
  return {};
}

Reach shm_reach(const PeerInfo& a, const PeerInfo& b) {
  if (a.host_hash != b.host_hash)
    return {.ok = false,
            .why = format("{} and {} are on different hosts", peer_text(a), peer_text(b))};
  if (a.shm_device == 0 || b.shm_device == 0)
    return {.ok = false, .why = format("{} has no /dev/shm", peer_text(a.shm_device == 0 ? a : b))};
  if (a.shm_device != b.shm_device)
    return {.ok = false,
            .why = format("{} and {} see different /dev/shm (devices {:#x} and {:#x}; separate "
                          "containers)",
                          peer_text(a), peer_text(b), a.shm_device, b.shm_device)};
  if (a.network_namespace != b.network_namespace)
    return {.ok = false,
            .why = format("{} and {} are in different network namespaces ({} and {}), where "
                          "descriptors cannot be passed",
                          peer_text(a), peer_text(b), a.network_namespace, b.network_namespace)};
  return {.ok = true, .why = {}};
}

Result<std::unique_ptr<Endpoint>> shm_open_endpoint(const LinkSpec& spec,
                                                    const Services& services) {
  if (services.fds == nullptr)
    return edge_error(spec, Error(ErrorCode::unavailable,
                                  "shared memory needs a descriptor channel, and this "
                                  "communicator has none"));
  COLL_ASSIGN(const FifoLayout layout, fifo_layout(spec.geometry));
  return std::unique_ptr<Endpoint>(std::make_unique<ShmEndpoint>(spec, layout, services));
}

}  // namespace collctl::transport
