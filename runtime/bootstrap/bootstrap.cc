#include "runtime/bootstrap/bootstrap.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/format.h"
#include "runtime/bootstrap/state.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// Copies fixed-size blocks; a rank with another size is named. `index_of` gives the block's place.
template <class IndexOf>
auto into_blocks(void* data, size_t bytes, const std::string& what, IndexOf index_of) {
  return [=](int of, ByteView block) -> Status {
    if (block.size() != bytes)
      return Error(ErrorCode::defect,
                   format("{}: rank {} gathers blocks of {} bytes, others blocks of {}", what, of,
                          block.size(), bytes),
                   "this happens when ranks were started with different commands")
          .blame(of);
    uint8_t* to = static_cast<uint8_t*>(data) + index_of(of) * bytes;
    if (to != block.data() && bytes > 0) std::memcpy(to, block.data(), bytes);
    return {};
  };
}

}  // namespace

Bootstrap::Bootstrap() = default;
Bootstrap::~Bootstrap() = default;

Bootstrap::State::~State() {
  // Neighbours learn why this rank aborts, not only that it is gone.
  if (waiting.service() != nullptr && gathering.broken() && !finished)
    waiting.service()->announce(*gathering.broken());
}

int Bootstrap::rank() const {
  return state_->roster.rank;
}

int Bootstrap::size() const {
  return state_->roster.size;
}

const PhaseTimes& Bootstrap::times() const {
  return state_->times;
}

void Bootstrap::cancel() {
  if (Service* const service = state_->waiting.service()) service->cancel();
}

Status Bootstrap::all_gather(void* data, size_t bytes, Deadline deadline) {
  const std::string what = "bootstrap: all-gather";
  const ByteView mine(static_cast<const uint8_t*>(data) + size_t(rank()) * bytes, bytes);
  return state_->gathering.gather(
      mine, deadline, what, into_blocks(data, bytes, what, [](int of) { return size_t(of); }));
}

Result<std::vector<Bytes>> Bootstrap::all_gather_blobs(ByteView mine, Deadline deadline) {
  std::vector<Bytes> blobs;
  blobs.resize(size_t(size()));
  COLL_TRY(state_->gathering.gather(mine, deadline, "bootstrap: all-gather",
                                    [&](int of, ByteView bytes) -> Status {
                                      blobs[size_t(of)].assign(bytes.begin(), bytes.end());
                                      return {};
                                    }));
  return blobs;
}

Status Bootstrap::barrier(Deadline deadline) {
  return state_->gathering.gather({}, deadline, "bootstrap: barrier", nullptr);
}

Status Bootstrap::local_all_gather(void* data, size_t bytes, Deadline deadline) {
  const std::string what = "bootstrap: node-local all-gather";
  if (state_->gathering.broken()) return *state_->gathering.broken();
  const std::vector<int>& local = state_->messages.local_ranks();
  const auto index_of = [&local](int of) {
    return size_t(std::lower_bound(local.begin(), local.end(), of) - local.begin());
  };
  const ByteView mine(static_cast<const uint8_t*>(data) + index_of(rank()) * bytes, bytes);
  return state_->messages.local_gather(mine, deadline, what,
                                       into_blocks(data, bytes, what, index_of));
}

Status Bootstrap::local_barrier(Deadline deadline) {
  if (state_->gathering.broken()) return *state_->gathering.broken();
  return state_->messages.local_gather({}, deadline, "bootstrap: node-local barrier", nullptr);
}

void Bootstrap::wait_by(base::WaitPolicy* policy) {
  state_->waiting.wait_by(policy);
}

void Bootstrap::set_local_ranks(std::vector<int> members) {
  COLL_CHECK(std::is_sorted(members.begin(), members.end()));
  COLL_CHECK(std::binary_search(members.begin(), members.end(), rank()));
  state_->messages.set_local_ranks(std::move(members));
}

Status Bootstrap::send(int peer, uint32_t tag, ByteView data, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < size());
  const std::string what = "bootstrap: send to " + state_->roster.name(peer);
  if (data.size() > kMaxBlob)
    return Error(ErrorCode::usage,
                 format("{}: {} bytes, the limit is {}", what, data.size(), kMaxBlob));
  return state_->messages.send(peer, tag, data, deadline, what);
}

Result<Bytes> Bootstrap::recv(int peer, uint32_t tag, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < size());
  return state_->messages.recv(peer, tag, deadline,
                               format("bootstrap: receive from {}", state_->roster.name(peer)));
}

Status Bootstrap::send_fd(int peer, uint64_t tag, int fd, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < size());
  if (Status seen = state_->waiting.news(); !seen) return std::move(seen.error());
  Status sent = state_->fd_socket->send(peer, state_->roster.members[size_t(peer)].fd_socket, tag,
                                        fd, deadline);
  if (sent) return {};
  Error e = std::move(sent.error());
  // A refused Unix connection is how a dead peer looks from here; the ring knows which it is.
  if (e.code == ErrorCode::lost) return state_->waiting.lost(peer, "bootstrap: send descriptor", e);
  return std::move(e.within("bootstrap: send descriptor"));
}

std::unique_ptr<transport::FdExchange> Bootstrap::fd_sender() const {
  class Sender : public transport::FdExchange {
   public:
    explicit Sender(const State& state) : state_(state) {}
    // The state read here does not change once the ranks have joined.
    Status send_fd(int peer, uint64_t tag, int fd, Deadline deadline) override {
      const auto& to = state_.roster.members[size_t(peer)].fd_socket;
      COLL_TRY_IN(state_.fd_socket->send(peer, to, tag, fd, deadline),
                  "bootstrap: send descriptor");
      return {};
    }
    Result<Fd> recv_fd(int, uint64_t, Deadline) override {
      return Error(ErrorCode::defect, "this end only sends descriptors");
    }

   private:
    const State& state_;
  };
  return std::make_unique<Sender>(*state_);
}

Result<Fd> Bootstrap::recv_fd(int peer, uint64_t tag, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < size());
  State& s = *state_;
  const std::string what = "bootstrap: receive descriptor from " + s.roster.name(peer);
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY_IN(s.fd_socket->receive(), what);
    if (Fd fd = s.fd_socket->take(peer, tag)) return fd;
    COLL_TRY_IN(s.waiting.news(), what);
    fds.clear();
    s.waiting.add_interest(fds);
    s.fd_socket->add_interest(fds);
    COLL_ASSIGN(const int ready, base::poll_fds(fds, deadline));
    if (ready == 0) return s.waiting.late({}, what, peer);
  }
}

Status Bootstrap::start_watch(std::function<void(const AbortNotice&)> on_event) {
  if (Service* const service = state_->waiting.service()) service->watch(std::move(on_event));
  return {};
}

Error Bootstrap::AbortNotice::as_heard_by(int rank) const {
  Error heard = error;
  if (heard.rank < 0) heard.rank = origin;
  if (heard.from < 0) heard.from = origin;
  const std::string who = format("rank {} aborted", origin);
  if (origin >= 0 && origin != rank && !heard.has_said(who)) heard.within(who);
  return heard;
}

std::optional<Error> Bootstrap::cannot_reach() const {
  return state_->waiting.cannot_reach();
}

void Bootstrap::announce_abort(const Error& error) {
  if (Service* const service = state_->waiting.service()) service->announce(error);
}

Status Bootstrap::finish(Deadline deadline) {
  Service* const service = state_->waiting.service();
  if (state_->finished || service == nullptr) {
    state_->finished = true;
    return {};
  }
  COLL_TRY_IN(barrier(deadline), "finish");
  state_->finished = true;
  service->say_bye();
  // All ranks are through the barrier: the neighbours' byes are in flight. Without them their
  // connections would still be open here, and closing ours could cut theirs short.
  while (!service->byes_received()) {
    service->clear_news();
    if (service->byes_received()) break;
    pollfd p{service->wake_fd(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0)
      return Error(ErrorCode::deadline,
                   format("rank {}: a ring neighbour did not say goodbye", rank()));
  }
  return {};
}

}  // namespace collctl::runtime
