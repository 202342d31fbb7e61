#include "tests/sim/cable.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/format.h"
#include "launcher/local/frame_parser.h"

namespace collctl::sim {
namespace {

using launcher::ChannelPhase;

constexpr size_t kMostInFlight = 64;  // pieces
constexpr int64_t kRetry = kMs;       // where the receiver's buffer is full, or the way is cut

void make_pair(base::Fd& a, base::Fd& b) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) std::abort();
  a = base::Fd(fds[0]);
  b = base::Fd(fds[1]);
}

// The client's end of a Cable.
class SimChannel final : public launcher::HostChannel {
 public:
  SimChannel(Network& network, std::string from, const launcher::HostTarget& target,
             double timeout_s)
      : network_(network),
        from_(std::move(from)),
        to_(target.name),
        up_at_(now_ns() + network.login_ns(to_)),
        late_at_(Deadline::after_seconds(timeout_s).at()) {}

  ~SimChannel() override {
    if (cable_ != nullptr) cable_->near.reset();
  }

  void add_interest(std::vector<pollfd>& fds) const override {
    if (phase_ == ChannelPhase::open)
      fds.push_back({cable_->near.get(), short(POLLIN | (queue_.empty() ? 0 : POLLOUT)), 0});
  }
  Deadline wakeup() const override {
    if (phase_ != ChannelPhase::connecting) return Deadline::after_seconds(3600);
    return Deadline::at_ns(now_ns() < up_at_ ? std::min(up_at_, late_at_) : late_at_);
  }
  void progress() override {
    if (phase_ == ChannelPhase::connecting) connect();
    if (phase_ != ChannelPhase::open) return;
    while (!queue_.empty()) {
      const ssize_t n = ::send(cable_->near.get(), queue_.data(), queue_.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) break;
      // As to a connection that has gone: it is read to its end.
      queue_.erase(0, n < 0 ? queue_.size() : size_t(n));
    }
    if (closing_ && queue_.empty()) ::shutdown(cable_->near.get(), SHUT_WR);
    char chunk[4096];
    while (output_.size() < kMostBuffered) {
      const ssize_t n = ::read(cable_->near.get(), chunk, sizeof chunk);
      if (n < 0) return;
      if (n == 0) {
        phase_ = ChannelPhase::ended;
        return;
      }
      output_.append(chunk, size_t(n));
    }
  }
  ChannelPhase phase() const override { return phase_; }
  std::optional<Error> error() const override { return error_; }
  void write(ByteView d) override {
    if (closing_) return;
    queue_.append(reinterpret_cast<const char*>(d.data()), d.size());
  }
  size_t pending() const override { return queue_.size(); }
  void close_input() override { closing_ = true; }
  std::string& output() override { return output_; }
  std::string& errors() override { return errors_; }
  std::optional<int> exit_code() const override {
    return cable_ != nullptr ? cable_->exit_code : std::nullopt;
  }
  std::string description() const override { return "sim: " + to_; }

 private:
  void connect() {
    const bool reached = network_.passes(from_, to_) && network_.passes(to_, from_);
    if (now_ns() >= up_at_ && reached) {
      phase_ = ChannelPhase::open;
      cable_ = network_.connect(from_, to_);
    } else if (now_ns() >= late_at_) {
      phase_ = ChannelPhase::failed;
      error_ = Error(ErrorCode::launch, to_ + ": no connection before the deadline");
      error_->host = to_;
    }
  }

  Network& network_;
  std::string from_, to_;
  int64_t up_at_, late_at_;
  ChannelPhase phase_ = ChannelPhase::connecting;
  std::shared_ptr<Cable> cable_;
  std::string queue_, output_, errors_;
  std::optional<Error> error_;
  bool closing_ = false;
};

}  // namespace

Wire::Wire(Network& network, std::string from, std::string to, int in, int out)
    : network_(network), from_(std::move(from)), to_(std::move(to)), in_(in), out_(out) {
  World::here().add(*this);
}

Wire::~Wire() {
  World::here().remove(*this);
}

pollfd Wire::interest() const {
  return {ended_ || flight_.size() > kMostInFlight ? -1 : in_, POLLIN, 0};
}

// Bytes that were written at once may arrive in two halves, each in its time but in order.
void Wire::move() {
  World& w = World::here();
  char chunk[16 << 10];
  const ssize_t n = ::read(in_, chunk, sizeof chunk);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  std::string bytes(chunk, size_t(std::max<ssize_t>(n, 0)));
  ended_ = n <= 0;
  if (repeats_ && !bytes.empty()) {
    // Its last whole frame: what is read at once begins with one, mostly.
    launcher::FrameParser parser;
    parser.feed(base::bytes_of(bytes));
    auto frame = parser.next();
    if (frame && *frame && parser.buffered() == 0) {
      bytes += bytes;
      repeats_ = false;
    }
  }
  std::vector<std::string> parts = {bytes};
  if (bytes.size() > 1 && w.chance(20)) {
    const size_t half = 1 + w.draw(bytes.size() - 1);
    parts = {bytes.substr(0, half), bytes.substr(half)};
  }
  for (std::string& part : parts) {
    last_at_ = std::max(last_at_, w.now() + network_.latency());
    flight_.push_back({last_at_, std::move(part)});
    w.at(last_at_, [wire = this, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) wire->deliver();
    });
  }
}

void Wire::deliver() {
  World& w = World::here();
  while (!flight_.empty() && flight_.front().at <= w.now()) {
    std::string& bytes = flight_.front().bytes;
    const bool passes = network_.passes(from_, to_);
    if (passes && bytes.empty()) {
      ::shutdown(out_, SHUT_WR);
      flight_.pop_front();
      continue;
    }
    ssize_t n = passes ? ::send(out_, bytes.data(), bytes.size(), MSG_NOSIGNAL) : -1;
    if (passes && n < 0 && errno != EAGAIN) n = ssize_t(bytes.size());  // nobody is there any more
    if (n > 0) bytes.erase(0, size_t(n));
    if (n > 0 && bytes.empty()) {
      flight_.pop_front();
      continue;
    }
    if (!retries_) {
      retries_ = true;
      w.after(passes ? kRetry : 100 * kRetry, [wire = this, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        wire->retries_ = false;
        wire->deliver();
      });
    }
    return;
  }
}

Cable::Cable(Network& network, const std::string& from_host, const std::string& to_host)
    : from(from_host), to(to_host) {
  make_pair(near, near_inside);
  make_pair(far, far_inside);
  down = std::make_unique<Wire>(network, from, to, near_inside.get(), far_inside.get());
  up = std::make_unique<Wire>(network, to, from, far_inside.get(), near_inside.get());
}

launcher::OpenChannel Network::opener(const std::string& from) {
  return [this, from](const launcher::HostTarget& target, const launcher::ChannelOptions& options)
             -> Result<std::unique_ptr<launcher::HostChannel>> {
    return std::unique_ptr<launcher::HostChannel>(
        std::make_unique<SimChannel>(*this, from, target, options.connect_timeout_s));
  };
}

void Network::cut(const std::string& from, const std::string& to, bool cut) {
  if (cut)
    cut_.insert({from, to});
  else
    cut_.erase({from, to});
}

void Network::cut_off(const std::string& host, bool cut) {
  if (cut)
    off_.insert(host);
  else
    off_.erase(host);
}

bool Network::passes(const std::string& from, const std::string& to) const {
  return from == to || (!off_.contains(from) && !off_.contains(to) && !cut_.contains({from, to}));
}

int64_t Network::latency() {
  return World::here().draw_ns(20'000, most_latency_);
}

int64_t Network::login_ns(const std::string& host) {
  const auto slow = slow_.find(host);
  return World::here().draw_ns(20 * kMs, 100 * kMs) + (slow == slow_.end() ? 0 : slow->second);
}

std::shared_ptr<Cable> Network::connect(const std::string& from, const std::string& to) {
  cables_.push_back(std::make_shared<Cable>(*this, from, to));
  login_(to, cables_.back());
  return cables_.back();
}

void Network::silence(const std::string& from) {
  for (const auto& cable : cables_)
    if (cable->from == from) cable->near.reset();
}

void Network::repeat_from(const std::string& host) {
  for (const auto& cable : cables_)
    if (cable->to == host) cable->up->repeat_frame();
}

}  // namespace collctl::sim
