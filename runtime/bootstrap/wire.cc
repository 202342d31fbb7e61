#include "runtime/bootstrap/wire.h"

#include <algorithm>

#include "base/auth.h"

namespace collctl::runtime::boot {
namespace {

constexpr uint32_t kProtocol = 4;
constexpr size_t kMaxText = 4096;
constexpr size_t kMostMissing = 1024;
constexpr size_t kMaxDeclineText = 1536;  // message and hint share one greeting

// The purpose and this protocol; of what is read nothing else will do.
void opening(Record& io, Purpose purpose) {
  auto word = uint32_t(purpose), protocol = kProtocol;
  io.field("purpose", word, word, word);
  io.field("protocol", protocol, kProtocol, kProtocol);
}

void host_field(Record& io, std::string& host) {
  std::string name = host.substr(0, kMaxHostName);
  io.field("host", name, kMaxHostName);
  if (io.reading()) host = std::move(name);
}

void rank_fields(Record& io, int& rank, int& size) {
  io.field("rank", rank);
  io.field("size", size, 1, kMaxRanks);
}

// Places and waits are those of this process: to another they mean something else.
Error folded(const Error& error, size_t most_text) {
  Error brief = base::brief_error(error, most_text);
  brief.host.resize(std::min(brief.host.size(), kMaxHostName));
  brief.host_id = HostId::none;
  brief.awaited = -1;
  return brief;
}

}  // namespace

uint32_t purpose_of(ByteView greeting) {
  Record io(greeting);
  uint32_t purpose = 0, protocol = 0;
  io.field("purpose", purpose);
  io.field("protocol", protocol, kProtocol, kProtocol);
  return io.status() ? purpose : 0;
}

void fields(Record& io, CheckIn& c) {
  opening(io, Purpose::check_in);
  rank_fields(io, c.rank, c.size);
  io.field("root_index", c.root_index);
  io.field("roots", c.roots, kMaxRoots);
  host_field(io, c.host);
  io.field("peers", c.peers);
  io.field("calls", c.calls);
  io.field("remaining_ms", c.remaining_ms);
  if (!io.reading()) return;
  c.remaining_ms = std::clamp<int64_t>(c.remaining_ms, 0, 7 * 86'400'000);
  if (c.root_index < 0 || c.root_index >= int(c.roots.size())) io.fail("root_index", "a root's");
  if (c.peers.length == 0 || c.calls.length == 0) io.fail("peers", "two addresses");
}

void fields(Record& io, Decline& d) {
  opening(io, Purpose::decline);
  rank_fields(io, d.rank, d.size);
  Error why = folded(d.why, kMaxDeclineText);
  io.field("why", why);
  if (io.reading()) d.why = std::move(why);
  if (d.rank < 0 || d.rank >= d.size) io.fail("rank", "one of the job");
}

void fields(Record& io, PeerGreeting& g) {
  if (io.reading()) g.purpose = Purpose(purpose_of(io.rest()));
  opening(io, g.purpose);
  io.field("from", g.from);
  io.field("to", g.to);
  io.field("frame", g.frame, base::kMaxGreeting);
  if (g.purpose < Purpose::root || g.purpose > Purpose::message)
    io.fail("purpose", "that of a connection");
}

static void fields(Record& io, RankAt& at) {
  io.field("rank", at.rank);
  io.field("address", at.address);
  host_field(io, at.host);
}

void fields(Record& io, Place& place) {
  io.field("next", place.next);
  io.field("previous", place.previous);
  io.field("parent", place.parent);
}

void fields(Record& io, GroupReport& report) {
  io.field("index", report.index);
  io.field("size", report.size);
  io.field("checked_in", report.checked_in);
  io.field("complete", report.complete);
  std::vector<int> missing = report.missing;
  missing.resize(std::min(missing.size(), kMostMissing));
  io.field("missing", missing, kMostMissing);
  if (io.reading()) report.missing = std::move(missing);
  io.field("leader", report.leader);
}

void fields(Record& io, Leaders& leaders) {
  io.field("ranks", leaders.ranks, kMaxRoots);
}

Error brief_error(const Error& error) {
  return folded(error, kMaxText);
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
