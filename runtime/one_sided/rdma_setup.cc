// How the two ends of a pair find out whether they can be linked by RDMA, and which windows are.
#include <algorithm>
#include <atomic>

#include "base/bell.h"
#include "base/format.h"
#include "base/log.h"
#include "base/record.h"
#include "base/socket.h"
#include "runtime/one_sided/rdma.h"
#include "transport/edge.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kMostHandshakeBytes = 32768;
constexpr int64_t kHandshakeLookMs = 50;  // how late an abort is seen

// Both ends say whether they can go on, and with what, or why not.
struct RdmaHandshake {
  static constexpr const char* kRecord = "handshake";
  bool ready = false;
  Bytes body;
  std::string why;
};

void fields(Record& io, RdmaHandshake& what) {
  io.field("ready", what.ready);
  io.field("why", what.why, kMostHandshakeBytes);
  io.field("body", what.body, kMostHandshakeBytes);
}

RdmaHandshake refusing_handshake(const Error& error) {
  return {.ready = false, .body = {}, .why = error.chain().substr(0, 1000)};
}

Status send_handshake(int fd, const RdmaHandshake& what, Deadline deadline) {
  const Bytes bytes = encoded(what);
  const auto size = uint32_t(bytes.size());
  COLL_TRY(base::write_exact(fd, &size, sizeof size, deadline));
  return base::write_exact(fd, bytes.data(), bytes.size(), deadline);
}

// A peer that was connected but has failed says nothing here: the abort does.
Status await_handshake(int fd, uint32_t* abort_word, Deadline deadline) {
  while (true) {
    pollfd p{fd, POLLIN, 0};
    COLL_ASSIGN(const int ready,
                base::poll_fds({&p, 1}, deadline.earlier(Deadline::after_ms(kHandshakeLookMs))));
    if (ready > 0) return {};
    if (abort_word != nullptr &&
        std::atomic_ref<uint32_t>(*abort_word).load(std::memory_order_acquire) != 0)
      return Error(ErrorCode::lost, "stopped because the communicator was aborted");
    if (deadline.passed()) return Error(ErrorCode::deadline, "no handshake before the deadline");
  }
}

Result<RdmaHandshake> receive_handshake(int fd, uint32_t* abort_word, Deadline deadline) {
  COLL_TRY(await_handshake(fd, abort_word, deadline));
  uint32_t size = 0;
  COLL_TRY(base::read_exact(fd, &size, sizeof size, deadline));
  if (size > kMostHandshakeBytes) return Error(ErrorCode::lost, "a malformed handshake");
  Bytes bytes(size);
  COLL_TRY(base::read_exact(fd, bytes.data(), size, deadline));
  return decoded<RdmaHandshake>(bytes);
}

}  // namespace

// First all say what they have, then all whether they are connected: a link is used when both ends
// are, and nobody waits for one peer while another waits for it.
Status OneSidedRdma::shake_hands(Deadline deadline, std::map<int, std::string>& refused) {
  std::vector<transport::LinkSpec> specs;
  for (const RdmaPeer& peer : o_.peers) specs.push_back(peer.spec);
  auto opened = transport::IbOneSided::open(
      {.peers = specs,
       .services = o_.services,
       .signals = kBarrierSignal + 1,
       .on_signal = [board = o_.board](int rank, int signal, uint32_t times) {
         board->raise_here(rank, signal, times);
       }});
  if (opened) ib_ = std::move(*opened);
  std::map<int, RdmaHandshake> mine;
  const auto told = [&](const RdmaPeer& peer, Status status) {
    if (status) return Status();
    return Status(transport::edge_error(peer.spec, std::move(status.error())));
  };
  for (const RdmaPeer& peer : o_.peers) {
    const int rank = peer.spec.peer.rank;
    RdmaHandshake& own = mine[rank];
    auto described = opened ? ib_->describe(rank) : Result<Bytes>(Error(opened.error()));
    own = described ? RdmaHandshake{.ready = true, .body = std::move(*described), .why = {}}
                    : refusing_handshake(described.error());
    COLL_TRY(told(peer, send_handshake(peer.control.get(), own, deadline)));
  }
  for (const RdmaPeer& peer : o_.peers) {
    const int rank = peer.spec.peer.rank;
    RdmaHandshake& own = mine[rank];
    auto theirs = receive_handshake(peer.control.get(), o_.services.abort_word, deadline);
    if (!theirs) return told(peer, std::move(theirs.error()));
    if (!own.ready || !theirs->ready) {
      const std::string name = transport::peer_text(own.ready ? peer.spec.peer : peer.spec.self);
      refused[rank] = format("{}: {}", name, own.ready ? theirs->why : own.why);
      own.ready = false;
      continue;
    }
    own.body.clear();
    if (Status connected = ib_->connect(rank, theirs->body, deadline); !connected)
      own = refusing_handshake(connected.error());
  }
  for (const RdmaPeer& peer : o_.peers)
    if (!refused.contains(peer.spec.peer.rank))
      COLL_TRY(told(peer, send_handshake(peer.control.get(), mine[peer.spec.peer.rank], deadline)));
  for (RdmaPeer& peer : o_.peers) {
    const int rank = peer.spec.peer.rank;
    if (!refused.contains(rank)) {
      auto theirs = receive_handshake(peer.control.get(), o_.services.abort_word, deadline);
      if (!theirs) return told(peer, std::move(theirs.error()));
      if (!mine[rank].ready) refused[rank] = mine[rank].why;
      if (mine[rank].ready && !theirs->ready) refused[rank] = theirs->why;
    }
    if (!refused.contains(rank))
      ib_->adopt(rank, std::move(peer.control));
    else if (ib_ != nullptr)
      ib_->drop(rank);
  }
  return {};
}

bool OneSidedRdma::links(int peer) const {
  const std::lock_guard lock(mutex_);
  return ib_ != nullptr && ib_->link(peer) != nullptr;
}

std::string OneSidedRdma::via(int peer) const {
  const std::lock_guard lock(mutex_);
  return ib_->link(peer)->via();
}

bool OneSidedRdma::reaches(int peer, uint64_t window) const {
  const std::lock_guard lock(mutex_);
  const Link* const link = ib_ != nullptr ? ib_->link(peer) : nullptr;
  if (link == nullptr) return false;
  const transport::IbRemoteWindow* const there = link->window(window);
  return there != nullptr && !there->keys.empty();
}

std::string OneSidedRdma::refused_by(int peer) const {
  const std::lock_guard lock(mutex_);
  const Link* const link = ib_ != nullptr ? ib_->link(peer) : nullptr;
  return link == nullptr ? "" : link->refused_window();
}

Status OneSidedRdma::share(std::span<const Shared> windows, const WaitLimit& limit) {
  Lock lock(mutex_);
  if (ib_ == nullptr) return {};
  std::vector<Link::LocalWindow> local;
  for (const Shared& each : windows) {
    local.push_back(ib_->admit(each.number, each.window, each.pages));
    if (local.back().memory == nullptr)
      COLL_INFO(net, "NET/IB : window {} is not usable for RDMA: {}", each.number,
                local.back().why);
  }
  ++rounds_;
  for (const auto& [peer, link] : ib_->links()) link->tell_windows(local);
  base::ring_bell(bell_.get());  // for what the sockets have not taken at once
  Status first;
  for (const auto& [peer, link] : ib_->links()) {
    Status shared = wait_for(lock, *link, "sharing windows", limit,
                             [&, &l = *link] { return l.rounds() >= rounds_; });
    // A link that is gone is an error of who uses it.
    if (!shared && first && shared.error().code == ErrorCode::deadline) first = std::move(shared);
  }
  return first;
}

void OneSidedRdma::forget(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (ib_ == nullptr) return;
  for (const auto& [peer, link] : ib_->links()) link->forget(number);
}

void OneSidedRdma::dismiss(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (ib_ != nullptr) ib_->dismiss(number);
}

}  // namespace collctl::runtime
