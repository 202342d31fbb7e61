// The plan of one run: the job, the network, and the faults with their times. Drawn by a seed,
// written as text, and made smaller until nothing can be left out. Values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace collctl::sim {

enum class FaultKind : uint8_t {
  kill_rank,
  stop_rank,
  kill_agent,
  stop_agent,
  kill_launcher,
  stop_launcher,
  cut_host,   // from everything
  deaf_host,  // what is sent to its agent is lost
  mute_host,  // what its agent sends is lost
  cut_way,    // between two hosts
  slow_host,  // to log in to
  interrupt,  // Ctrl-C
  suspend,    // Ctrl-Z
  repeat,     // a message of the host's agent comes twice
};
inline constexpr int kFaultKinds = int(FaultKind::repeat) + 1;

struct Fault {
  FaultKind kind = FaultKind::kill_rank;
  double at_s = 0;     // from the job's start
  int what = 0;        // rank, or host
  int other = 0;       // cut_way: the other host
  double lasts_s = 0;  // of what goes over; 0: it does not

  std::string text() const;
};

struct Plan {
  uint64_t seed = 1;
  int hosts = 2, per_host = 2, tree_width = 0;
  double heartbeat_s = 15, op_timeout_s = 30, start_timeout_s = 60, timeout_s = 0, grace_s = 5;
  double works_s = 5;
  double latency_ms = 2;
  double looks_s = 0;  // at a way, until a rank says that nothing passes any more
  bool ring = true, shrink = false;
  std::vector<Fault> faults;

  int ranks() const { return hosts * per_host; }
  int host_of(int rank) const { return rank / per_host; }
  std::string text() const;
};

// `hosts`: as many, or drawn too (0).
Plan draw_plan(uint64_t seed, int hosts);

}  // namespace collctl::sim
