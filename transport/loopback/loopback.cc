#include "transport/loopback/loopback.h"

#include "base/format.h"
#include "transport/edge.h"
#include "transport/memory/fifo_memory.h"
#include "transport/memory/offers.h"

namespace collctl::transport {

namespace {

struct Shared {  // a block and who it is for
  base::Mapping memory;
  uint64_t key = 0;
};

Offers<Shared>& loopback_offers() {
  static Offers<Shared> instance;
  return instance;
}

class LoopbackEndpoint : public Endpoint {
 public:
  LoopbackEndpoint(const LinkSpec& spec, const FifoLayout& layout, uint64_t key)
      : spec_(spec), layout_(layout), key_(key) {}

  Result<Bytes> describe(Deadline) override {
    ByteWriter blob;
    blob.put(spec_.self.process_hash);
    if (spec_.direction == Direction::recv) {
      shared_ = std::make_shared<Shared>();
      shared_->key = key_;
      COLL_ASSIGN(shared_->memory, private_fifo_memory(layout_));
      COLL_ASSIGN(offer_, loopback_offers().put(shared_));
      lending_ = try_lending(spec_);
      blob.put(offer_.token());
      put_lending(blob, lending_);
    }
    return blob.take();
  }

  Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline) override {
    ByteReader reader(peer_blob);
    const auto process = reader.get<uint64_t>();
    Offers<Shared>::Token token{};
    if (spec_.direction == Direction::send) {
      token = reader.get<Offers<Shared>::Token>();
      lending_ = get_lending(reader);
    }
    if (!reader.ok() || !reader.at_end() || process != spec_.self.process_hash)
      return edge_error(spec_, Error(ErrorCode::lost, format("connection data from {} for a direct "
                                                             "pointer is not from this process",
                                                             peer_text(spec_.peer))));
    if (spec_.direction == Direction::send) {
      shared_ = loopback_offers().take(token);
      if (shared_ == nullptr || shared_->key != key_)
        return edge_error(
            spec_, Error(ErrorCode::lost, format("{} offers no memory for this connection (closed, "
                                                 "or taken already)",
                                                 peer_text(spec_.peer))));
      if (Status checked =
              fifo_memory_check(shared_->memory.get(), shared_->memory.size(), layout_);
          !checked)
        return edge_error(spec_, std::move(checked.error()));
    }
    if (shared_ == nullptr)
      return Error(ErrorCode::defect, "connect before describe on a receiving end");
    void* block = shared_->memory.get();
    return std::unique_ptr<Link>(std::make_unique<MemoryLink>(
        block, layout_, spec_, "P2P/direct pointer", shared_, lending_));
  }

 private:
  LinkSpec spec_;
  FifoLayout layout_;
  uint64_t key_;
  Lending lending_;
  std::shared_ptr<Shared> shared_;
  Offers<Shared>::Offer offer_;  // until the sender came
};

}  // namespace

Reach loopback_reach(const PeerInfo& a, const PeerInfo& b) {
  for (const PeerInfo* rank : {&a, &b})
    if (rank->kind != DeviceKind::cpu)
      return {.ok = false, .why = format("{} is a GPU rank", peer_text(*rank))};
  if (a.process_hash == b.process_hash) return {.ok = true, .why = {}};
  return {.ok = false,
          .why = format("rank {} (pid {}) and rank {} (pid {}) are different processes", a.rank,
                        a.pid, b.rank, b.pid)};
}

Result<std::unique_ptr<Endpoint>> loopback_open(const LinkSpec& spec, const Services& services) {
  COLL_ASSIGN(const FifoLayout layout, fifo_layout(spec.geometry));
  return std::unique_ptr<Endpoint>(
      std::make_unique<LoopbackEndpoint>(spec, layout, edge_key(spec, services.comm_hash, 0)));
}

}  // namespace collctl::transport
