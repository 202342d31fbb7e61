// Ranks that abort their start: what the others are told, and how where this rank has not even
// checked in.
#include "base/log.h"
#include "runtime/bootstrap/root.h"

namespace collctl::runtime {

using namespace boot;

namespace {

constexpr int64_t kToldLookMs = 10;

}  // namespace

Error start_aborted(Error why, int rank, const std::string& host) {
  if (why.rank >= 0) return why;
  why.rank = rank;
  why.host = host;
  return std::move(why.within(format("rank {} aborted", rank)));
}

Status decline_start(const UniqueId& id, int rank, int size, const std::string& host,
                     const Error& why, Deadline deadline, uint32_t* cancelled) {
  Decline d{rank, size, why};
  if (d.why.rank < 0) {
    d.why.rank = rank;
    d.why.host = host;
  }
  d.why.within(format("{} could not start", rank_text(rank, host)));
  const std::string what = "bootstrap: decline at the root";
  base::Session session;
  auto fd = base::auth_connect(id.root_address(), id.secret, encoded(d), deadline, {}, cancelled,
                               &session);
  if (!fd) return std::move(fd.error().within(what));
  SealedFd line(std::move(*fd), session);
  // The root may end with the process of rank 0: that it has this is what it answers.
  FrameReader reader;
  Status state;
  while (state && !reader.next()) {
    pollfd p{line.get(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0) return Error(ErrorCode::deadline, "no answer before the deadline").within(what);
    state = reader.fill(line);
  }
  return {};
}

void BootstrapRoot::State::decline(base::Accepted caller) {
  auto d = decoded<Decline>(caller.greeting);
  if (!d) {
    COLL_WARN("bootstrap root: rejected {}: its message is malformed", caller.from.text());
    return;
  }
  // All ranks are there already: this is one too many, and nobody has to know.
  if (phase == Phase::placed)
    return refuse(SealedFd(std::move(caller)),
                  Error(ErrorCode::usage, "all ranks have checked in"));
  if (size == 0) size = d->size;
  const int rank = d->rank;
  if (d->why.from < 0) d->why.from = rank;
  COLL_INFO(bootstrap, "bootstrap root: rank {} has declined: {}", rank, d->why.message);
  fail(std::move(d->why));
  refuse(SealedFd(std::move(caller)), verdict);
  count_told(rank);
}

void BootstrapRoot::State::count_told(int rank) {
  if (rank >= 0 && rank < size) told.insert(rank);
  untold = size - int(told.size());
}

void BootstrapRoot::await_told(Deadline deadline, uint32_t* cancelled) const {
  const auto is_cancelled = [&] {
    return cancelled != nullptr && std::atomic_ref<uint32_t>(*cancelled).load() != 0;
  };
  while (state_->untold.load() > 0 && !deadline.passed() && !is_cancelled())
    base::sleep_until(deadline.earlier(Deadline::after_ms(kToldLookMs)));
}

}  // namespace collctl::runtime
