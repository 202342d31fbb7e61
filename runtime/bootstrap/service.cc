#include "runtime/bootstrap/service.h"

#include <netinet/tcp.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace collctl::runtime::boot {
namespace {

// A host that vanishes without closing its connections (power, cable) is noticed by these probes.
void set_keepalive(int fd) {
  const int on = 1, idle_s = 10, interval_s = 5, probes = 4, unacknowledged_ms = 30'000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

Result<Fd> make_eventfd() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return base::errno_error(ErrorCode::unavailable, "eventfd", errno);
  return fd;
}

void drain(const Fd& event) {
  uint64_t count;
  while (::read(event.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

struct Notice {
  static constexpr const char* kRecord = "notice of an abort";
  AbortNotice told;
};
void fields(Record& io, Notice& notice) {
  io.field("origin", notice.told.origin);
  io.field("error", notice.told.error);
}

}  // namespace

void Service::signal(const Fd& event) {
  const uint64_t one = 1;
  while (::write(event.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

Service::Service(Setup setup)
    : rank_(setup.rank),
      size_(setup.size),
      groups_(setup.groups),
      root_text_(std::move(setup.root_text)),
      listener_(std::move(setup.listener)),
      root_line_(std::move(setup.root_line)),
      root_reader_(std::move(setup.root_reader)) {
  control_[kNext].peer = std::move(setup.next);
  control_[kPrevious].peer = std::move(setup.previous);
}

Result<std::unique_ptr<Service>> Service::start(Setup setup) {
  std::unique_ptr<Service> made(new Service(std::move(setup)));
  COLL_ASSIGN(made->news_, make_eventfd());
  COLL_ASSIGN(made->work_, make_eventfd());
  made->thread_ = std::thread([service = made.get()] { service->run(); });
  return made;
}

Service::~Service() {
  stop_ = true;
  signal(work_);
  if (thread_.joinable()) thread_.join();
}

void Service::cancel() {
  cancelled_.store(true, std::memory_order_release);
  signal(news_);
}

void Service::clear_news() {
  drain(news_);
}

std::vector<Incoming> Service::take_incoming() {
  const std::lock_guard lock(mutex_);
  return std::exchange(incoming_, {});
}

std::optional<AbortNotice> Service::notice() {
  const std::lock_guard lock(mutex_);
  const bool nobody_to_tell = notice_is_ours_ || !on_event_;
  return nobody_to_tell || watcher_knows_ ? notice_ : std::nullopt;
}

bool Service::has_previous() {
  const std::lock_guard lock(mutex_);
  return control_[kPrevious].fd.get() >= 0;
}

void Service::adopt_next(SealedFd control) {
  const std::lock_guard lock(mutex_);
  adopt_control(kNext, std::move(control));
  signal(work_);
}

void Service::report_connected() {
  const std::lock_guard lock(mutex_);
  connected_ = true;
  // A root that is gone by now is no loss: it has nothing left to do for this rank.
  if (root_line_ && !send_frame(root_line_, FrameType::connected, {})) close_root();
}

void Service::leave_root() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  signal(work_);
}

void Service::watch(std::function<void(const AbortNotice&)> on_event) {
  const std::lock_guard lock(mutex_);
  on_event_ = std::move(on_event);
  signal(work_);
}

void Service::announce(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (notice_) return;
  notice_is_ours_ = true;
  raise({rank_, error}, kSides);
}

void Service::say_bye() {
  const std::lock_guard lock(mutex_);
  for (Control& c : control_)
    // A neighbour that is gone already has said its own bye, or is found lost by the reader.
    if (c.fd && !send_frame(c.fd, FrameType::bye, {})) c.fd.reset();
}

bool Service::byes_received() {
  const std::lock_guard lock(mutex_);
  return std::all_of(std::begin(control_), std::end(control_),
                     [](const Control& c) { return c.bye || !c.fd; });
}

void Service::run() {
  std::vector<pollfd> fds;
  {
    // The reader may already hold a failure that arrived right behind this rank's place.
    const std::lock_guard lock(mutex_);
    if (root_line_) read_root();
  }
  while (!stop_) {
    fds.clear();
    add_interest(fds);
    // Pending handshakes must be timed out even when nothing else happens.
    const bool handshakes = fds.size() > 5;
    const auto ready = base::poll_fds(fds, Deadline::after_seconds(handshakes ? 1 : 3600));
    if (!ready) {
      {
        const std::lock_guard lock(mutex_);
        raise({rank_, ready.error()}, kSides);
      }
      return call_watcher();
    }
    if (stop_) return;
    handle_ready(fds);
    call_watcher();
  }
}

// Order: work, next, previous, root, then the listener's (its own first).
void Service::add_interest(std::vector<pollfd>& fds) {
  const std::lock_guard lock(mutex_);
  if (leaving_) close_root();
  fds.push_back({work_.get(), POLLIN, 0});
  for (const Control& c : control_) fds.push_back({c.fd.get(), POLLIN, 0});
  fds.push_back({root_line_.get(), POLLIN, 0});
  listener_->add_interest(fds);
}

void Service::handle_ready(const std::vector<pollfd>& fds) {
  if (fds[0].revents != 0) drain(work_);
  listener_->handle();
  const std::lock_guard lock(mutex_);
  for (const Side side : {kNext, kPrevious})
    if (fds[1 + side].revents != 0 && fds[1 + side].fd == control_[side].fd.get())
      read_control(side);
  if (fds[3].revents != 0 && root_line_) read_root();
  accept_peers();
}

void Service::accept_peers() {
  while (auto caller = listener_->next()) {
    const auto g = decoded<PeerGreeting>(caller->greeting);
    bool welcome = g && g->to == rank_ && g->from >= 0 && g->from < size_ && g->from != rank_;
    if (welcome && (g->purpose == Purpose::control || g->purpose == Purpose::ring))
      welcome = g->from == (rank_ + size_ - 1) % size_;
    else if (welcome && g->purpose == Purpose::tree)
      welcome = tree_parent(g->from, groups_, size_) == rank_;
    else
      welcome = welcome && g->purpose == Purpose::message;
    if (welcome && g->purpose == Purpose::control && control_[kPrevious].fd) welcome = false;
    if (!welcome) {
      COLL_WARN("rank {}: rejected {}: unexpected connection", rank_, caller->from.text());
      continue;
    }
    if (g->purpose == Purpose::control)
      adopt_control(kPrevious, SealedFd(std::move(*caller)));
    else
      incoming_.push_back({g->purpose, g->from, SealedFd(std::move(*caller))});
    signal(news_);
  }
}

void Service::adopt_control(Side side, SealedFd fd) {
  set_keepalive(fd.get());
  control_[side].fd = std::move(fd);
  if (notice_) send_notice(side);
}

void Service::read_control(Side side) {
  Control& c = control_[side];
  const Status state = c.reader.fill(c.fd);
  while (auto frame = c.reader.next()) {
    if (frame->type == FrameType::bye) {
      c.bye = true;
      signal(news_);
    } else if (frame->type == FrameType::notice) {
      auto notice = decoded<Notice>(frame->payload);
      raise(notice ? std::move(notice->told) : AbortNotice{c.peer.rank, notice.error()}, side);
    }
  }
  if (state) return;
  c.fd.reset();
  signal(news_);
  if (c.bye) return;
  Error lost(ErrorCode::lost,
             format("{} is gone: its connection to rank {} ended ({})",
                    rank_text(c.peer.rank, c.peer.host), rank_, state.error().message));
  lost.rank = c.peer.rank;
  lost.host = c.peer.host;
  lost.hint = "see that rank's own output and at its host's kernel log";
  raise({rank_, std::move(lost)}, side);
}

void Service::read_root() {
  const Status state = root_reader_.fill(root_line_);
  while (auto frame = root_reader_.next())
    if (frame->type == FrameType::failure) {
      Error e = decode_error(frame->payload);
      close_root();
      return raise({e.rank, std::move(e)}, kSides);
    }
  if (state) return;
  close_root();
  if (!connected_)
    raise({rank_, Error(ErrorCode::lost,
                        format("the bootstrap root at {} is gone: the process of rank 0 ended "
                               "while ranks were still connecting",
                               root_text_))
                      .blame(0)},
          kSides);
}

void Service::close_root() {
  root_line_.reset();
}

void Service::raise(AbortNotice notice, int from_side) {
  if (notice_) return;
  notice_ = std::move(notice);
  if (notice_->error.from < 0 && notice_->origin == rank_) notice_->error.from = rank_;
  for (const Side side : {kNext, kPrevious})
    if (side != from_side && control_[side].fd && !control_[side].bye) send_notice(side);
  // During start-up the ring is not closed yet, so the root spreads it.
  if (root_line_ && !send_frame(root_line_, FrameType::failure, encode_brief(notice_->error)))
    close_root();
  signal(news_);
  signal(work_);
}

void Service::send_notice(Side side) {
  const Bytes notice = encoded(Notice{{notice_->origin, brief_error(notice_->error)}});
  // A neighbour that cannot take it is lost itself; its other neighbour brings the notice round.
  if (!send_frame(control_[side].fd, FrameType::notice, notice))
    COLL_INFO(bootstrap, "rank {}: cannot notify rank {}", rank_, control_[side].peer.rank);
}

void Service::call_watcher() {
  std::function<void(const AbortNotice&)> call;
  AbortNotice told;
  {
    const std::lock_guard lock(mutex_);
    if (!notice_ || notice_is_ours_ || told_ || !on_event_) return;
    told_ = true;
    call = on_event_;
    told = *notice_;
  }
  call(told);
  const std::lock_guard lock(mutex_);
  watcher_knows_ = true;
  signal(news_);
}

}  // namespace collctl::runtime::boot
