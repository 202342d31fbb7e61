// Whether hosts reach each other: each listens on its addresses and dials those of others. Used by
// the doctor through ProbeService, in the agents. Every listener has a secret of its own, so that a
// connection that ends at another host (two with the same address, a proxy) is detected.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/result.h"

namespace collctl::launcher {

struct ReachAddress {
  std::string address;
  uint16_t port = 0;  // 0: this address cannot be listened at; error says why
  std::string error;
};

// Accepts, proves itself and sends back what it gets, on a thread of its own, until it is destroyed
// or its time is over.
class ReachListener {
 public:
  static Result<std::unique_ptr<ReachListener>> start(const std::vector<std::string>& addresses,
                                                      const base::Secret& secret, double seconds);
  ~ReachListener();
  const std::vector<ReachAddress>& addresses() const;

 private:
  ReachListener();
  struct State;
  std::unique_ptr<State> state_;
};

enum class ReachEnd : uint8_t {
  ok,
  refused,   // the host answers, the port does not: a firewall that rejects
  no_route,  // no route to this network from here
  timeout,   // no answer: a firewall that drops, a wrong route
  stranger,  // another process answered
  mtu,       // small packets are answered, those that fill a frame are not
  failed     // anything else; text says what
};
const char* reach_word(ReachEnd end);  // "ok", "refused", "no-route", ...

struct ReachTarget {
  int host = 0;  // for the caller: returned in the result
  std::string address;
  uint16_t port = 0;
  base::Secret secret;
};
struct ReachResult {
  int host = 0;
  std::string address;
  ReachEnd end = ReachEnd::failed;
  double round_trip_us = 0;  // with ok: the shortest of a few
  std::string text;          // otherwise: what happened
};
// All at once, until the deadline; results in the order of the targets. Blocks.
std::vector<ReachResult> dial_targets(const std::vector<ReachTarget>& targets, Deadline deadline);

// A numeric IPv4 or IPv6 address without brackets.
Result<Address> numeric_address(const std::string& text, uint16_t port);

}  // namespace collctl::launcher
