// Options of a communicator, by whoever makes one: they go before the knobs. Read once, at start-up
// (settings.h). Threads: a value.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"

namespace collctl::kernels::cuda {
struct Launcher;
}

namespace collctl::runtime {

struct CommOptions {
  std::string algo;  // as --algo / COLLCTL_ALGO: empty = chosen
  std::string proto;
  int channels = 0;
  std::string transport;       // "", loopback, p2p, shm, net
  std::string net;             // "", ib, socket or a plugin's name
  std::string p2p;             // "", auto, read, write: before P2P_READ
  bool integrity = false;      // as INTEGRITY, which may ask for it as well
  double start_timeout_s = 0;  // 0: knob
  double start_left_s = 0;     // of it when init() is called; 0: all
  double op_timeout_s = 0;
  bool count_waits = false;  // for wait_sums(); costs two looks at the clock for each wait
  bool calibrate = false;    // CPU ranks, unless CALIBRATE is 0: what was measured of this machine
                             // counts, and is measured by the first job (communicator/calibrate.h)
  bool recalibrate = false;  // now, whatever is known
  std::string task;          // as Bootstrap::Options::task
  // Its ranks' numbers where people know them by others (Communicator::members); else empty.
  std::vector<int> members;
  // Cancels init, for a reason that the other ranks are told; null: cannot be cancelled.
  std::shared_ptr<base::Cancel> cancel;
  std::function<void()> checks_in;  // as in Bootstrap::Options
  int local_ranks =
      0;  // ranks that share this machine's cores, for the spin policy; 0: from peer infos
  int core_ranks = 0;  // ranks that use this rank's cores, of all communicators; 0: of this one
  int device = -1;     // CUDA ordinal of the GPU that this rank drives; -1: a CPU rank
  bool share_device = false;   // ranks may drive the same GPU (--oversubscribe)
  uint64_t window_stride = 0;  // bytes of addresses for a rank's user windows; 0: as chosen
  std::string host_id;  // instead of HOSTID: ranks of one process as if they were on several hosts
  // Runs works on the GPU; null: this build's kernels. Tests run them on the host.
  const kernels::cuda::Launcher* launcher = nullptr;
};

}  // namespace collctl::runtime
