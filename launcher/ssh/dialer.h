// From a host's name to a connected TCP socket, without blocking the poll loop: the name is
// resolved (base/name_lookup.h), then its addresses (IPv4 and IPv6) are tried in turn.
#pragma once
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/name_lookup.h"
#include "base/socket.h"
#include "launcher/ssh/causes.h"
#include "launcher/ssh/prompt.h"

namespace collctl::launcher {

class Dialer {
 public:
  // `host`: what messages call it; `name`: what is resolved.
  Dialer(std::string host, std::string name, int port, double seconds);
  void add_interest(std::vector<pollfd>& fds) const;
  Deadline wakeup() const;
  void progress();
  bool connected() const { return connected_; }
  base::Fd take() { return std::move(fd_); }
  const std::optional<Error>& error() const { return error_; }  // code launch
  std::string where() const { return where_; }                  // "10.0.0.7:22"
  // From the first connect on, for all addresses together and what follows.
  Deadline deadline() const { return deadline_; }

 private:
  void try_next();
  void failed(int error_number);
  void move_deadlines();  // by what is nobody's fault

  std::string host_, name_, where_;
  double seconds_;
  Deadline deadline_, try_until_;
  int64_t asked_before_ns_ = asked_ns();
  std::unique_ptr<base::NameLookup> lookup_;
  std::vector<Address> addresses_;
  size_t next_ = 0;
  base::Fd fd_;
  bool connected_ = false;
  std::optional<Error> error_, failure_;
  int failure_number_ = 0;
};

}  // namespace collctl::launcher
