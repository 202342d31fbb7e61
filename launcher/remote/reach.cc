#include "launcher/remote/reach.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/bell.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostGuests = 4096;
constexpr double kGuestSeconds = 15;  // one who dials is done by then
constexpr size_t kEchoBytes = 8;
constexpr size_t kLargeBytes = 12 << 10;  // fills a frame of 9000 bytes
constexpr int kTrips = 5;                 // then one of kLargeBytes

ReachEnd end_of(const Error& error, bool connected) {
  if (connected) return ReachEnd::stranger;
  if (error.cause == Cause::refused) return ReachEnd::refused;
  if (error.cause == Cause::unreachable) return ReachEnd::no_route;
  if (error.cause == Cause::silent) return ReachEnd::timeout;
  return ReachEnd::failed;
}

}  // namespace

Result<Address> numeric_address(const std::string& text, uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    address.storage.ss_family = AF_INET;
    address.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    address.storage.ss_family = AF_INET6;
    address.length = sizeof *v6;
  } else {
    return Error(ErrorCode::usage, format("'{}': expected an IPv4 or IPv6 address", text));
  }
  address.set_port(port);
  return address;
}

const char* reach_word(ReachEnd end) {
  switch (end) {
    case ReachEnd::ok:
      return "ok";
    case ReachEnd::refused:
      return "refused";
    case ReachEnd::no_route:
      return "no-route";
    case ReachEnd::timeout:
      return "timeout";
    case ReachEnd::stranger:
      return "stranger";
    case ReachEnd::mtu:
      return "mtu";
    case ReachEnd::failed:
      break;
  }
  return "failed";
}

struct ReachListener::State {
  struct Guest {
    Fd fd;
    Deadline until;
  };
  std::vector<std::unique_ptr<base::AuthListener>> listeners;
  std::vector<ReachAddress> addresses;
  std::vector<Guest> guests;
  Fd bell;
  std::atomic<bool> stop{false};
  Deadline until = Deadline::after_ns(0);
  std::thread thread;

  void run();
  void serve();
};

// Sends back what guests wrote, forgets those that are gone, late or too many.
void ReachListener::State::serve() {
  for (auto& listener : listeners) {
    listener->handle();
    while (auto accepted = listener->next())
      if (guests.size() < kMostGuests)
        guests.push_back({std::move(accepted->fd), Deadline::after_seconds(kGuestSeconds)});
  }
  std::erase_if(guests, [](Guest& guest) {
    uint8_t bytes[kLargeBytes];
    const auto count = base::read_some(guest.fd.get(), bytes, sizeof bytes);
    if (!count.ok() || guest.until.passed()) return true;
    // So few bytes always fit into the socket's buffer; who does not read them is let go.
    if (*count == 0) return false;
    const auto went = base::write_some(guest.fd.get(), bytes, *count);
    return !went.ok() || *went != *count;
  });
}

void ReachListener::State::run() {
  while (!stop && !until.passed()) {
    std::vector<pollfd> fds{{bell.get(), POLLIN, 0}};
    for (const auto& listener : listeners) listener->add_interest(fds);
    for (const Guest& guest : guests) fds.push_back({guest.fd.get(), POLLIN, 0});
    // Late ones are looked for once a second.
    if (!base::poll_fds(fds, until.earlier(Deadline::after_seconds(1))).ok()) return;
    serve();
  }
}

ReachListener::ReachListener() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<ReachListener>> ReachListener::start(
    const std::vector<std::string>& addresses, const base::Secret& secret, double seconds) {
  std::unique_ptr<ReachListener> made(new ReachListener);
  State& s = *made->state_;
  COLL_ASSIGN(s.bell, base::make_bell());
  base::raise_open_file_limit();
  s.until = Deadline::after_seconds(seconds);
  for (const std::string& text : addresses) {
    ReachAddress at{text, 0, ""};
    COLL_ASSIGN(const Address address, numeric_address(text, 0));
    auto listener = base::AuthListener::listen(address, secret);
    if (listener.ok()) {
      at.port = (*listener)->address().port();
      s.listeners.push_back(std::move(*listener));
    } else {
      at.error = listener.error().message;
    }
    s.addresses.push_back(std::move(at));
  }
  s.thread = std::thread([&s] { s.run(); });
  return made;
}

ReachListener::~ReachListener() {
  state_->stop = true;
  if (!state_->thread.joinable()) return;
  base::ring_bell(state_->bell.get());
  state_->thread.join();
}

const std::vector<ReachAddress>& ReachListener::addresses() const {
  return state_->addresses;
}

namespace {

// One dialled target: the handshake, then a few round trips.
class Dial {
 public:
  explicit Dial(const ReachTarget& target) : result_{target.host, target.address, {}, 0, ""} {
    const auto address = numeric_address(target.address, target.port);
    if (address.ok())
      connect(*address, target.secret);
    else
      fail(ReachEnd::failed, address.error().message);
  }
  bool done() const { return done_; }
  pollfd interest() const {
    return connector_ ? pollfd{connector_->fd(), connector_->events(), 0}
                      : pollfd{fd_.get(), POLLIN, 0};
  }
  void progress() {
    if (connector_ && !shake_hands()) return;
    size_t count = 0;
    if (Status moved = read_echo(count); !moved.ok())
      return fail(ReachEnd::failed, moved.error().message);
    if (count == 0) return;
    got_ += count;
    if (got_ < trip_bytes()) return;
    const double trip = double(now_ns() - sent_ns_) / 1e3;
    if (trips_ == 0 || (trips_ < kTrips && trip < result_.round_trip_us))
      result_.round_trip_us = trip;
    if (++trips_ <= kTrips) return send();
    result_.end = ReachEnd::ok;
    done_ = true;
  }
  ReachResult late() && {
    if (!done_ && trips_ == kTrips)
      fail(ReachEnd::mtu,
           format("small packets are answered, {} KiB at once are not (MTU)", kLargeBytes >> 10));
    if (!done_)
      fail(ReachEnd::timeout, connector_ && !connector_->connected() ? "no answer to connect"
                                                                     : "connected, but no answer");
    return std::move(result_);
  }

 private:
  void connect(const Address& address, const base::Secret& secret) {
    const std::string_view greeting = "collctl reach";
    auto connector = base::AuthConnector::start(address, secret, base::bytes_of(greeting));
    if (connector.ok())
      connector_ = std::move(*connector);
    else
      fail(end_of(connector.error(), false), connector.error().message);
  }
  void fail(ReachEnd end, std::string text) {
    result_.end = end;
    result_.text = std::move(text);
    done_ = true;
  }
  size_t trip_bytes() const { return trips_ < kTrips ? kEchoBytes : kLargeBytes; }
  Status read_echo(size_t& count) {
    uint8_t bytes[kLargeBytes];
    COLL_ASSIGN(count, base::read_some(fd_.get(), bytes, trip_bytes() - got_));
    return {};
  }
  // True when the connection stands; the first trip has begun then.
  bool shake_hands() {
    const auto finished = connector_->progress();
    if (!finished.ok()) {
      fail(end_of(finished.error(), connector_->connected()), finished.error().message);
      return false;
    }
    if (!*finished) return false;
    fd_ = connector_->take();
    connector_.reset();
    send();
    return !done_;
  }
  void send() {
    const uint8_t bytes[kLargeBytes] = {};
    got_ = 0;
    sent_ns_ = now_ns();
    const auto went = base::write_some(fd_.get(), bytes, trip_bytes());
    if (!went.ok()) return fail(ReachEnd::failed, went.error().message);
    if (*went != trip_bytes()) fail(ReachEnd::failed, "the connection accepts no data");
  }

  ReachResult result_;
  std::unique_ptr<base::AuthConnector> connector_;
  Fd fd_;
  size_t got_ = 0;
  int trips_ = 0;
  int64_t sent_ns_ = 0;
  bool done_ = false;
};

}  // namespace

std::vector<ReachResult> dial_targets(const std::vector<ReachTarget>& targets, Deadline deadline) {
  base::raise_open_file_limit();
  std::vector<Dial> dials;
  dials.reserve(targets.size());
  for (const ReachTarget& target : targets) dials.emplace_back(target);
  while (!deadline.passed()) {
    std::vector<pollfd> fds;
    std::vector<Dial*> waiting;
    for (Dial& dial : dials)
      if (!dial.done()) {
        waiting.push_back(&dial);
        fds.push_back(dial.interest());
      }
    if (waiting.empty()) break;
    const auto ready = base::poll_fds(fds, deadline);
    if (!ready.ok()) break;  // those that are left count as late
    for (size_t i = 0; i < waiting.size(); ++i)
      if (fds[i].revents != 0) waiting[i]->progress();
  }
  std::vector<ReachResult> results;
  for (Dial& dial : dials) results.push_back(std::move(dial).late());
  return results;
}

}  // namespace collctl::launcher
