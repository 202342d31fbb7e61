// Edges whose data another rank's GPU sends (PXN): the Wire's part with relays (relay_desk.h).
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "runtime/links/wire_pending.h"

namespace collctl::runtime {
namespace {

using Part = WirePart;
// Tag of the messages that pass the descriptors of relays' lines.
constexpr uint64_t kRelayLineTag = 0x50584e;

// How long a relay may take: whoever waits for this rank meanwhile is to hear from it whose fault
// it is.
Deadline before(Deadline deadline) {
  return Deadline::after_ns(deadline.remaining_ns() / 4 * 3);
}

}  // namespace

Status Wire::open_relays(const std::set<int>& relays, const std::set<int>& askers,
                         Deadline deadline) {
  const transport::Services& services = options_.services;
  const uint64_t tag = kRelayLineTag ^ services.comm_hash;
  std::map<int, base::Fd> lines;
  for (const int asker : askers) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
      return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
    lines[asker] = base::Fd(ends[0]);
    const base::Fd theirs(ends[1]);
    COLL_TRY(options_.bootstrap->send_fd(asker, tag, theirs.get(), deadline));
  }
  if (!lines.empty()) {
    COLL_ASSIGN(desk_, RelayDesk::start({.rank = options_.rank,
                                         .peers = options_.peers,
                                         .settings = options_.settings,
                                         .services = services,
                                         .fds = options_.bootstrap->fd_sender(),
                                         .proxy = options_.proxy},
                                        std::move(lines)));
  }
  lines_.emplace(*options_.peers, services.abort_word);
  for (const int relay : relays) {
    COLL_ASSIGN(base::Fd line, options_.bootstrap->recv_fd(relay, tag, deadline));
    lines_->add(relay, std::move(line));
  }
  return {};
}

// For a round's sources: their relays make ready, and describe the network's end.
Status Wire::open_at_relays(std::span<Pending* const> round, Deadline deadline) {
  RelayLines::Requests requests;
  std::map<int, std::vector<Pending*>> edges;
  for (Pending* p : round) {
    if (p->part != Part::source || p->failure) continue;
    requests[p->by].push_back(
        {.channel = p->edge.channel,
         .to = p->edge.to,
         .nic = p->spec.nic.name,
         .ll128 = p->spec.geometry[int(kernels::Protocol::ll128)].slot_bytes != 0});
    edges[p->by].push_back(p);
  }
  if (requests.empty()) return {};
  COLL_ASSIGN(auto answers, lines_->ask(RelayCall::open, requests, before(deadline)));
  for (auto& [by, list] : edges)
    for (size_t i = 0; i < list.size(); ++i) {
      auto& answer = answers.at(by)[i];
      if (answer)
        list[i]->mine = std::move(*answer);
      else
        list[i]->failure =
            std::move(answer.error()).within(format("send through the GPU of rank {} (PXN)", by));
    }
  return {};
}

// Both ends are described: the relays connect to the receivers, and tell where the data goes.
Status Wire::connect_at_relays(std::vector<Pending>& pending, Deadline deadline) {
  RelayLines::Requests requests;
  std::map<int, std::vector<Pending*>> edges;
  for (Pending& p : pending) {
    if (p.part != Part::source) continue;
    requests[p.by].push_back(
        {.channel = p.edge.channel, .to = p.edge.to, .theirs = std::move(p.theirs)});
    edges[p.by].push_back(&p);
  }
  if (requests.empty()) return {};
  COLL_ASSIGN(auto answers, lines_->ask(RelayCall::connect, requests, before(deadline)));
  for (auto& [by, list] : edges)
    for (size_t i = 0; i < list.size(); ++i) {
      auto& answer = answers.at(by)[i];
      if (!answer) return std::move(answer.error()).within("connect " + edge_text(list[i]->edge));
      list[i]->offer = std::move(*answer);
    }
  return {};
}

// The relay cannot do it: both ends connect without it.
bool Wire::goes_without_relay(Pending& p) {
  const auto& its = p.part == Part::source ? p.failure : p.peer_failure;
  const auto& others = p.part == Part::source ? p.peer_failure : p.failure;
  if (!its || others || its->code != ErrorCode::unavailable || p.asked) return false;
  auto row = choose(p.edge, 0);
  if (!row) return false;
  if (fallback_.empty())
    fallback_ = format("{} goes without rank {} as its relay (PXN): {}", edge_text(p.edge), p.by,
                       its->chain());
  relays_.erase(p.edge);
  p.part = Part::whole;
  p.row = *row;
  return true;
}

std::optional<int> Wire::behind_relay(int relay, Deadline deadline) {
  const auto held = std::ranges::find_if(relays_, [&](const auto& of) {
    const auto link = links_.find(of.first);
    return of.second == relay && of.first.from == options_.rank && link != links_.end() &&
           !link->second->drained();
  });
  if (held == relays_.end()) return std::nullopt;
  const Edge& edge = held->first;
  return lines_->ask(RelayCall::ping, {{relay, {{.channel = edge.channel, .to = edge.to}}}},
                     deadline)
             ? edge.to
             : relay;
}

}  // namespace collctl::runtime
