#include "transport/net/ib/control.h"

#include "base/format.h"
#include "base/record.h"
#include "base/socket.h"

namespace collctl::transport {

namespace {

constexpr uint16_t kControlMagic = 0x4942;
constexpr uint32_t kMaxBody = 8192;
constexpr size_t kMaxWaiting = 64;   // messages that nobody has looked at; the peer waits then
constexpr size_t kMostWords = 2000;  // of a failure that is told to the peer

struct Header {
  uint16_t magic;
  uint8_t kind;
  uint8_t reserved;
  uint32_t bytes;
};
static_assert(sizeof(Header) == 8);

}  // namespace

Error failure_of_peer(ByteView body, const std::string& peer, int self) {
  const Error told = decode_error(body);
  Error error(ErrorCode::lost, format("{} says: {}", peer, told.message), told.hint);
  error.rank = told.rank >= 0 ? told.rank : self;
  return error;
}

Bytes encode_failure(const Error& error) {
  Error told = error;
  told.contexts.clear();
  return encode_error(base::brief_error(told, kMostWords));
}

void IbControl::push(IbControlKind kind, ByteView body) {
  if (closed_) return;  // the peer has said goodbye and gone: it needs nothing any more
  if (!sending()) {
    out_.clear();
    sent_ = 0;
  }
  ByteWriter w;
  w.put(Header{kControlMagic, uint8_t(kind), 0, uint32_t(body.size())}).put_rest(body);
  const Bytes message = w.take();
  out_.insert(out_.end(), message.begin(), message.end());
}

Result<bool> IbControl::pump() {
  bool moved = false;
  if (sending() && !closed_) {
    auto wrote = base::write_some(fd_.get(), out_.data() + sent_, out_.size() - sent_);
    if (!wrote) {
      if (!peer_done_) return std::move(wrote.error());
      sent_ = out_.size();  // it needs nothing any more
      wrote = size_t(0);
    }
    sent_ += *wrote;
    moved = *wrote != 0;
  }
  if (closed_) return moved;
  COLL_ASSIGN(const bool received, pump_in());
  return moved || received;
}

Result<bool> IbControl::pump_in() {
  uint8_t buffer[4096];
  bool moved = false;
  COLL_TRY(parse());  // what was left
  while (arrived_.size() < kMaxWaiting) {
    auto got = base::read_some(fd_.get(), buffer, sizeof buffer);
    if (!got) {
      if (!peer_done_) return std::move(got.error());
      closed_ = true;
      sent_ = out_.size();
      return moved;
    }
    if (*got == 0) return moved;
    moved = true;
    in_.insert(in_.end(), buffer, buffer + *got);
    COLL_TRY(parse());
  }
  return moved;
}

Status IbControl::parse() {
  size_t at = 0;
  while (in_.size() - at >= sizeof(Header) && arrived_.size() < kMaxWaiting) {
    ByteReader r(ByteView(in_).subspan(at));
    const auto header = r.get<Header>();
    if (header.magic != kControlMagic || header.bytes > kMaxBody)
      return Error(ErrorCode::lost, "unexpected data on the TCP connection beside RDMA");
    if (in_.size() - at < sizeof header + header.bytes) break;
    const uint8_t* body = in_.data() + at + sizeof header;
    at += sizeof header + header.bytes;
    if (IbControlKind(header.kind) == IbControlKind::goodbye)
      peer_done_ = true;
    else
      arrived_.push_back({IbControlKind(header.kind), Bytes(body, body + header.bytes)});
  }
  in_.erase(in_.begin(), in_.begin() + long(at));
  return {};
}

std::optional<IbMessage> IbControl::next() {
  if (arrived_.empty()) return std::nullopt;
  IbMessage first = std::move(arrived_.front());
  arrived_.pop_front();
  return first;
}

bool IbControl::delivered() const {
  return closed_ || (!sending() && base::all_acknowledged(fd_.get()));
}

}  // namespace collctl::transport
