// From "<host>:<port>" to addresses, without waiting longer than the caller wants to: a short-lived
// thread asks the resolver. One that still waits for the name server when nobody asks any more is
// left behind; it owns all it touches. Threads: one per lookup; the free functions: any.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/socket.h"

namespace collctl::base {

struct HostPort {
  std::string host;  // a name, or an address without brackets
  uint16_t port = 0;
  // Its address where it is one and not a name; family 0: a name.
  Address numeric() const;
};
// "<ipv4>:<port>", "[<ipv6>]:<port>" or "<hostname>:<port>"; anything else: usage error showing the
// three forms. Looks nothing up.
Result<HostPort> split_address(const std::string& text);

class NameLookup {
 public:
  NameLookup(const std::string& name, int port);
  ~NameLookup();
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;
  int fd() const;  // readable when done
  bool done() const;
  // With done(): the addresses, or why there are none.
  const std::vector<Address>& addresses() const;
  const std::string& failure() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// All addresses of the name, as the resolver orders them. One that does not resolve is asked for
// again until the deadline or `cancelled`: names of hosts that are being started come late.
// `waits` is told once why that is so. Error: code deadline, cause unresolved,
// with the name and how long it was asked for.
Result<std::vector<Address>> look_up(const HostPort& at, Deadline deadline,
                                     const std::function<bool()>& cancelled = {},
                                     const std::function<void(const std::string& why)>& waits = {});

}  // namespace collctl::base
