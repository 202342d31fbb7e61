#include "runtime/one_sided/rdma.h"

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/wait.h"
#include "kernels/cpu/wait.h"

namespace collctl::runtime {
namespace {

constexpr double kRdmaGoodbyeSeconds = 2;  // for what is in flight when this end leaves
constexpr int64_t kRdmaLookMs = 20;        // how late a waiting caller sees an abort
constexpr int64_t kRdmaSpinNs = 20'000;    // that a caller polls before it sleeps
constexpr double kRdmaServiceSeconds =
    10;  // ended by an event or the bell; this only bounds a wait
// With failover also what nobody waits for has to be seen to fail.
constexpr double kFailoverLookSeconds = 0.25;
constexpr uint32_t kRdmaSlots = transport::IbOneSidedLink::kSlots;

}  // namespace

Result<std::unique_ptr<OneSidedRdma>> OneSidedRdma::start(Options options, Deadline deadline,
                                                          std::map<int, std::string>& refused) {
  std::unique_ptr<OneSidedRdma> made(new OneSidedRdma(std::move(options)));
  COLL_TRY(made->shake_hands(deadline, refused));
  COLL_ASSIGN(made->bell_, base::make_bell());
  if (made->ib_ == nullptr || made->ib_->links().empty()) return made;
  made->ib_->attach_bell(made->bell_.get());
  made->thread_ = std::thread([m = made.get()] { m->serve(); });
  return made;
}

OneSidedRdma::~OneSidedRdma() {
  if (!thread_.joinable()) return;
  const Deadline limit = Deadline::after_seconds(kRdmaGoodbyeSeconds);
  const auto all = [&](const std::function<bool(Link&)>& holds) {
    return [this, holds] {
      ib_->step();
      return std::all_of(ib_->links().begin(), ib_->links().end(), [&](const auto& each) {
        return each.second->error() || each.second->left() || holds(*each.second);
      });
    };
  };
  const auto wait_until = [&](Lock& lock, const std::function<bool()>& done) {
    while (!done() && !limit.passed())
      base::wait_for(changed_, lock, limit.earlier(Deadline::after_ms(1)), done);
  };
  {
    Lock lock(mutex_);
    // A signal that is in flight would be lost with the queue pair.
    wait_until(lock, all([](Link& link) { return !link.busy(); }));
    for (const auto& [peer, link] : ib_->links()) link->say_goodbye();
    wait_until(lock, all([](Link& link) {
                 link.look_at_control();
                 return link.delivered();
               }));
    stopping_ = true;
  }
  base::ring_bell(bell_.get());
  thread_.join();
}

// --- the service ---

void OneSidedRdma::serve() {
  std::vector<pollfd> fds;
  Lock lock(mutex_);
  while (!stopping_) {
    const auto& links = ib_->links();
    const bool owes = std::any_of(links.begin(), links.end(),
                                  [](const auto& each) { return each.second->owes_signals(); });
    const bool fails_over = std::any_of(links.begin(), links.end(),
                                        [](const auto& each) { return each.second->fails_over(); });
    ib_->arm_came();
    if (owes || sleepers_ > 0) ib_->arm_asked();
    // Completions from before the queues were armed raise no event.
    if (ib_->step()) {
      changed_.notify_all();
      continue;
    }
    fds.assign(1, {bell_.get(), POLLIN, 0});
    ib_->add_interest(fds);
    lock.unlock();
    const auto ready = base::poll_fds(
        fds, Deadline::after_seconds(fails_over ? kFailoverLookSeconds : kRdmaServiceSeconds));
    lock.lock();
    if (!ready) {
      for (const auto& [peer, link] : links) link->fail(ready.error());
      changed_.notify_all();
      return;
    }
    if (fds[0].revents != 0) base::drain_bell(bell_.get());
    ib_->look(fds);
    ib_->step();
    changed_.notify_all();
  }
}

// --- waiting ---

Result<OneSidedRdma::Link*> OneSidedRdma::open_link(int peer) {
  Link* const link = ib_ != nullptr ? ib_->link(peer) : nullptr;
  if (link == nullptr)
    return Error(ErrorCode::defect, format("rank {} has no RDMA link for puts", peer));
  if (link->error()) return *link->error();
  if (link->left())
    return Error(ErrorCode::lost, format("{} has closed its windows", link->name())).blame(peer);
  return link;
}

// Polls for a moment, then sleeps until the service has news. A caller that stops waiting ends the
// link: an answer that comes later must not come into memory that is the caller's again.
Status OneSidedRdma::wait_for(Lock& lock, Link& link, const char* what, const WaitLimit& limit,
                              const std::function<bool()>& done) {
  const Deadline spin = Deadline::after_ns(kRdmaSpinNs);
  while (!done()) {
    if (link.error()) return *link.error();
    const bool moved = ib_->step();
    if (!moved) {
      lock.unlock();
      kernels::pause_cpu();
      lock.lock();
    }
    if (!spin.passed()) continue;
    // Its queue pairs are gone: the adapter would try for a long time.
    if (link.left() && !done())
      link.fail(Error(ErrorCode::lost, format("{} has closed its windows", link.name())));
    if (limit.deadline.passed())
      link.fail(Error(ErrorCode::deadline,
                      format("{} did not complete in time: waits for {}", what, link.name())));
    lock.unlock();
    const Status alive = limit.alive();
    lock.lock();
    if (!alive) link.fail(alive.error());
    if (link.error()) return *link.error();
    ++sleepers_;
    ib_->arm_asked();
    if (!ib_->step())
      base::wait_for(changed_, lock, limit.deadline.earlier(Deadline::after_ms(kRdmaLookMs)),
                     [&] { return done() || link.error().has_value(); });
    --sleepers_;
  }
  // The end of a link is the end of what was in flight as well.
  if (link.error()) return *link.error();
  return {};
}

// Until there was room for it.
Status OneSidedRdma::give(Lock& lock, Link& link, const char* what, const WaitLimit& limit,
                          const std::function<Result<bool>()>& post) {
  Status outcome;
  bool over = false;  // it is asked again after that
  COLL_TRY(wait_for(lock, link, what, limit, [&] {
    if (over) return true;
    auto posted = post();
    if (!posted) outcome = std::move(posted.error());
    over = !posted || *posted;
    return over;
  }));
  return outcome;
}

Status OneSidedRdma::copy(Lock& lock, void* to, const void* from, uint64_t bytes,
                          Deadline deadline) {
  lock.unlock();
  Status copied = o_.copy(to, from, bytes, deadline);
  lock.lock();
  return copied;
}

// --- operations ---

Status OneSidedRdma::put(int peer, const Range& to, const void* data, int signal,
                         const WaitLimit& limit) {
  Lock lock(mutex_);
  COLL_ASSIGN(Link* const link, open_link(peer));
  // A peer whose memory shows writes late is told nothing before they were read back.
  const int with_data = link->flushes() ? -1 : signal;
  COLL_TRY(put_pieces(lock, *link, to, static_cast<const uint8_t*>(data), with_data, limit));
  if (!link->flushes()) return {};
  COLL_TRY(read_back(lock, *link, limit));
  return signal >= 0 ? link->signal(signal) : Status();
}

Status OneSidedRdma::put_pieces(Lock& lock, Link& link, const Range& to, const uint8_t* data,
                                int signal, const WaitLimit& limit) {
  const transport::IbRemoteWindow window = *link.window(to.window);
  const bool host = o_.services.device == nullptr;
  if (host && to.bytes <= link.inline_bytes()) {
    const Link::Move move{.local = const_cast<uint8_t*>(data),
                          .offset = to.offset,
                          .bytes = uint32_t(to.bytes),
                          .signal = signal};
    return give(lock, link, "a put", limit, [&] { return link.write(window, move); });
  }
  const transport::IbMemory* const own = ib_->memory_of(data, to.bytes);
  const uint64_t share = (to.bytes + link.split() - 1) / link.split();
  const uint64_t piece = own == nullptr ? transport::IbOneSided::kStageBytes
                                        : std::min<uint64_t>(share, link.most_bytes());
  const bool single = to.bytes <= piece;
  uint32_t slot = 0;
  for (uint64_t at = 0; at < to.bytes; at += piece, slot = (slot + 1) % kRdmaSlots) {
    const uint64_t bytes = std::min(piece, to.bytes - at);
    COLL_TRY(wait_for(lock, link, "a put", limit, [&] { return !link.pending(slot); }));
    if (own == nullptr) COLL_TRY(copy(lock, ib_->stage(slot), data + at, bytes, limit.deadline));
    const Link::Move move{
        .local = own != nullptr ? const_cast<uint8_t*>(data) + at : ib_->stage(slot),
        .memory = own != nullptr ? own : &ib_->stage_memory(),
        .offset = to.offset + at,
        .bytes = uint32_t(bytes),
        .slot = slot,
        .signal = single ? signal : -1};
    COLL_TRY(give(lock, link, "a put", limit, [&] { return link.write(window, move); }));
  }
  COLL_TRY(wait_for(lock, link, "a put", limit, [&] { return !link.any_pending(); }));
  return single || signal < 0 ? Status() : link.signal(signal);
}

Status OneSidedRdma::get(int peer, const Range& from, void* data, const WaitLimit& limit) {
  Lock lock(mutex_);
  COLL_ASSIGN(Link* const link, open_link(peer));
  const transport::IbRemoteWindow window = *link->window(from.window);
  const transport::IbMemory* const own = ib_->memory_of(data, from.bytes);
  auto* const to = static_cast<uint8_t*>(data);
  const uint64_t share = (from.bytes + link->split() - 1) / link->split();
  const uint64_t piece = own == nullptr ? transport::IbOneSided::kStageBytes
                                        : std::min<uint64_t>(share, link->most_bytes());
  uint64_t asked = 0, taken = 0;
  const uint64_t pieces = (from.bytes + piece - 1) / piece;
  while (taken < pieces) {
    for (; asked < pieces && asked - taken < kRdmaSlots; ++asked) {
      const auto slot = uint32_t(asked % kRdmaSlots);
      const uint64_t at = asked * piece;
      const Link::Move move{.local = own != nullptr ? to + at : ib_->stage(slot),
                            .memory = own != nullptr ? own : &ib_->stage_memory(),
                            .offset = from.offset + at,
                            .bytes = uint32_t(std::min(piece, from.bytes - at)),
                            .slot = slot,
                            .signal = -1};
      COLL_TRY(give(lock, *link, "a get", limit, [&] { return link->read(window, move); }));
    }
    const auto slot = uint32_t(taken % kRdmaSlots);
    COLL_TRY(wait_for(lock, *link, "a get", limit, [&] { return !link->pending(slot); }));
    const uint64_t at = taken * piece;
    if (own == nullptr)
      COLL_TRY(
          copy(lock, to + at, ib_->stage(slot), std::min(piece, from.bytes - at), limit.deadline));
    ++taken;
  }
  return {};
}

Status OneSidedRdma::signal(int peer, int signal) {
  const Lock lock(mutex_);
  COLL_ASSIGN(Link* const link, open_link(peer));
  COLL_TRY(link->signal(signal));
  // The service sends signals that found no room, and has to be asked to look.
  if (link->owes_signals()) base::ring_bell(bell_.get());
  return {};
}

Status OneSidedRdma::fence(int peer, const WaitLimit& limit) {
  Lock lock(mutex_);
  COLL_ASSIGN(Link* const link, open_link(peer));
  return read_back(lock, *link, limit);
}

// The acknowledgement of a write says that the peer's adapter has it, the answer to a read behind
// it that memory does. A read may overtake writes that are in flight, so those end first.
Status OneSidedRdma::read_back(Lock& lock, Link& link, const WaitLimit& limit) {
  if (!link.unread()) return {};
  COLL_TRY(wait_for(lock, link, "a fence", limit, [&] { return link.writes_under_way() == 0; }));
  COLL_TRY(give(lock, link, "a fence", limit,
                [&] { return link.read_back(ib_->stage(0), ib_->stage_memory()); }));
  return wait_for(lock, link, "a fence", limit, [&] { return !link.any_pending(); });
}

Status OneSidedRdma::health(int peer) {
  const Lock lock(mutex_);
  Link* const link = ib_ != nullptr ? ib_->link(peer) : nullptr;
  if (link == nullptr || !link->error()) return {};
  return *link->error();
}

bool OneSidedRdma::may_signal(int peer) {
  const Lock lock(mutex_);
  Link* const link = ib_ != nullptr ? ib_->link(peer) : nullptr;
  if (link == nullptr || link->error()) return false;
  if (!link->left()) return true;
  while (ib_->step()) {
  }
  return false;
}

}  // namespace collctl::runtime
