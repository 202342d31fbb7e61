#include "cmd/rails/path.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/wait.h"

namespace collctl::runtime {

namespace {

using transport::kNoRequest;
using transport::NetDone;
using transport::NetRequest;

constexpr int64_t kRailLookMs = 20;  // a path whose descriptors stay quiet is looked at so often
constexpr uint32_t kLeastMessages = 2 * RailPath::kWindow;  // of a measurement

Error silent() {
  return {ErrorCode::deadline, "nothing arrived before the deadline"};
}

}  // namespace

RailEnd rail_end_of(const Error& error, RailEnd when_late) {
  if (error.code == ErrorCode::deadline) return when_late;
  return error.code == ErrorCode::bad_data ? RailEnd::bad_data : RailEnd::failed;
}

RailResult judge_rail(const RailNic& from, const RailNic& to, int roce_version) {
  RailResult result;
  result.end = RailEnd::ok;
  if (from.rdma() != to.rdma()) {
    result.end = RailEnd::unlike;
    result.text = "one is an RDMA port, the other a network interface";
    return result;
  }
  if (!from.rdma()) return result;
  if (from.link_layer != to.link_layer) {
    result.end = RailEnd::unlike;
    result.text = "one port is InfiniBand, the other Ethernet";
    return result;
  }
  const bool ethernet = from.link_layer == base::drivers::kLinkEthernet;
  const auto pair = transport::choose_gids(from.gids, to.gids, roce_version);
  // InfiniBand: inside one subnet the LID is the address (transport/net/ib).
  if (!ethernet && from.lid != 0 && to.lid != 0 &&
      (!pair || transport::same_subnet(pair->sender, pair->receiver)))
    return result;
  if (!pair) {
    result.end = RailEnd::no_address;
    result.text = "no address (GID) of one port matches one of the other";
    return result;
  }
  result.from_gid = pair->sender.index;
  result.to_gid = pair->receiver.index;
  result.gid_type = transport::gid_type_text(pair->sender.type);
  return result;
}

RailPath::RailPath(const transport::NetEnd& end, const transport::Services& services, bool rdma,
                   const RailMemory& memory, uint32_t number)
    : end_(end), services_(services), rdma_(rdma), memory_(memory), number_(number) {
  end_.streams[kStream] = {.window = kWindow,
                           .max_bytes = std::max(memory.message_bytes, kSmallBytes)};
}

RailPath::~RailPath() = default;

void RailPath::fail(RailEnd kind, const Error& error) {
  if (error_) return;
  error_ = kind;
  words_ = error.chain();
  // The remedy of a path of sockets that fails says as much.
  if (rdma_ && !error.hint.empty()) words_ += " (" + error.hint + ")";
}

RailResult RailPath::result() const {
  RailResult result;
  result.end = error_.value_or(RailEnd::ok);
  result.GBps = error_ ? 0 : GBps_;
  result.first_us = first_us_;
  result.resent = resent_;
  result.text = words_.substr(0, kMostRailText / 2);  // more words come to it
  result.lost = lost_;
  return result;
}

Bytes RailPath::describe(Deadline deadline) {
  const auto nets = transport::nets();
  const char* name = rdma_ ? "ib" : "socket";
  const auto row = std::ranges::find_if(
      nets, [&](const auto& net) { return net.name == std::string_view(name); });
  auto half = row->open(end_, services_);
  if (!half) return fail(RailEnd::failed, half.error()), Bytes();
  half_ = std::move(*half);
  auto blob = half_->describe(deadline);
  if (!blob) return fail(RailEnd::failed, blob.error()), Bytes();
  return std::move(*blob);
}

void RailPath::reach(ByteView peer_blob, Deadline deadline) {
  if (error_) return;
  auto connection = half_->connect(peer_blob, deadline);
  if (!connection) {
    const RailEnd kind = rail_end_of(connection.error(), RailEnd::silent);
    // The queue pairs are ready by then, which takes no peer.
    if (rdma_ && (connection.error().code == ErrorCode::deadline ||
                  connection.error().cause == base::Cause::no_connection))
      lost_ = RailLost::beside;
    return fail(kind == RailEnd::failed && !rdma_ ? RailEnd::unreachable : kind,
                connection.error());
  }
  connection_ = std::move(*connection);
  if (const Status pinged = ping(deadline); !pinged)
    fail(rail_end_of(pinged.error(), RailEnd::silent), pinged.error());
}

Status RailPath::wait_a_little(Deadline deadline) {
  std::vector<pollfd> fds;
  connection_->add_interest(fds);
  if (connection_->arm() && !fds.empty())
    // Ends when the network has news; the short deadline is for what rings no descriptor.
    COLL_TRY(base::poll_fds(fds, Deadline::after_ms(kRailLookMs).earlier(deadline)));
  connection_->disarm();
  return {};
}

Result<NetRequest> RailPath::post(uint8_t* data, uint32_t bytes, uint64_t memory,
                                  Deadline deadline) {
  while (true) {
    COLL_ASSIGN(const NetRequest request,
                sends() ? connection_->post_send(kStream, data, bytes, memory)
                        : connection_->post_recv(kStream, data, bytes, memory));
    if (request != kNoRequest) return request;
    if (deadline.passed()) return silent();
    COLL_TRY(connection_->progress());
    base::yield_thread();
  }
}

Result<NetDone> RailPath::finish(NetRequest request, Deadline deadline) {
  while (true) {
    COLL_ASSIGN(const bool moved, connection_->progress());
    COLL_ASSIGN(const NetDone done, connection_->test(request));
    if (done.done) return done;
    if (deadline.passed()) return silent();
    if (!moved) base::yield_thread();
  }
}

// A window of messages that fit into every MTU: receives are announced several at a time, so that
// one alone might wait for others.
Status RailPath::ping(Deadline deadline) {
  COLL_ASSIGN(const uint64_t memory, connection_->register_memory(small_, sizeof small_));
  const auto expected = uint8_t(number_ + 1);
  if (sends()) std::ranges::fill(small_, expected);
  const int64_t began = now_ns();
  std::array<NetRequest, kWindow> requests{};
  for (uint32_t i = 0; i < kWindow; ++i) {
    COLL_ASSIGN(requests[i], post(small_ + size_t(i) * kSmallBytes, kSmallBytes, memory, deadline));
  }
  for (uint32_t i = 0; i < kWindow; ++i) {
    while (true) {
      COLL_ASSIGN(const bool moved, connection_->progress());
      COLL_ASSIGN(const NetDone done, connection_->test(requests[i]));
      if (done.done) break;
      if (deadline.passed()) return silent();
      if (!moved) COLL_TRY(wait_a_little(deadline));
    }
    if (i == 0) first_us_ = double(now_ns() - began) / 1e3;
  }
  if (std::ranges::all_of(small_, [&](uint8_t byte) { return byte == expected; })) return {};
  return Error(ErrorCode::bad_data,
               "the first message arrived with bytes that differ from those sent");
}

// Differs between slots and paths, and within a slot from page to page.
uint8_t RailPath::pattern(uint32_t slot, size_t at) const {
  return uint8_t(number_ * 31 + slot * 7 + (at >> 8) + at + 1);
}

void RailPath::stream(double seconds, Deadline deadline) {
  if (error_) return;
  const Status streamed = sends() ? stream_out(seconds, deadline) : stream_in(deadline);
  if (!streamed) fail(rail_end_of(streamed.error(), RailEnd::large_lost), streamed.error());
}

Status RailPath::stream_out(double seconds, Deadline deadline) {
  const uint32_t bytes = memory_.message_bytes;
  for (uint32_t slot = 0; slot < kWindow; ++slot)
    for (size_t at = 0; at < bytes; ++at)
      memory_.data[size_t(slot) * bytes + at] = pattern(slot, at);
  COLL_ASSIGN(const uint64_t memory,
              connection_->register_memory(memory_.data, memory_bytes(bytes)));
  std::array<NetRequest, kWindow> requests{};
  const Deadline enough = Deadline::after_seconds(seconds);
  uint32_t sent = 0;
  // The last message is empty: the end.
  for (bool last = false; !last; ++sent) {
    const uint32_t slot = sent % kWindow;
    if (sent >= kWindow) COLL_TRY(finish(requests[slot], deadline));
    last = sent >= kLeastMessages && enough.passed();
    COLL_ASSIGN(requests[slot],
                post(memory_.data + size_t(slot) * bytes, last ? 0 : bytes, memory, deadline));
  }
  for (uint32_t i = sent - std::min(sent, kWindow); i < sent; ++i)
    COLL_TRY(finish(requests[i % kWindow], deadline));
  resent_ = connection_->resent();
  return {};
}

Status RailPath::stream_in(Deadline deadline) {
  const uint32_t bytes = memory_.message_bytes;
  std::fill_n(memory_.data, memory_bytes(bytes), uint8_t(0));
  COLL_ASSIGN(const uint64_t memory,
              connection_->register_memory(memory_.data, memory_bytes(bytes)));
  std::array<NetRequest, kWindow> requests{};
  for (uint32_t slot = 0; slot < kWindow; ++slot) {
    COLL_ASSIGN(requests[slot], post(memory_.data + size_t(slot) * bytes, bytes, memory, deadline));
  }
  int64_t first_ns = 0, last_ns = 0;
  for (uint32_t arrived = 0;; ++arrived) {
    const uint32_t slot = arrived % kWindow;
    auto finished = finish(requests[slot], deadline);
    const bool late = !finished && finished.error().code == ErrorCode::deadline;
    // So slow that the end does not come in time: what has arrived says how slow.
    if (late && arrived > 1) return {};
    if (late && arrived > 0)
      return Error(
          ErrorCode::failed,
          format("one message of {} bytes arrived, and no other before the deadline", bytes));
    if (!finished) return std::move(finished.error());
    const NetDone done = *finished;
    if (done.bytes == 0) break;
    if (done.bytes != bytes)
      return Error(ErrorCode::bad_data,
                   format("a message of {} bytes arrived with {}", bytes, done.bytes));
    last_ns = now_ns();
    if (arrived == 0) first_ns = last_ns;
    if (arrived > 0 && last_ns > first_ns)
      GBps_ = double(arrived) * double(bytes) / double(last_ns - first_ns);
    COLL_ASSIGN(requests[slot], post(memory_.data + size_t(slot) * bytes, bytes, memory, deadline));
  }
  for (uint32_t slot = 0; slot < kWindow; ++slot)
    for (size_t at = 0; at < bytes; ++at)
      if (const uint8_t got = memory_.data[size_t(slot) * bytes + at]; got != pattern(slot, at))
        return Error(ErrorCode::bad_data, format("byte {} of a message is {:#x}, {:#x} was sent",
                                                 at, got, pattern(slot, at)));
  return {};
}

bool RailPath::leave(Deadline deadline) {
  if (connection_ == nullptr || error_) return false;
  connection_->say_goodbye();
  while (!connection_->delivered()) {
    if (deadline.passed() || !connection_->progress()) return false;
    if (!wait_a_little(deadline)) return false;
  }
  return true;
}

}  // namespace collctl::runtime
