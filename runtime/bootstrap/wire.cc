#include "runtime/bootstrap/wire.h"

#include <algorithm>

#include "base/auth.h"

namespace collctl::runtime::boot {
namespace {

constexpr uint32_t kProtocol = 3;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxDeclineText = 1536;  // message and hint share one greeting

std::string cut(const std::string& text, size_t at_most) {
  return text.size() <= at_most ? text : text.substr(0, at_most);
}

bool rank_in(int rank, int size) {
  return rank >= 0 && rank < size;
}

}  // namespace

uint32_t purpose_of(ByteView greeting) {
  ByteReader r(greeting);
  const auto purpose = r.get<uint32_t>();
  const auto protocol = r.get<uint32_t>();
  return r.ok() && protocol == kProtocol ? purpose : 0;
}

Bytes CheckIn::encode() const {
  ByteWriter w;
  w.put(Purpose::check_in).put(kProtocol).put(rank).put(size).put(root_index);
  w.put(uint32_t(roots.size()));
  for (const Address& root : roots) root.write(w);
  w.put_string(cut(host, kMaxHostName));
  peers.write(w);
  calls.write(w);
  w.put(remaining_ms);
  return w.take();
}

std::optional<CheckIn> CheckIn::decode(ByteView greeting) {
  if (purpose_of(greeting) != uint32_t(Purpose::check_in)) return std::nullopt;
  ByteReader r(greeting.subspan(8));
  CheckIn c;
  c.rank = r.get<int>();
  c.size = r.get<int>();
  c.root_index = r.get<int>();
  const auto roots = r.get<uint32_t>();
  if (roots < 1 || roots > kMaxRoots) return std::nullopt;
  for (uint32_t i = 0; i < roots; ++i) c.roots.push_back(Address::read(r));
  c.host = r.get_string(kMaxHostName);
  c.peers = Address::read(r);
  c.calls = Address::read(r);
  c.remaining_ms = std::clamp<int64_t>(r.get<int64_t>(), 0, 7 * 86'400'000);
  if (!r.ok() || c.size < 1 || c.size > kMaxRanks || !rank_in(c.root_index, int(roots)) ||
      c.peers.length == 0 || c.calls.length == 0)
    return std::nullopt;
  return c;
}

Bytes Decline::encode() const {
  Error told = why;
  told.contexts.clear();
  told.message = cut(why.chain(), kMaxDeclineText);
  told.hint = cut(why.hint, kMaxDeclineText);
  ByteWriter w;
  w.put(Purpose::decline).put(kProtocol).put(rank).put(size).put_bytes(encode_error(told));
  return w.take();
}

std::optional<Decline> Decline::decode(ByteView greeting) {
  if (purpose_of(greeting) != uint32_t(Purpose::decline)) return std::nullopt;
  ByteReader r(greeting.subspan(8));
  Decline d;
  d.rank = r.get<int>();
  d.size = r.get<int>();
  d.why = decode_error(r.get_bytes(base::kMaxGreeting));
  if (!r.ok() || d.size < 1 || d.size > kMaxRanks || !rank_in(d.rank, d.size)) return std::nullopt;
  return d;
}

Bytes PeerGreeting::encode() const {
  ByteWriter w;
  w.put(purpose).put(kProtocol).put(from).put(to);
  return w.take();
}

std::optional<PeerGreeting> PeerGreeting::decode(ByteView greeting) {
  const uint32_t purpose = purpose_of(greeting);
  if (purpose < uint32_t(Purpose::root) || purpose > uint32_t(Purpose::message))
    return std::nullopt;
  ByteReader r(greeting.subspan(8));
  PeerGreeting g;
  g.purpose = Purpose(purpose);
  g.from = r.get<int>();
  g.to = r.get<int>();
  if (!r.ok()) return std::nullopt;
  return g;
}

void RankAt::write(ByteWriter& w) const {
  w.put(rank);
  address.write(w);
  w.put_string(cut(host, kMaxHostName));
}

RankAt RankAt::read(ByteReader& r) {
  RankAt at;
  at.rank = r.get<int>();
  at.address = Address::read(r);
  at.host = r.get_string(kMaxHostName);
  return at;
}

Bytes Place::encode() const {
  ByteWriter w;
  for (const RankAt* at : {&next, &previous, &parent}) at->write(w);
  return w.take();
}

std::optional<Place> Place::decode(ByteView payload) {
  ByteReader r(payload);
  Place p;
  for (RankAt* at : {&p.next, &p.previous, &p.parent}) *at = RankAt::read(r);
  if (!r.ok()) return std::nullopt;
  return p;
}

Bytes GroupReport::encode() const {
  ByteWriter w;
  w.put(index).put(size).put(checked_in).put(uint8_t(complete));
  const auto shown = uint32_t(std::min<size_t>(missing.size(), 1024));
  w.put(shown);
  for (uint32_t i = 0; i < shown; ++i) w.put(missing[i]);
  leader.write(w);
  return w.take();
}

std::optional<GroupReport> GroupReport::decode(ByteView payload) {
  ByteReader r(payload);
  GroupReport report;
  report.index = r.get<int>();
  report.size = r.get<int>();
  report.checked_in = r.get<int>();
  report.complete = r.get<uint8_t>() != 0;
  const auto shown = r.get<uint32_t>();
  if (shown > 1024) return std::nullopt;
  for (uint32_t i = 0; i < shown; ++i) report.missing.push_back(r.get<int>());
  report.leader = RankAt::read(r);
  if (!r.ok()) return std::nullopt;
  return report;
}

Bytes encode_ranks(const std::vector<RankAt>& ranks) {
  ByteWriter w;
  w.put(uint32_t(ranks.size()));
  for (const RankAt& at : ranks) at.write(w);
  return w.take();
}

std::optional<std::vector<RankAt>> decode_ranks(ByteView payload) {
  ByteReader r(payload);
  const auto count = r.get<uint32_t>();
  if (count > kMaxRoots) return std::nullopt;
  std::vector<RankAt> ranks;
  for (uint32_t i = 0; i < count; ++i) ranks.push_back(RankAt::read(r));
  if (!r.ok()) return std::nullopt;
  return ranks;
}

Bytes encode_error(const Error& error) {
  ByteWriter w;
  w.put(int(error.code)).put(error.rank).put(error.from).put(error.signal);
  w.put(uint8_t(error.cause));
  w.put_string(cut(error.chain(), kMaxText));
  w.put_string(cut(error.hint, kMaxText)).put_string(cut(error.host, kMaxHostName));
  return w.take();
}

Error decode_error(ByteView payload) {
  ByteReader r(payload);
  Error e;
  const int code = r.get<int>();
  e.rank = r.get<int>();
  e.from = r.get<int>();
  e.signal = r.get<int>();
  const auto cause = r.get<uint8_t>();
  e.cause = cause < base::kCauses ? Cause(cause) : Cause::unsaid;
  e.message = r.get_string(kMaxText);
  e.hint = r.get_string(kMaxText);
  e.host = r.get_string(kMaxHostName);
  if (!r.ok()) return Error(ErrorCode::lost, "another rank failed without saying why");
  const bool known = (code >= int(ErrorCode::failed) && code <= int(ErrorCode::incomplete)) ||
                     code == int(ErrorCode::defect) || code == int(ErrorCode::interrupted);
  e.code = known ? ErrorCode(code) : ErrorCode::lost;
  return e;
}

Mac SealedFd::mac(bool from_connector, uint64_t number,
                  std::initializer_list<ByteView> frame) const {
  ByteWriter w;
  w.put(uint8_t(from_connector)).put(number);
  for (const ByteView part : frame) w.put_bytes(part);
  const auto whole = base::hmac_sha256(session_.key, {w.bytes()});
  Mac mac;
  std::copy_n(whole.begin(), mac.size(), mac.begin());
  return mac;
}

Mac SealedFd::seal(std::initializer_list<ByteView> frame) {
  return mac(session_.connector, sent_++, frame);
}

bool SealedFd::genuine(std::initializer_list<ByteView> frame, const Mac& sent) {
  return base::equal_constant_time(mac(!session_.connector, received_++, frame), sent);
}

Status FrameReader::fill(SealedFd& from) {
  uint8_t chunk[4096];
  Status arrived;
  while (arrived && buffer_.size() <= kMaxFrame + sizeof chunk) {
    const auto n = base::read_some(from.get(), chunk, sizeof chunk);
    if (!n) arrived = n.error();
    if (!n || *n == 0) break;
    buffer_.insert(buffer_.end(), chunk, chunk + *n);
    if (*n < sizeof chunk) break;
  }
  uint32_t head[2];
  size_t at = 0;
  while (buffer_.size() - at >= sizeof head) {
    std::memcpy(head, buffer_.data() + at, sizeof head);
    if (head[1] > kMaxFrame || head[0] < 1 || head[0] > uint32_t(FrameType::bye))
      return Error(ErrorCode::lost, "the peer sent something that is not a frame");
    const size_t bytes = sizeof head + head[1];
    Mac mac;
    if (buffer_.size() - at < bytes + mac.size()) break;
    std::memcpy(mac.data(), buffer_.data() + at + bytes, mac.size());
    if (!from.genuine({{buffer_.data() + at, bytes}}, mac)) return Error(ErrorCode::lost, kChanged);
    const auto payload = buffer_.begin() + ptrdiff_t(at + sizeof head);
    frames_.push_back({FrameType(head[0]), Bytes(payload, payload + head[1])});
    at += bytes + mac.size();
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + ptrdiff_t(at));
  return arrived;
}

std::optional<Frame> FrameReader::next() {
  if (frames_.empty()) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

Bytes encode_frame(FrameType type, ByteView payload) {
  ByteWriter w;
  w.put(type).put_bytes(payload);
  return w.take();
}

Status send_frame(SealedFd& to, FrameType type, ByteView payload) {
  Bytes frame = encode_frame(type, payload);
  const Mac mac = to.seal({frame});
  frame.insert(frame.end(), mac.begin(), mac.end());
  COLL_ASSIGN(const size_t n, base::write_some(to.get(), frame.data(), frame.size()));
  if (n != frame.size()) return Error(ErrorCode::lost, "the peer does not read its connection");
  return {};
}

}  // namespace collctl::runtime::boot
