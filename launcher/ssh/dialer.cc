#include "launcher/ssh/dialer.h"

#include <cerrno>

namespace collctl::launcher {

Dialer::Dialer(std::string host, std::string name, int port, double seconds)
    : host_(std::move(host)),
      name_(std::move(name)),
      seconds_(seconds),
      deadline_(Deadline::after_seconds(seconds)),
      try_until_(deadline_),
      lookup_(std::make_unique<base::NameLookup>(name_, port)) {
  progress();
}

void Dialer::add_interest(std::vector<pollfd>& fds) const {
  if (error_ || connected_) return;
  if (lookup_)
    fds.push_back({lookup_->fd(), POLLIN, 0});
  else if (fd_)
    fds.push_back({fd_.get(), POLLOUT, 0});
}

Deadline Dialer::wakeup() const {
  return try_until_.earlier(deadline_);
}

void Dialer::failed(int error_number) {
  fd_.reset();
  Error e = error_number == ETIMEDOUT ? timed_out(host_, where_, Stage::tcp, seconds_)
                                      : not_connected(host_, where_, error_number);
  // "network is unreachable" of an IPv6 address says less than the error of an IPv4 one.
  if (!failure_ || failure_number_ == ENETUNREACH) {
    failure_ = std::move(e);
    failure_number_ = error_number;
  }
  try_next();
}

void Dialer::move_deadlines() {
  const int64_t more = asked_ns() - asked_before_ns_;
  asked_before_ns_ += more;
  deadline_ = Deadline::at_ns(deadline_.at() + more);
  try_until_ = Deadline::at_ns(try_until_.at() + more);
}

void Dialer::try_next() {
  while (next_ < addresses_.size() && !deadline_.passed()) {
    const Address& address = addresses_[next_++];
    where_ = address.text();
    // A silent address leaves time for the others.
    const int64_t left = int64_t(addresses_.size() - next_) + 1;
    try_until_ = Deadline::after_ns(deadline_.remaining_ns() / left);
    fd_ = base::Fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd_) return failed(errno);
    const int rc = ::connect(fd_.get(), address.raw(), address.length);
    if (rc == 0 || errno == EINPROGRESS || errno == EINTR) return;
    return failed(errno);
  }
  error_ = failure_ ? *failure_ : timed_out(host_, where_, Stage::tcp, seconds_);
}

void Dialer::progress() {
  move_deadlines();
  if (error_ || connected_) return;
  if (lookup_) {
    if (!lookup_->done()) {
      if (deadline_.passed()) error_ = timed_out(host_, "", Stage::name, seconds_);
      return;
    }
    addresses_ = lookup_->addresses();
    if (addresses_.empty()) {
      error_ = no_such_name(host_, name_, lookup_->failure());
      return;
    }
    lookup_.reset();
    deadline_ = Deadline::after_seconds(seconds_);
    return try_next();
  }
  pollfd p{fd_.get(), POLLOUT, 0};
  const auto ready = base::poll_fds({&p, 1}, Deadline::at_ns(0));
  if (!ready || ready.value() == 0) {
    if (try_until_.passed()) failed(ETIMEDOUT);
    return;
  }
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) return failed(failure);
  if (auto set = base::set_no_delay(fd_.get()); !set) {
    error_ = set.error();
    return;
  }
  connected_ = true;
}

}  // namespace collctl::launcher
