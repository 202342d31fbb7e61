// `rails`: every NIC of every host against every NIC of every other, by real transfers. One rank of
// each host acts, the others only take part in the exchanges. All pairs of hosts are tried in
// rounds, in which each host is in one pair: n hosts take n - 1 rounds (n, if odd), or about
// 2 log2 n rounds where not every pair is wanted. Ranks of one
// host alone try that host's NICs against each other.
//
// Threads: one calls join and run; abort() any.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "cmd/measure/task.h"
#include "cmd/rails/memory.h"
#include "runtime/bootstrap/unique_id.h"

namespace collctl::runtime {

struct RailPair {
  int from = 0, to = 0;           // indexes of hosts
  std::vector<RailResult> cells;  // by NIC of `from`, then of `to`
};

void fields(base::Record& io, RailPair& pair);

// Whether hosts, GPUs and NICs that a result names are there; `hosts` have NICs and GPUs, in
// whatever form.
template <class Host>
bool is_of_hosts(const RailPair& pair, const std::vector<Host>& hosts) {
  const auto in = [&](int at) { return at >= 0 && size_t(at) < hosts.size(); };
  return in(pair.from) && in(pair.to) &&
         pair.cells.size() ==
             hosts[size_t(pair.from)].nics.size() * hosts[size_t(pair.to)].nics.size();
}
template <class Host>
bool is_of_hosts(const MemoryTrial& trial, const std::vector<Host>& hosts) {
  const auto has = [&](int at, int gpu, int nic) {
    return size_t(at) < hosts.size() && gpu < int(hosts[size_t(at)].gpus.list.size()) &&
           nic < int(hosts[size_t(at)].nics.size());
  };
  return has(trial.from, trial.from_gpu, trial.from_nic) &&
         has(trial.to, trial.to_gpu, trial.to_nic);
}

struct RailMatrix {
  std::vector<RailHost> hosts;   // in the order of their ranks
  bool one_host = false;         // there is one: its NICs were tried against each other
  std::vector<RailPair> pairs;   // both directions of each pair tried; of one host, one
  std::vector<RailPair> before;  // of pairs that were tried again, as they were then, in turn
  // With GPU memory; of what was measured again each time counts, the last is the result.
  std::vector<MemoryTrial> trials;
  // A newer measurement of the same two hosts takes its place.
  void add(RailPair pair);
};

inline constexpr int kMostAgain = 6, kMostMemoryAgain = 2;

// Memory that messages go from and to.
enum class MemoryChoice : uint8_t { host, gpu, both, automatic };  // the last: both where there are
inline constexpr int kMemoryChoices = 4;
const char* memory_choice_word(MemoryChoice choice);  // "host", "gpu", "both", "auto"

// Which hosts are tried in each round; `sparse_from` as in Rails::Options. Pure.
std::vector<std::vector<std::pair<int, int>>> rail_rounds(int hosts, int sparse_from);

// How long a path between two hosts is waited for: `timeout_s`, or kHopelessSeconds where one of
// them has answered none of two others or more, so that a host that is cut off costs seconds and
// not that much for each of the rest. Pure.
inline constexpr double kHopelessSeconds = 1.2;  // a SYN that is lost is sent again after 1 s
double rail_timeout(const RailMatrix& so_far, int a, int b, double timeout_s);

class Rails {
 public:
  struct Options {
    UniqueId id{};
    int rank = 0, size = 1;
    std::string net;  // "", "ib" or "socket"
    double start_timeout_s = 60;
    double start_left_s = 0;               // as in CommOptions
    double op_timeout_s = 0;               // of a rank that does not move; 0: knob
    std::string task;                      // as in CommOptions
    std::shared_ptr<base::Cancel> cancel;  // of join(), as in CommOptions
    std::function<void()> checks_in;       // as in CommOptions
    uint32_t message_bytes = 1u << 20;
    double seconds = 0.02;  // of streaming, each path
    double timeout_s = 3;   // of a path that hangs
    // From so many hosts on not all pairs, but those of cmd::pair_rounds; 0: always all.
    int sparse_from = 0;
    // Rank 0's: the hosts that are tried among themselves once more, up to kMostAgain times, for
    // again_seconds a path; fewer than two: all is clear. Null: none ever.
    std::function<std::vector<int>(const RailMatrix&, int round)> again;
    double again_seconds = 0.1;
    MemoryChoice memory = MemoryChoice::host;
    bool every_nic = false;  // GPUs over NICs that are far from them as well
    MemorySizes sizes;       // of each measurement with GPU memory; large_s of all rounds
    // Likewise, of hosts whose GPUs are measured once more, up to kMostMemoryAgain times.
    std::function<std::vector<int>(const RailMatrix&)> memory_again;
    cmd::RankRelay* relay = nullptr;  // through which ranks meet; null: over the bootstrap
    std::function<void(const std::string&)> progress;  // of rank 0
  };
  // Errors: usage: fewer than two ranks, a knob; unavailable: --net ib without a port.
  static Result<std::unique_ptr<Rails>> join(const Options& options);
  ~Rails();
  // The same on every rank. A rank that fails tells the others why.
  Result<RailMatrix> run();
  // Calls in flight, here and on the other ranks, end with this reason.
  void abort(const Error& why);

 private:
  Rails();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::runtime
