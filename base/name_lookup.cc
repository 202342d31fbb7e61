#include "base/name_lookup.h"

#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/bell.h"
#include "base/format.h"

namespace collctl::base {
namespace {

constexpr int kAgainMs = 250;   // between two questions
constexpr int kCancelMs = 100;  // until a cancelled wait ends
constexpr size_t kMostAddresses = 16;

// Appends what the resolver says; why it says nothing, else an empty text.
std::string resolve(const std::string& name, const std::string& port, int flags,
                    std::vector<Address>& to) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int rc = ::getaddrinfo(name.c_str(), port.c_str(), &hints, &list);
  if (rc != 0) return rc == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(rc);
  for (const addrinfo* a = list; a != nullptr && to.size() < kMostAddresses; a = a->ai_next) {
    Address address;
    address.length = std::min(a->ai_addrlen, socklen_t(sizeof address.storage));
    std::memcpy(&address.storage, a->ai_addr, address.length);
    to.push_back(address);
  }
  ::freeaddrinfo(list);
  return "";
}

}  // namespace

Address HostPort::numeric() const {
  std::vector<Address> found;
  const std::string why = resolve(host, std::to_string(port), AI_NUMERICHOST, found);
  return why.empty() && !found.empty() ? found.front() : Address();
}

Result<HostPort> split_address(const std::string& text) {
  const Error bad(
      ErrorCode::usage,
      format("'{}' is not an address: expected <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>",
             text));
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon + 1 >= text.size() || text.size() > 300) return bad;
  std::string host = text.substr(0, colon);
  const std::string port_text = text.substr(colon + 1);
  if (port_text.size() > 5 || port_text.find_first_not_of("0123456789") != std::string::npos)
    return bad;
  const long port = std::strtol(port_text.c_str(), nullptr, 10);
  if (port > 65535 || host.empty()) return bad;
  const bool brackets = host.front() == '[';
  if (brackets) {
    if (host.back() != ']') return bad;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return bad;
  }
  HostPort at{std::move(host), uint16_t(port)};
  // No name is in brackets, nor made of digits alone.
  const bool numeric = brackets || at.host.find_first_not_of("0123456789.") == std::string::npos;
  if (numeric && at.numeric().length == 0) return bad;
  return at;
}

struct NameLookup::Shared {
  std::string name, port;
  Fd bell;
  // Written by the thread before `done` is released; read by the loop after it has acquired it.
  std::vector<Address> addresses;
  std::string failure;
  std::atomic<bool> done{false};

  void finish() {
    done.store(true, std::memory_order_release);
    if (bell) ring_bell(bell.get());
  }
};

NameLookup::NameLookup(const std::string& name, int port) : shared_(std::make_shared<Shared>()) {
  shared_->name = name;
  shared_->port = std::to_string(port);
  shared_->failure = resolve(name, shared_->port, AI_NUMERICHOST, shared_->addresses);
  auto bell = make_bell();
  if (!bell) shared_->failure = bell.error().chain();
  if (bell) shared_->bell = std::move(bell.value());
  if (!shared_->addresses.empty() || !shared_->bell) {
    shared_->finish();
    return;
  }
  try {
    std::thread([shared = shared_] {
      shared->failure = resolve(shared->name, shared->port, 0, shared->addresses);
      shared->finish();
    }).detach();
  } catch (const std::system_error& e) {
    shared_->failure = std::string("cannot start a thread for the lookup: ") + e.what();
    shared_->finish();
  }
}

NameLookup::~NameLookup() = default;

int NameLookup::fd() const {
  return shared_->bell.get();
}

bool NameLookup::done() const {
  return shared_->done.load(std::memory_order_acquire);
}

const std::vector<Address>& NameLookup::addresses() const {
  return shared_->addresses;
}

const std::string& NameLookup::failure() const {
  return shared_->failure;
}

Result<std::vector<Address>> look_up(const HostPort& at, Deadline deadline,
                                     const std::function<bool()>& cancelled,
                                     const std::function<void(const std::string& why)>& waits) {
  const int64_t began_ns = now_ns();
  const auto over = [&] { return deadline.passed() || (cancelled && cancelled()); };
  std::string why = "the name server does not answer";
  for (bool told = false;;) {
    const NameLookup lookup(at.host, at.port);
    while (!lookup.done() && !over()) {
      pollfd p{lookup.fd(), POLLIN, 0};
      COLL_TRY(poll_fds({&p, 1}, deadline.earlier(Deadline::after_ms(kCancelMs))));
    }
    if (lookup.done() && !lookup.addresses().empty()) return lookup.addresses();
    if (lookup.done()) why = lookup.failure();
    if (over()) break;
    if (waits && !told) waits(why);
    told = true;
    sleep_until(deadline.earlier(Deadline::after_ms(kAgainMs)));
  }
  return Error(
             ErrorCode::deadline,
             format("cannot resolve {} within {:.3g} s: {}", at.host, seconds_since(began_ns), why),
             format("check the name and how this host resolves it (getent hosts {}), or use an IP "
                    "address",
                    at.host))
      .because(Cause::unresolved);
}

}  // namespace collctl::base
