#include "transport/net/socket/connection.h"

#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bell.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/peer_closed.h"
#include "base/socket.h"
#include "transport/net/socket/joined_lane.h"
#include "transport/net/socket/lane_helper.h"

namespace collctl::transport {

namespace {

constexpr uint32_t kControlMessages = 64;  // room in a lane's queue for credits and goodbyes
constexpr uint32_t kLookAtAllRounds = 64;  // a send end that is not starved reads this rarely
// A receive end to which nothing has come for so long reads this rarely: each look is a system call
// of a driver that has other links to look at.
constexpr int64_t kQuietNs = 1'000'000, kQuietLookNs = 5'000;
// Nor is one worth the call for whose data nobody waits: it lies well in the socket. (Two
// of 16 cores, with links of eight channels, all-reduce of 8 B: 10.7 us, so 9.0; eight ranks,
// all-to-all of 1 KiB: 112 and 86.)
constexpr uint32_t kUnawaitedRounds = 16;
constexpr int64_t kUnawaitedLookNs = 20'000;
constexpr int kSocketShift = 24;
// A credit costs as much as a message. While what was sent without one is little, it may be so many
// windows; the receive end keeps what comes before its receive is posted.
constexpr uint32_t kWindowsAhead = 4;
constexpr uint64_t kBytesAhead = 64 << 10;
// A helper thread moves larger messages faster, though it must be woken (2 x H200, loopback,
// all-to-all, us, without and with: 1 KiB 22 and 47, 32 KiB 46 and 59, 512 KiB 314 and 201;
// send/recv of 64 KiB 70 and 110 to 155).
constexpr uint32_t kMostServed = 64 << 10;

constexpr WireHeader control(WireKind kind, int stream, uint64_t sequence) {
  return {kWireMagic, kind, uint8_t(stream), 0, sequence};
}

}  // namespace

SocketConnection::SocketConnection(const NetEnd& end, std::vector<base::Fd> sockets,
                                   std::vector<LaneMacs> macs,
                                   std::vector<std::unique_ptr<LaneHelper>> helpers,
                                   SocketPlace place, bool joins)
    : direction_(end.spec.direction),
      place_(std::move(place)),
      via_(format("NET/Socket/{}{}", place_.index, macs.empty() ? "" : "/MAC")),
      first_((end.spec.self.rank < end.spec.peer.rank) == (direction_ == Direction::send)),
      joins_(joins),
      helpers_(std::move(helpers)) {
  uint32_t capacity = kControlMessages;
  for (int i = 0; i < kernels::kProtocolCount; ++i) {
    Stream& stream = streams_[i];
    stream.limits = end.streams[i];
    stream.slots = std::vector<Slot>(stream.limits.window);
    stream.next.resize(sockets.size());
    stream.early.resize(kWindowsAhead * stream.limits.window);
    stream.totals.resize(kWindowsAhead * stream.limits.window + 1);
    for (size_t lane = 0; lane < sockets.size(); ++lane) stream.next[lane] = lane;
    capacity += stream.limits.window;
  }
  LaneOwner& owner = *this;
  for (size_t i = 0; i < sockets.size(); ++i)
    lanes_.push_back(std::make_shared<SocketLane>(
        int(i), std::move(sockets[i]), owner, capacity,
        macs.empty() ? std::nullopt : std::optional<LaneMacs>(std::move(macs[i]))));
  for (size_t h = 0; h < helpers_.size(); ++h) {
    std::vector<int> share;
    for (size_t lane = h; lane < lanes_.size(); lane += helpers_.size()) share.push_back(int(lane));
    helpers_[h]->start(*this, std::move(share));
  }
}

SocketConnection::~SocketConnection() {
  helpers_.clear();
  if (joined_ != nullptr) joined_->forget(*this);
}

void SocketConnection::join(NetConnection& other) {
  auto* const sends = dynamic_cast<SocketConnection*>(&other);
  if (sends == nullptr || !joins_ || !sends->joins_) {
    if (sends != nullptr) sends->joins_ = false;
    return;
  }
  // The other socket closes: at neither end has anything been sent there.
  SocketConnection& from = first_ ? *this : *sends;
  SocketConnection& to = first_ ? *sends : *this;
  to.lanes_[0] = from.lanes_[0];
  joined_ = sends->joined_ =
      std::make_shared<JoinedLane>(static_cast<LaneOwner&>(*sends), static_cast<LaneOwner&>(*this));
  lanes_[0]->hand_to(*joined_, 2);
}

// The peer may have joined already.
bool SocketConnection::takes(const WireHeader& header) {
  return direction_ == Direction::recv || header.kind != WireKind::data || !joins_;
}

Result<uint64_t> SocketConnection::register_memory(void*, size_t) {
  return uint64_t(0);  // the kernel copies from any host memory
}

Result<NetRequest> SocketConnection::post_send(int stream_index, const void* data, uint32_t bytes,
                                               uint64_t) {
  Stream& stream = streams_[size_t(stream_index)];
  const uint64_t sequence = stream.posted.load(std::memory_order_relaxed);
  if (sequence - stream.tested >= stream.limits.window) return kNoRequest;
  const size_t lane = sequence % lanes_.size();
  if (joined_ == nullptr) joins_ = false;
  if (lanes_[lane]->peer_done())
    return lost(Error(ErrorCode::lost, "the peer has closed its end of the connection"));
  stream.starved = !has_credit(stream);
  if (stream.starved) return kNoRequest;
  COLL_CHECK(bytes <= stream.limits.max_bytes);
  const uint32_t index = uint32_t(sequence % stream.limits.window);
  Slot& slot = stream.slots[index];
  slot.bytes = bytes;
  slot.done.store(0, std::memory_order_relaxed);
  add_to_total(stream, sequence, bytes);
  stream.posted.store(sequence + 1, std::memory_order_release);
  push(int(lane), {kWireMagic, WireKind::data, uint8_t(stream_index), bytes, sequence}, data);
  return uint32_t(stream_index) << kSocketShift | index;
}

bool SocketConnection::has_credit(const Stream& stream) const {
  // Pairs with the release in place_credit(): the peer posted that many receives again.
  const uint64_t credit = stream.credit.load(std::memory_order_acquire);
  const uint64_t posted = stream.posted.load(std::memory_order_relaxed), ahead = posted - credit;
  if (ahead < stream.limits.window) return true;
  return ahead < uint64_t(kWindowsAhead) * stream.limits.window &&
         total(stream, posted) - total(stream, credit) <= kBytesAhead;
}

uint64_t SocketConnection::total(const Stream& stream, uint64_t messages) {
  return messages == 0 ? 0 : stream.totals[(messages - 1) % stream.totals.size()];
}

void SocketConnection::add_to_total(Stream& stream, uint64_t message, uint32_t bytes) {
  stream.totals[message % stream.totals.size()] = total(stream, message) + bytes;
}

Result<NetRequest> SocketConnection::post_recv(int stream_index, void* data, uint32_t capacity,
                                               uint64_t) {
  Stream& stream = streams_[size_t(stream_index)];
  const uint64_t sequence = stream.posted.load(std::memory_order_relaxed);
  if (sequence - stream.tested >= stream.limits.window) return kNoRequest;
  const uint32_t index = uint32_t(sequence % stream.limits.window);
  Slot& slot = stream.slots[index];
  slot.data = static_cast<uint8_t*>(data);
  slot.bytes = capacity;
  slot.place = nullptr;
  slot.placed = false;
  slot.done.store(0, std::memory_order_relaxed);
  stream.posted.store(sequence + 1, std::memory_order_release);
  // Helpers may be about to keep it.
  if (!helpers_.empty() || stream.early_count.load(std::memory_order_relaxed) > 0)
    settle(stream, sequence, false);
  tell_credit(stream_index, stream);
  return uint32_t(stream_index) << kSocketShift | index;
}

void SocketConnection::receive_at(NetRequest request, void* data, uint32_t bytes) {
  Slot& slot = slot_of(request);
  if (data == nullptr && slot.placed)
    for (const auto& lane : lanes_) lane->move_body(slot.place, slot.data);
  slot.place = static_cast<uint8_t*>(data);
  slot.place_bytes = bytes;
  if (data == nullptr) slot.placed = false;
}

// Told for half a window, the send end still has the other half; for two windows, of four, where
// they were few bytes. Messages taken and not yet told are always fewer than a send end waits for.
void SocketConnection::tell_credit(int index, Stream& stream) {
  const uint64_t posted = stream.posted.load(std::memory_order_relaxed);
  const uint32_t window = stream.limits.window;
  if (posted <= window || lanes_[0]->peer_done()) return;
  const uint64_t reposted = posted - window, told = stream.told.load(std::memory_order_relaxed);
  if (reposted - told < std::max(1u, window / 2)) return;
  if (reposted - told < uint64_t(kWindowsAhead / 2) * window &&
      total(stream, reposted) - total(stream, told) < kBytesAhead / 2)
    return;
  stream.told.store(reposted, std::memory_order_release);
  push(0, control(WireKind::credit, index, reposted), nullptr);
}

void SocketConnection::push(int lane, const WireHeader& header, const void* body) {
  // Data is bounded by the windows, credits by half windows of data: the queue cannot be full.
  COLL_CHECK(lanes_[size_t(lane)]->push(header, body));
  LaneHelper* const helper = helper_of(lane);
  if (helper == nullptr) return;
  if (helper->serving())
    helper->wake();
  else if (header.bytes > kMostServed)
    helper->take_over();
}

LaneHelper* SocketConnection::helper_of(int lane) const {
  for (const auto& helper : helpers_)
    if (helper->serves(lane)) return helper.get();
  return nullptr;
}

bool SocketConnection::served_by_helper(int lane) const {
  const LaneHelper* const helper = helper_of(lane);
  return helper != nullptr && helper->serving();
}

SocketConnection::Slot& SocketConnection::slot_of(NetRequest request) {
  return streams_[request >> kSocketShift].slots[request & ((1u << kSocketShift) - 1)];
}

Result<NetDone> SocketConnection::test(NetRequest request) {
  Stream& stream = streams_[request >> kSocketShift];
  const uint32_t index = request & ((1u << kSocketShift) - 1);
  if (stream.tested % stream.limits.window != index || !oldest_done(stream)) return NetDone{};
  if (direction_ == Direction::recv) add_to_total(stream, stream.tested, stream.slots[index].bytes);
  ++stream.tested;
  const Slot& slot = stream.slots[index];
  return NetDone{.done = true, .bytes = slot.bytes, .placed = slot.placed};
}

bool SocketConnection::oldest_done(const Stream& stream) const {
  if (stream.tested == stream.posted.load(std::memory_order_relaxed)) return false;
  // Pairs with the release in finish(): the message's bytes and length are written.
  return stream.slots[stream.tested % stream.limits.window].done.load(std::memory_order_acquire) !=
         0;
}

Result<bool> SocketConnection::progress() {
  // A send end learns of credits when it needs them; of a peer's end when it looks, now and then.
  if (direction_ == Direction::send) {
    const bool all = std::exchange(look_at_all_, false) || ++rounds_ % kLookAtAllRounds == 0;
    return pump_lanes(all);
  }
  return receive_by(kQuietLookNs, true);
}

Result<bool> SocketConnection::progress_unawaited() {
  if (direction_ == Direction::send) return progress();
  if (!look_at_all_ && ++rounds_ < kUnawaitedRounds) return pump_lanes(false);
  rounds_ = 0;
  return receive_by(kUnawaitedLookNs, false);
}

// Looks if it is time, or, `often`, if something came not long ago.
Result<bool> SocketConnection::receive_by(int64_t look_ns, bool often) {
  const int64_t now = base::now_ns();
  const bool all = std::exchange(look_at_all_, false) || (often && now < came_ns_ + kQuietNs) ||
                   now >= looked_ns_ + look_ns;
  if (all) looked_ns_ = now;
  Result<bool> moved = pump_lanes(all);
  if (moved && *moved) came_ns_ = now;
  return moved;
}

Result<bool> SocketConnection::flush() {
  return pump_lanes(false);
}

Result<bool> SocketConnection::pump_lanes(bool all) {
  if (failed_.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(error_mutex_);
    return *error_;
  }
  const bool starved = std::any_of(streams_.begin(), streams_.end(),
                                   [](const Stream& stream) { return stream.starved; });
  if (awaits_join()) return false;
  bool moved = std::exchange(news_, false);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (served_by_helper(int(lane))) continue;
    COLL_ASSIGN(const bool pumped, pump(int(lane), all || (lane == 0 && starved)));
    moved |= pumped;
    if (LaneHelper* const helper = helper_of(int(lane));
        helper != nullptr && std::exchange(large_comes_, false))
      helper->take_over();
  }
  return moved;
}

Result<bool> SocketConnection::pump(int index, bool with_input) {
  SocketLane& lane = *lanes_[size_t(index)];
  bool moved = false;
  if (lane.sending()) {
    Result<bool> out = lane.pump_out();
    if (!out) return lost(out.error());
    moved = *out;
  }
  if (with_input) {
    Result<bool> in = lane.pump_in();
    if (!in) return lost(in.error());
    moved |= *in;
  }
  return moved;
}

Result<uint8_t*> SocketConnection::place(int lane, const WireHeader& header) {
  if (header.stream >= streams_.size() || streams_[header.stream].limits.window == 0)
    return Error(ErrorCode::lost, format("a message on unknown stream {}", int(header.stream)));
  Stream& stream = streams_[header.stream];
  if (direction_ == Direction::send) {
    COLL_TRY(place_credit(stream, header));
    return static_cast<uint8_t*>(nullptr);
  }
  if (header.kind != WireKind::data || header.sequence != stream.next[size_t(lane)])
    return Error(ErrorCode::lost, format("message {} where {} was expected", header.sequence,
                                         stream.next[size_t(lane)]));
  if (header.bytes > stream.limits.max_bytes)
    return Error(ErrorCode::lost, format("a message of {} bytes where only {} fit", header.bytes,
                                         stream.limits.max_bytes));
  // Pairs with the release in tell_credit(): a peer can know of no more than that.
  if (header.sequence - stream.told.load(std::memory_order_acquire) >=
      uint64_t(kWindowsAhead) * stream.limits.window)
    return Error(ErrorCode::lost, "more messages than it has credit for");
  if (header.bytes > kMostServed && !served_by_helper(lane)) large_comes_ = true;
  // Pairs with the release in post_recv: the slot's address is written.
  if (header.sequence >= stream.posted.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(early_mutex_);
    if (header.sequence >= stream.posted.load(std::memory_order_acquire))
      return keep_early(stream, header);
  }
  Slot& slot = stream.slots[header.sequence % stream.limits.window];
  slot.placed = slot.place != nullptr && slot.place_bytes == header.bytes;
  return slot.placed ? slot.place : slot.data;
}

Result<uint8_t*> SocketConnection::keep_early(Stream& stream, const WireHeader& header) {
  if (stream.early_bytes + header.bytes >
      uint64_t(stream.limits.window) * stream.limits.max_bytes + kBytesAhead)
    return Error(ErrorCode::lost, "more bytes than it has credit for");
  Early& early = stream.early[header.sequence % stream.early.size()];
  COLL_CHECK(!early.waits);  // its number has no credit before that of this place was consumed
  early = {.bytes = std::make_unique_for_overwrite<uint8_t[]>(header.bytes),
           .sequence = header.sequence,
           .size = header.bytes,
           .waits = true};
  stream.early_bytes += header.bytes;
  stream.early_count.fetch_add(1, std::memory_order_relaxed);
  return early.bytes.get();
}

bool SocketConnection::settle(Stream& stream, uint64_t sequence, bool whole) {
  const std::scoped_lock lock(early_mutex_);
  Early& early = stream.early[sequence % stream.early.size()];
  if (!early.waits || early.sequence != sequence) return false;
  early.whole |= whole;
  if (!early.whole || sequence >= stream.posted.load(std::memory_order_acquire)) return true;
  if (early.size > 0)
    std::memcpy(stream.slots[sequence % stream.limits.window].data, early.bytes.get(), early.size);
  finish(stream, sequence, early.size);
  stream.early_bytes -= early.size;
  early = {};
  stream.early_count.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

Status SocketConnection::place_credit(Stream& stream, const WireHeader& header) {
  if (header.kind != WireKind::credit || header.bytes != 0 ||
      header.sequence < stream.credit.load(std::memory_order_relaxed) ||
      header.sequence > stream.posted.load(std::memory_order_acquire))
    return Error(ErrorCode::lost, "an invalid credit");
  stream.credit.store(header.sequence, std::memory_order_release);
  if (joined_ != nullptr) news_ = true;
  return {};
}

void SocketConnection::arrived(int lane, const WireHeader& header) {
  if (header.kind != WireKind::data) {
    ring_driver();  // credit
    return;
  }
  Stream& stream = streams_[header.stream];
  stream.next[size_t(lane)] += lanes_.size();
  if (stream.early_count.load(std::memory_order_relaxed) == 0 ||
      !settle(stream, header.sequence, true))
    finish(stream, header.sequence, header.bytes);
}

void SocketConnection::sent(const WireHeader& header) {
  if (header.kind == WireKind::data) finish(streams_[header.stream], header.sequence, header.bytes);
}

void SocketConnection::finish(Stream& stream, uint64_t sequence, uint32_t bytes) {
  Slot& slot = stream.slots[sequence % stream.limits.window];
  slot.bytes = bytes;
  slot.done.store(1, std::memory_order_release);
  if (joined_ != nullptr) news_ = true;
  ring_driver();
}

void SocketConnection::ring_driver() {
  if (helpers_.empty()) return;
  // Pairs with the exchange in arm(): either it sees what was finished before this, or this sees 1.
  if (driver_sleeps_.exchange(0, std::memory_order_acq_rel) == 0) return;
  const int fd = bell_fd_.load(std::memory_order_acquire);
  if (fd >= 0) base::ring_bell(fd);
}

bool SocketConnection::arm() {
  if (helpers_.empty()) return true;
  driver_sleeps_.exchange(1, std::memory_order_acq_rel);
  if (failed_.load(std::memory_order_acquire)) return false;
  return std::none_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return oldest_done(stream) || (stream.starved && has_credit(stream));
  });
}

void SocketConnection::disarm() {
  driver_sleeps_.exchange(0, std::memory_order_acq_rel);
  look_at_all_ = true;
}

void SocketConnection::add_interest(std::vector<pollfd>& fds) {
  if (awaits_join()) return;
  for (const auto& lane : lanes_) {
    if (served_by_helper(int(&lane - lanes_.data()))) continue;  // the bell tells
    if (lane->closed()) continue;
    const int events = POLLIN | (lane->sending() ? POLLOUT : 0);
    fds.push_back({lane->fd(), short(events), 0});
  }
}

double SocketConnection::resent() const {
  uint64_t sent = 0, again = 0;
  for (const auto& lane : lanes_) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(lane->fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    sent += info.tcpi_data_segs_out;
    again += info.tcpi_total_retrans;
  }
  return sent == 0 ? 0 : double(again) / double(sent);
}

bool SocketConnection::idle() const {
  return std::none_of(lanes_.begin(), lanes_.end(),
                      [](const auto& lane) { return lane->sending(); });
}

void SocketConnection::say_goodbye() {
  said_goodbye_ = true;
  for (size_t lane = 0; lane < lanes_.size(); ++lane)
    push(int(lane), control(WireKind::goodbye, 0, 0), nullptr);
}

bool SocketConnection::delivered() const {
  return !said_goodbye_ || std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return base::all_acknowledged(lane->fd());
  });
}

void SocketConnection::fail(Error error) {
  {
    const std::scoped_lock lock(error_mutex_);
    if (!error_) error_ = std::move(error);
  }
  failed_.store(true, std::memory_order_release);
  ring_driver();
}

double SocketConnection::unacknowledged_s() const {
  for (const auto& lane : lanes_)
    if (const double seconds = base::unacknowledged_s(lane->fd()); seconds > 0) return seconds;
  return 0;
}

std::string SocketConnection::condition() const {
  std::string text;
  if (const double seconds = unacknowledged_s(); seconds > 0)
    text = format("{} has acknowledged nothing for {:.1f} s", place_.peer, seconds);
  ifreq state{};
  if (place_.interface.empty() || place_.interface.size() >= sizeof state.ifr_name) return text;
  place_.interface.copy(state.ifr_name, sizeof state.ifr_name - 1);
  if (::ioctl(lanes_[0]->fd(), SIOCGIFFLAGS, &state) == 0 && (state.ifr_flags & IFF_RUNNING) == 0)
    text += format("{}{} of this host has no carrier", text.empty() ? "" : "; ", place_.interface);
  return text;
}

Error SocketConnection::lost(const Error& cause) const {
  Error error = cause;
  error.code = ErrorCode::lost;
  error.message = format("{}{}: {}", place_.peer, place_.way, error.message);
  return error;
}

}  // namespace collctl::transport
