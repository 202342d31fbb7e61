// `rails`: every NIC of every host against every NIC of every other, by real transfers. One rank of
// each host acts, the others only take part in the exchanges. All pairs of hosts are tried in
// rounds, in which each host is in one pair: n hosts take n - 1 rounds (n, if odd). Ranks of one
// host alone try that host's NICs against each other.
//
// Threads: one calls join and run; cancel() any.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "cmd/rails/path.h"
#include "runtime/bootstrap/unique_id.h"

namespace collctl::runtime {

struct RailPair {
  int from = 0, to = 0;           // indexes of hosts
  std::vector<RailResult> cells;  // by NIC of `from`, then of `to`
};

struct RailMatrix {
  std::vector<RailHost> hosts;  // in the order of their ranks
  bool one_host = false;        // there is one: its NICs were tried against each other
  std::vector<RailPair> pairs;  // both directions of each pair of hosts; of one host, one
};

// The rounds of a tournament: in each, every one of n has at most one partner; every pair once.
std::vector<std::vector<std::pair<int, int>>> rail_rounds(int n);

class Rails {
 public:
  struct Options {
    UniqueId id{};
    int rank = 0, size = 1;
    std::string net;  // "", "ib" or "socket"
    double start_timeout_s = 60;
    std::string task;                      // as in CommOptions
    std::shared_ptr<base::Cancel> cancel;  // of join(), as in CommOptions
    std::function<void()> checks_in;       // as in CommOptions
    uint32_t message_bytes = 1u << 20;
    double seconds = 0.02;                             // of streaming, each path
    double timeout_s = 3;                              // of a path that hangs
    std::function<void(const std::string&)> progress;  // of rank 0
  };
  // Errors: usage: fewer than two ranks, a knob; unavailable: --net ib without a port.
  static Result<std::unique_ptr<Rails>> join(const Options& options);
  ~Rails();
  // The same on every rank.
  Result<RailMatrix> run();
  // Calls in flight end with an error.
  void cancel();

 private:
  Rails();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::runtime
