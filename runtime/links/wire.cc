#include "runtime/links/wire.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "runtime/links/wire_pending.h"
#include "transport/net/relay.h"
#include "transport/table/transports.h"

namespace collctl::runtime {
namespace {

using transport::Direction;
using transport::LinkSpec;
using Part = WirePart;

// Bootstrap messages of the blob exchange; one stream for each pair of ranks.
constexpr uint32_t kWireTag = 0x57495245;
constexpr uint32_t kMaxEdgesOfPair = 4 * kernels::kMaxChannels;

}  // namespace

struct Wire::Table {
  explicit Table(size_t ranks)
      : send(ranks * kernels::kProtocolCount), recv(ranks * kernels::kProtocolCount) {
    links = {.send = send.data(), .recv = recv.data()};
  }
  std::vector<kernels::Fifo*> send, recv;
  kernels::ChannelLinks links;
};

Wire::Wire(Options options) : options_(std::move(options)) {}
Wire::~Wire() {
  close();
}

Result<size_t> Wire::choose(const Edge& edge, size_t first) const {
  const auto& peers = *options_.peers;
  const auto table = transport::transports();
  const Settings& s = *options_.settings;
  const transport::PeerInfo &a = peers[size_t(edge.from)], &b = peers[size_t(edge.to)];
  std::string why;
  for (size_t i = first; i < table.size(); ++i) {
    const std::string name = table[i].name;
    std::string not_this;
    if (!s.transport.empty() && name != s.transport) continue;
    if (s.transport.empty() && (name == "loopback" || name == "p2p") && s.p2p_disabled)
      not_this = "P2P_DISABLE is set";
    if (not_this.empty() && s.transport.empty() && name == "p2p" && options_.no_p2p)
      not_this = options_.no_p2p(edge.from, edge.to);
    if (s.transport.empty() && name == "shm" && s.shm_disabled) not_this = "SHM_DISABLE is set";
    if (not_this.empty()) {
      const transport::Reach reach = table[i].reach(a, b);
      if (reach.ok) return i;
      not_this = reach.why;
    }
    why += format("{}{}: {}", why.empty() ? "" : "; ", name, not_this);
  }
  return Error(ErrorCode::unavailable,
               format("no transport connects rank {} (host {}) and rank {} (host {}){}{}",
                      edge.from, a.host, edge.to, b.host,
                      s.transport.empty() ? ""
                                          : format(", of which only '{}' is allowed", s.transport),
                      why.empty() ? "" : ": " + why),
               s.transport.empty() ? "" : "leave out --transport (COLLCTL_TRANSPORT)")
      .blame(edge.from == options_.rank ? edge.to : edge.from);
}

bool Wire::has(const Edge& edge, kernels::Protocol protocol) const {
  return fifo(edge, protocol) != nullptr;
}

kernels::Fifo* Wire::fifo(const Edge& edge, kernels::Protocol protocol) const {
  const auto link = links_.find(edge);
  return link == links_.end() ? nullptr : link->second->fifo(protocol);
}

std::string Wire::why(const Edge& edge) const {
  const auto link = links_.find(edge);
  return link == links_.end() ? "" : link->second->why();
}

bool Wire::wants_ll128(const Pending& p) const {
  // A relay sends over a network.
  const std::string_view row = p.part == Part::whole ? transport::transports()[p.row].name : "net";
  if (options_.network_ll128 ? row == "shm" : row == "net") return false;
  return !options_.wants_ll128 || options_.wants_ll128(p.edge);
}

void Wire::fill_spec(Pending& p, uint32_t purpose) const {
  const auto& peers = *options_.peers;
  LinkSpec& spec = p.spec;
  spec = {};
  spec.channel = p.edge.channel;
  spec.direction = p.direction;
  spec.self = peers[size_t(options_.rank)];
  spec.peer = peers[size_t(p.part == Part::whole ? p.peer : p.by)];
  spec.purpose = p.part == Part::whole ? purpose : kRelayPurpose + uint32_t(other_end(p.edge));
  spec.p2p_read = options_.settings->p2p_read;
  if (options_.nic_of) spec.nic = options_.nic_of(p.edge);
  set_geometry(spec, *options_.settings, wants_ll128(p));
}

void Wire::open(Pending& p, uint32_t purpose, bool paired, Deadline deadline) {
  fill_spec(p, purpose);
  p.spec.paired = paired;
  p.failure.reset();
  p.peer_failure.reset();
  p.mine.clear();
  auto opened = p.part == Part::source
                    ? open_relayed(p.spec, options_.services)
                    : transport::transports()[p.row].open(p.spec, options_.services);
  if (!opened) {
    p.failure = std::move(opened.error());
    return;
  }
  p.endpoint = std::move(opened).value();
  if (p.part == Part::source) return;  // the relay describes it
  if (auto blob = p.endpoint->describe(deadline); !blob)
    p.failure = std::move(blob.error());
  else
    p.mine = std::move(blob).value();
}

bool Wire::is_paired(const Pending& p, const std::vector<Pending*>& round) {
  const Edge back{p.edge.channel, p.edge.to, p.edge.from};
  return p.part == Part::whole && std::any_of(round.begin(), round.end(), [&](const Pending* q) {
           return q->edge == back && q->part == Part::whole && q->row == p.row;
         });
}

Status Wire::exchange(std::vector<Pending*>& round, Deadline deadline) {
  // By peer; within a pair both ends have the edges in the same order.
  std::sort(round.begin(), round.end(), [](const Pending* a, const Pending* b) {
    return std::tie(a->peer, a->edge) < std::tie(b->peer, b->edge);
  });
  std::vector<std::span<Pending*>> pairs;
  for (size_t from = 0; from < round.size();) {
    size_t to = from;
    while (to < round.size() && round[to]->peer == round[from]->peer) ++to;
    pairs.emplace_back(round.data() + from, to - from);
    from = to;
  }
  for (const auto& edges : pairs) {
    ByteWriter w;
    w.put(uint32_t(edges.size()));
    for (const Pending* p : edges) {
      w.put(p->edge.channel).put(p->edge.from).put(p->edge.to).put(uint32_t(p->row));
      w.put(int32_t(p->failure ? int(p->failure->code) : 0));
      if (p->failure)
        w.put_string(p->failure->chain()).put_string(p->failure->hint);
      else
        w.put_bytes(p->mine);
    }
    COLL_TRY_IN(options_.bootstrap->send(edges[0]->peer, kWireTag, w.bytes(), deadline),
                format("describe connections to rank {}", edges[0]->peer));
  }
  for (const auto& edges : pairs) {
    const int peer = edges[0]->peer;
    auto blob = options_.bootstrap->recv(peer, kWireTag, deadline);
    if (!blob)
      return std::move(blob.error())
          .within(format("connect rank {} and rank {}", options_.rank, peer));
    COLL_TRY(read_answer(peer, *blob, edges));
  }
  return {};
}

Status Wire::read_answer(int peer, ByteView blob, std::span<Pending*> edges) {
  ByteReader r(blob);
  const auto differ = [&] {
    return Error(
               ErrorCode::lost,
               format("rank {} and rank {} try to connect different channels", options_.rank, peer),
               "all ranks must start the same operations in the same order")
        .blame(peer);
  };
  const auto count = r.get<uint32_t>();
  if (!r.ok() || count != edges.size() || count > kMaxEdgesOfPair) return differ();
  for (Pending* p : edges) {
    Edge edge{};
    edge.channel = r.get<int>();
    edge.from = r.get<int>();
    edge.to = r.get<int>();
    const auto row = r.get<uint32_t>();
    const auto code = r.get<int32_t>();
    if (!r.ok() || edge != p->edge || row != p->row) return differ();
    if (code != 0) {
      const std::string message = r.get_string();
      p->peer_failure = Error(ErrorCode(code), message, r.get_string()).blame(peer);
    } else {
      const ByteView bytes = r.get_bytes();
      p->theirs.assign(bytes.begin(), bytes.end());
    }
  }
  if (!r.ok() || !r.at_end()) return differ();
  return {};
}

// After an exchange: both ends know both outcomes and come to the same conclusion.
Status Wire::settle(Pending& p, Deadline deadline) {
  if (!p.failure && !p.peer_failure) {
    p.ready = true;
    return {};
  }
  const auto decline = p.part == Part::whole ? transport::transports()[p.row].decline : nullptr;
  if (p.failure && !p.peer_failure && decline != nullptr)
    COLL_TRY_IN(decline(p.spec, options_.services, p.theirs, deadline), edge_text(p.edge));
  const Error& why = p.failure ? *p.failure : *p.peer_failure;
  p.endpoint.reset();
  if (p.part != Part::whole && goes_without_relay(p)) return {};
  const bool try_next = p.part == Part::whole &&
                        (!p.failure || p.failure->code == ErrorCode::unavailable) &&
                        (!p.peer_failure || p.peer_failure->code == ErrorCode::unavailable) &&
                        options_.settings->transport.empty();
  if (try_next) {
    if (auto next = choose(p.edge, p.row + 1)) {
      if (fallback_.empty())
        fallback_ = format("{} goes over {} instead of {}: {}{}", edge_text(p.edge),
                           transport::transports()[*next].name, transport::transports()[p.row].name,
                           why.chain(), why.hint.empty() ? "" : " (" + why.hint + ")");
      p.row = *next;
      return {};
    }
  }
  p.fatal = why;
  if (p.fatal->rank < 0) p.fatal->rank = p.peer;
  if (p.asked && p.fatal->code == ErrorCode::unavailable)
    p.fatal->hint += (p.fatal->hint.empty() ? "" : "; ") + std::string(kWithoutRelay);
  return {};
}

void Wire::enter(const Pending& p, transport::Link& link) {
  channel(p.edge.channel);  // makes the table
  Table& table = *tables_[size_t(p.edge.channel)];
  auto& side = p.direction == Direction::send ? table.send : table.recv;
  const auto at = size_t(p.direction == Direction::send ? p.edge.to : p.edge.from);
  for (int i = 0; i < kernels::kProtocolCount; ++i) {
    kernels::Fifo* fifo = link.fifo(kernels::Protocol(i));
    // For its data, whoever sends it.
    if (p.part == Part::target && fifo != nullptr) fifo->peer = p.edge.from;
    side[at * kernels::kProtocolCount + size_t(i)] = fifo;
  }
  const bool net = link.needs_progress();
  std::string nic = link.nic();
  if (net && nic.empty()) nic = p.spec.nic.name;
  infos_.push_back({p.edge.channel, p.edge.from, p.edge.to, link.via(), std::move(nic), link.why(),
                    p.part == Part::whole ? -1 : p.by});
  const auto& peers = *options_.peers;
  const auto place = [&](int rank) { return format("{}[{:x}]", rank, peers[size_t(rank)].device); };
  // A memory link is one thing and told once, by its sender; a network link has two ends.
  if (net || p.direction == Direction::send)
    COLL_INFO(init, "Channel {:02} : {} -> {}{} via {}", p.edge.channel, place(p.edge.from),
              place(p.edge.to),
              !net                             ? ""
              : p.direction == Direction::send ? " [send]"
                                               : " [receive]",
              link.via());
}

Status Wire::make_links(std::vector<Pending>& pending, Direction direction, Deadline deadline) {
  for (Pending& p : pending) {
    if (p.direction != direction) continue;
    auto link = p.endpoint->connect(p.part == Part::source ? p.offer : p.theirs, deadline);
    if (!link) {
      Error error = std::move(link.error());
      if (error.rank < 0) error.rank = p.spec.peer.rank;
      return std::move(error).within("connect " + edge_text(p.edge));
    }
    enter(p, **link);
    if ((*link)->needs_progress()) {
      // Sending ends are made first.
      const auto sends = direction == Direction::recv && p.spec.paired
                             ? links_.find(Edge{p.edge.channel, p.edge.to, p.edge.from})
                             : links_.end();
      options_.proxy->add(link->get(), sends != links_.end() ? sends->second.get() : nullptr);
      proxied_ = true;
    }
    links_.emplace(p.edge, std::move(*link));
    if (direction == Direction::recv) offers_.push_back(std::move(p.endpoint));
  }
  return {};
}

int Wire::other_end(const Edge& edge) const {
  return edge.from == options_.rank ? edge.to : edge.from;
}

void Wire::add_pending(const Edge& e, std::vector<Pending>& pending) {
  COLL_CHECK(e.from == options_.rank || e.to == options_.rank);
  Pending& p = pending.emplace_back();
  p.edge = e;
  p.peer = other_end(e);
  p.direction = e.from == options_.rank ? Direction::send : Direction::recv;
  RelayChoice relay = options_.relay_of ? options_.relay_of(e) : RelayChoice{};
  auto row = choose(relay.by < 0 ? e : Edge{e.channel, relay.by, e.to}, 0);
  if (!relay.refused.empty())
    row = Error(ErrorCode::unavailable,
                format("rank {} cannot send through the GPU of rank {} (PXN): {}", e.from, relay.by,
                       relay.refused),
                kWithoutRelay);
  if (!row) {
    p.fatal = std::move(row.error());
    return;
  }
  p.row = *row;
  if (relay.by < 0) return;
  p.part = e.from == options_.rank ? Part::source : Part::target;
  p.by = relay.by;
  p.asked = relay.asked;
  relays_[e] = relay.by;
}

Status Wire::connect(std::span<const Edge> edges, uint32_t purpose, Deadline deadline) {
  std::vector<Pending> pending;
  for (const Edge& e : edges) {
    if (has(e) || e.from == e.to) continue;
    if (std::any_of(pending.begin(), pending.end(), [&](auto& p) { return p.edge == e; })) continue;
    add_pending(e, pending);
  }
  Status connected = connect_all(pending, purpose, deadline);
  // Offers stay until the links are closed: a peer that is about to take one when this rank fails
  // would else find it gone, and report that instead of this rank's reason.
  if (!connected)
    for (Pending& p : pending)
      if (p.endpoint) offers_.push_back(std::move(p.endpoint));
  return connected;
}

Status Wire::connect_all(std::vector<Pending>& pending, uint32_t purpose, Deadline deadline) {
  // An edge that cannot be made does not keep this rank from answering its other peers.
  std::optional<Error> fatal;
  for (const Pending& p : pending)
    if (p.fatal && !fatal) fatal = p.fatal;
  while (true) {
    std::vector<Pending*> round;
    for (Pending& p : pending)
      if (!p.ready && !p.fatal) round.push_back(&p);
    if (round.empty()) break;
    for (Pending* p : round) open(*p, purpose, is_paired(*p, round), deadline);
    COLL_TRY(open_at_relays(round, deadline));
    COLL_TRY(exchange(round, deadline));
    for (Pending* p : round) {
      COLL_TRY(settle(*p, deadline));
      if (p->fatal && !fatal) fatal = p->fatal;
    }
  }
  if (fatal) return std::move(*fatal);
  COLL_TRY(connect_at_relays(pending, deadline));
  COLL_TRY(make_links(pending, Direction::send, deadline));
  return make_links(pending, Direction::recv, deadline);
}

const kernels::ChannelLinks& Wire::channel(int channel) {
  COLL_CHECK(channel >= 0 && channel < kernels::kMaxChannels);
  while (tables_.size() <= size_t(channel))
    tables_.push_back(std::make_unique<Table>(options_.peers->size()));
  kernels::ChannelLinks& links = tables_[size_t(channel)]->links;
  if (size_t(channel) < windows_.size()) links.window = &windows_[size_t(channel)];
  return links;
}

std::vector<LinkInfo> Wire::infos() const {
  std::vector<LinkInfo> all = infos_;
  if (desk_ != nullptr)
    for (LinkInfo& relayed : desk_->infos()) all.push_back(std::move(relayed));
  return all;
}

// `far`: the rank that the link connects this one with.
void Wire::each_link(
    const std::function<void(const Edge&, const transport::Link&, int far)>& look) const {
  for (const auto& [edge, link] : links_) {
    const auto relay = relays_.find(edge);
    look(edge, *link, relay == relays_.end() ? other_end(edge) : relay->second);
  }
  if (desk_ == nullptr) return;
  desk_->each([&](const Edge& edge, const transport::Link& link) { look(edge, link, edge.to); });
}

uint64_t Wire::device_bytes() const {
  uint64_t bytes = 0;
  each_link([&](const Edge&, const transport::Link& link, int) { bytes += link.device_bytes(); });
  return bytes;
}

void Wire::add_reducer(int channel_number, std::unique_ptr<transport::ReducerLink> link) {
  channel(channel_number);  // makes the table
  Table& table = *tables_[size_t(channel_number)];
  const auto at =
      size_t(options_.rank) * kernels::kProtocolCount + size_t(kernels::Protocol::simple);
  table.send[at] = link->fifo(kernels::Protocol::simple);
  table.recv[at] = link->sums();
  infos_.push_back({channel_number, options_.rank, options_.rank, link->via(), link->nic()});
  COLL_INFO(init, "Channel {:02} : {} -> network via {}", channel_number, options_.rank,
            link->via());
  options_.proxy->add(link.get());
  proxied_ = true;
  reducers_.push_back(std::move(link));
}

uint64_t Wire::carrying_ns(int peer) const {
  uint64_t all = 0;
  for (const auto& [edge, link] : links_)
    if (edge.from == options_.rank && edge.to == peer) all += link->carrying_ns();
  return all;
}

std::string Wire::interface_of(const Edge& edge) const {
  const auto& interfaces = options_.services.interfaces;
  const auto link = links_.find(edge);
  if (link == links_.end() || interfaces == nullptr || interfaces->size() < 2) return "";
  return link->second->nic();
}

std::string Wire::condition(int peer) const {
  std::set<std::string> all;
  each_link([&](const Edge& edge, const transport::Link& link, int far) {
    if (edge.from == peer || edge.to == peer || far == peer) all.insert(link.condition());
  });
  for (const auto& [edge, by] : relays_)
    if (edge.from == peer || edge.to == peer || by == peer)
      all.insert(format("rank {} sends for rank {} to rank {} (PXN)", by, edge.from, edge.to));
  all.erase("");
  std::string text;
  for (const std::string& each : all) text += (text.empty() ? "" : "; ") + each;
  return text;
}

std::optional<Wire::Unreached> Wire::unreached() const {
  Unreached found;
  each_link([&](const Edge& edge, const transport::Link& link, int far) {
    if (found.peer >= 0) return;  // one explains enough, and each may take a moment
    if (const double seconds = link.unacknowledged_s(); seconds > 0)
      found = {far, seconds, interface_of(edge)};
  });
  return found.peer < 0 ? std::nullopt : std::optional(found);
}

void Wire::close() {
  for (auto& link : reducers_)
    if (options_.proxy != nullptr) options_.proxy->remove(link.get());
  reducers_.clear();
  desk_.reset();
  for (auto& [edge, link] : links_)
    if (link->needs_progress() && options_.proxy != nullptr) options_.proxy->remove(link.get());
  offers_.clear();
  links_.clear();
  tables_.clear();
}

}  // namespace collctl::runtime
