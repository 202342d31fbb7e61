#include "runtime/links/relay_desk.h"

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/wait.h"
#include "transport/edge.h"
#include "transport/table/nets.h"
#include "transport/table/transports.h"

namespace collctl::runtime {
namespace {

using transport::Direction;
using transport::LinkSpec;
using transport::peer_text;

constexpr size_t kMostFrame = 64 << 20, kMostNic = 256, kPiece = 64 << 10;
constexpr double kDeskIdleSeconds = 10;
constexpr int64_t kLineLookMs = 50;  // how late a wait sees an abort

Bytes framed(ByteView body) {
  return ByteWriter().put_bytes(body).take();
}

}  // namespace

void set_geometry(LinkSpec& spec, const Settings& settings, bool ll128) {
  for (int i = 0; i < kernels::kProtocolCount; ++i)
    if ((ll128 || i != int(kernels::Protocol::ll128)) && settings.slot_bytes[i] != 0)
      spec.geometry[i] = {settings.slot_bytes[i], settings.slot_count};
}

// --- who asks ---

Error RelayLines::given_up(int relay, Error why) {
  lines_.erase(relay);
  if (why.code == ErrorCode::interrupted) return why;
  const transport::PeerInfo& peer = peers_[size_t(relay)];
  if (why.code == ErrorCode::lost)
    why.message = format("{}, which was to send for this rank (PXN), has gone: {}", peer_text(peer),
                         why.message);
  why.rank = relay;
  why.host = peer.host;
  return why;
}

Status RelayLines::wait(int relay, short events, Deadline deadline) {
  while (true) {
    pollfd at{lines_.at(relay).get(), events, 0};
    COLL_ASSIGN(const int ready,
                base::poll_fds({&at, 1}, deadline.earlier(Deadline::after_ms(kLineLookMs))));
    if (ready != 0) return {};
    if (std::atomic_ref<uint32_t>(*abort_word_).load(std::memory_order_acquire) != 0)
      return Error(ErrorCode::interrupted, "stopped because the communicator was aborted");
    if (deadline.passed())
      return Error(ErrorCode::deadline,
                   format("{}, which is to send for this rank (PXN), does not answer",
                          peer_text(peers_[size_t(relay)])));
  }
}

Status RelayLines::send(int relay, ByteView body, Deadline deadline) {
  const Bytes frame = framed(body);
  for (size_t sent = 0; sent < frame.size();) {
    COLL_TRY(wait(relay, POLLOUT, deadline));
    COLL_ASSIGN(const size_t n,
                base::write_some(lines_.at(relay).get(), frame.data() + sent, frame.size() - sent));
    sent += n;
  }
  return {};
}

Result<Bytes> RelayLines::receive(int relay, Deadline deadline) {
  const auto fill = [&](void* to, size_t size) -> Status {
    for (size_t got = 0; got < size;) {
      COLL_TRY(wait(relay, POLLIN, deadline));
      COLL_ASSIGN(const size_t n, base::read_some(lines_.at(relay).get(),
                                                  static_cast<uint8_t*>(to) + got, size - got));
      got += n;
    }
    return {};
  };
  uint32_t size = 0;
  COLL_TRY(fill(&size, sizeof size));
  if (size > kMostFrame) return Error(ErrorCode::lost, "its answer is malformed");
  Bytes body(size);
  COLL_TRY(fill(body.data(), size));
  return body;
}

Result<RelayLines::Answers> RelayLines::ask(RelayCall call, const Requests& requests,
                                            Deadline deadline) {
  for (const auto& [relay, wanted] : requests) {
    if (!lines_.contains(relay))
      return given_up(relay, Error(ErrorCode::lost, "it can no longer be asked"));
    ByteWriter w;
    w.put(uint32_t(call)).put(int64_t(deadline.remaining_ns())).put(uint32_t(wanted.size()));
    for (const RelayRequest& each : wanted)
      w.put(int32_t(each.channel))
          .put(int32_t(each.to))
          .put_string(each.nic)
          .put(uint8_t(each.ll128))
          .put_bytes(each.theirs);
    if (Status sent = send(relay, w.bytes(), deadline); !sent)
      return given_up(relay, std::move(sent.error()));
  }
  Answers answers;
  for (const auto& [relay, wanted] : requests) {
    auto body = receive(relay, deadline);
    if (!body) return given_up(relay, std::move(body.error()));
    ByteReader r(*body);
    std::vector<Result<Bytes>>& all = answers[relay];
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto code = r.get<int32_t>();
      if (code == 0) {
        const ByteView bytes = r.get_bytes();
        all.emplace_back(Bytes(bytes.begin(), bytes.end()));
        continue;
      }
      const std::string message = r.get_string();
      all.emplace_back(Error(ErrorCode(code), message, r.get_string()).blame(relay));
    }
    if (!r.ok() || !r.at_end())
      return given_up(relay, Error(ErrorCode::lost, "its answer is malformed"));
  }
  return answers;
}

// --- who answers ---

Result<std::unique_ptr<RelayDesk>> RelayDesk::start(Options options,
                                                    std::map<int, base::Fd>&& lines) {
  std::unique_ptr<RelayDesk> desk(new RelayDesk(std::move(options)));
  desk->options_.services.fds = desk->options_.fds.get();
  COLL_ASSIGN(desk->bell_, base::make_bell());
  for (auto& [rank, line] : lines)
    desk->askers_.push_back({.rank = rank, .line = std::move(line), .in = {}, .out = {}});
  desk->thread_ = std::thread([at = desk.get()] { at->run(); });
  return desk;
}

RelayDesk::~RelayDesk() {
  stop_.store(true, std::memory_order_release);
  if (bell_) base::ring_bell(bell_.get());
  if (thread_.joinable()) thread_.join();
  for (auto& [edge, made] : made_) options_.proxy->remove(made.link.get());
}

void RelayDesk::run() {
  std::vector<pollfd> on;
  while (!stop_.load(std::memory_order_acquire)) {
    on.assign(1, {bell_.get(), POLLIN, 0});
    for (const Asker& asker : askers_)
      on.push_back({asker.line.get(), short(asker.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    if (!base::poll_fds(on, Deadline::after_seconds(kDeskIdleSeconds)))
      base::sleep_until(Deadline::after_ms(10));
    base::drain_bell(bell_.get());
    std::erase_if(askers_, [&](Asker& asker) { return !serve(asker); });
  }
}

// False: the asker has gone, or says what none of ours does.
bool RelayDesk::serve(Asker& asker) {
  while (asker.in.size() <= kMostFrame) {
    const size_t had = asker.in.size();
    asker.in.resize(had + kPiece);
    const auto n = base::read_some(asker.line.get(), asker.in.data() + had, kPiece);
    asker.in.resize(had + (n ? *n : 0));
    if (!n) return false;
    if (*n == 0) break;
  }
  uint32_t size = 0;
  while (asker.in.size() >= sizeof size) {
    std::memcpy(&size, asker.in.data(), sizeof size);
    if (size > kMostFrame) return false;
    if (asker.in.size() - sizeof size < size) break;
    if (!answer(asker, ByteView(asker.in).subspan(sizeof size, size))) {
      COLL_WARN("rank {} : a malformed request of rank {}, which it is to send for (PXN)",
                options_.rank, asker.rank);
      return false;
    }
    asker.in.erase(asker.in.begin(), asker.in.begin() + ptrdiff_t(sizeof size + size));
  }
  while (!asker.out.empty()) {
    const auto n = base::write_some(asker.line.get(), asker.out.data(), asker.out.size());
    if (!n) return false;
    if (*n == 0) break;
    asker.out.erase(asker.out.begin(), asker.out.begin() + ptrdiff_t(*n));
  }
  return true;
}

bool RelayDesk::answer(Asker& asker, ByteView frame) {
  ByteReader r(frame);
  const auto call = RelayCall(r.get<uint32_t>());
  const auto left = r.get<int64_t>();
  const auto count = r.get<uint32_t>();
  const Deadline deadline = Deadline::after_seconds(
      std::clamp(double(left) * 1e-9, 0.0, options_.settings->start_timeout_s));
  ByteWriter w;
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    RelayRequest request{.channel = r.get<int32_t>(), .to = r.get<int32_t>()};
    request.nic = r.get_string(kMostNic);
    request.ll128 = r.get<uint8_t>() != 0;
    const ByteView theirs = r.get_bytes();
    request.theirs.assign(theirs.begin(), theirs.end());
    if (request.channel < 0 || request.channel >= kernels::kMaxChannels || request.to < 0 ||
        request.to >= int(options_.peers->size()) || request.to == options_.rank)
      r.fail();
    if (!r.ok()) break;
    auto made = call == RelayCall::open      ? open(asker.rank, request, deadline)
                : call == RelayCall::connect ? connect(asker.rank, request, deadline)
                                             : Result<Bytes>(Bytes{});
    if (made)
      w.put(int32_t(0)).put_bytes(*made);
    else
      w.put(int32_t(made.error().code))
          .put_string(made.error().chain())
          .put_string(made.error().hint);
  }
  if (!r.ok() || !r.at_end()) return false;
  const Bytes said = framed(w.bytes());
  asker.out.insert(asker.out.end(), said.begin(), said.end());
  return true;
}

Result<Bytes> RelayDesk::open(int from, const RelayRequest& request, Deadline deadline) {
  const auto& peers = *options_.peers;
  const Edge edge{request.channel, from, request.to};
  {
    const std::scoped_lock lock(mutex_);
    if (halves_.contains(edge) || made_.contains(edge))
      return Error(ErrorCode::defect, "it sends that already");
  }
  Half half;
  LinkSpec& source = half.from_source;
  source.channel = request.channel;
  source.direction = Direction::recv;
  source.self = peers[size_t(options_.rank)];
  source.peer = peers[size_t(from)];
  source.purpose = kRelayPurpose + uint32_t(request.to);
  source.nic.name = request.nic;
  set_geometry(source, *options_.settings, request.ll128);
  std::string why;
  const transport::Net* net = choose_net(source.self, peers[size_t(request.to)], why);
  if (net == nullptr) return Error(ErrorCode::unavailable, why);
  // Sockets send from host memory.
  const bool on_device = std::string_view(net->name) != "socket";
  COLL_ASSIGN(half.memory,
              transport::RelayMemory::make(source, options_.services, on_device, deadline));
  LinkSpec& target = half.to_target;
  target = source;
  target.direction = Direction::send;
  target.peer = peers[size_t(request.to)];
  target.purpose = kRelayPurpose + uint32_t(from);
  target.relay = half.memory;
  COLL_ASSIGN(half.sender, transport::find_transport("net")->open(target, options_.services));
  COLL_ASSIGN(Bytes described, half.sender->describe(deadline));
  halves_.emplace(edge, std::move(half));
  return described;
}

Result<Bytes> RelayDesk::connect(int from, const RelayRequest& request, Deadline deadline) {
  const Edge edge{request.channel, from, request.to};
  const auto node = halves_.extract(edge);
  if (node.empty()) return Error(ErrorCode::defect, "it has not opened that");
  const Half& half = node.mapped();
  Made made;
  COLL_ASSIGN(made.link, half.sender->connect(request.theirs, deadline));
  COLL_ASSIGN(made.offer, offer_relay(half.from_source, options_.services, half.memory));
  COLL_ASSIGN(Bytes described, made.offer->describe(deadline));
  std::string nic = made.link->nic(), why = made.link->why();
  if (nic.empty()) nic = half.to_target.nic.name;
  why += format("{}for rank {} (PXN)", why.empty() ? "" : "; ", from);
  made.info = {.channel = edge.channel,
               .from = from,
               .to = edge.to,
               .via = made.link->via(),
               .nic = std::move(nic),
               .why = std::move(why),
               .relay = options_.rank};
  COLL_INFO(init, "Channel {:02} : {} -> {} [send] via {} for rank {} (PXN)", edge.channel,
            options_.rank, edge.to, made.info.via, from);
  options_.proxy->add(made.link.get());
  const std::scoped_lock lock(mutex_);
  made_.emplace(edge, std::move(made));
  has_links_.store(true, std::memory_order_release);
  return described;
}

std::vector<LinkInfo> RelayDesk::infos() const {
  const std::scoped_lock lock(mutex_);
  std::vector<LinkInfo> all;
  for (const auto& [edge, made] : made_) all.push_back(made.info);
  return all;
}

void RelayDesk::each(const std::function<void(const Edge&, const transport::Link&)>& look) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [edge, made] : made_) look(edge, *made.link);
}

}  // namespace collctl::runtime
