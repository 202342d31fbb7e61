// The torn-store test, which LL128 needs of a path: whether 128 bytes that one GPU stores at once
// into another's memory arrive at once, and those that it has a network write there. Every rank
// writes numbered lines to peers and watches those that peers write; lines whose flag is new and
// whose data is old are torn. Start-up's thread, all ranks together; some milliseconds.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "runtime/executor/joint_test.h"
#include "runtime/links/proxy.h"
#include "transport/device/device.h"

namespace collctl::runtime {

// One way between this rank and a peer; both ends have it in the same test.
struct LinePath {
  int peer = -1;
  uint8_t* lines = nullptr;  // where they arrive; of a network link its first slot
  // This rank's end of a network link for LL128, which nothing has used yet: its messages bring the
  // lines, and count as steps of it afterwards. Null: the writer stores to `lines`.
  kernels::Fifo* fifo = nullptr;
};

struct TornStoreOptions {
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  Bootstrap* bootstrap = nullptr;
  ProxyEngine* proxy = nullptr;  // of network links
  uint32_t lines = 0;            // of each path; zero before and after
  std::vector<LinePath> reads, writes;
  std::string cannot;  // why this rank's paths cannot be tested; empty: they can
  std::string where;   // of the paths, for a text; the same on all ranks, may be empty
  double wait_s = 10;  // for the kernels of one rank; readers abort by themselves before
};
// All pairs of ranks, in the memory that they map: `part_bytes` of each.
TornStoreOptions torn_stores_in_window(const kernels::cuda::PeerMemory& window,
                                       uint64_t part_bytes);
// As many lines as a path of a link's slot of so many bytes has.
uint32_t torn_store_lines(uint32_t slot_bytes);

struct TornStoreVerdict {
  std::string why;  // empty: all lines of all pairs arrived whole; the same text on all ranks
  // Some rank's kernels may still write where they wrote, or left it other than zero, so nobody may
  // use it; on all ranks.
  bool memory_lost = false;
  bool runs_on = false;                  // some rank's kernels have not ended; on all ranks
  std::unique_ptr<UnendedTest> unended;  // this rank's, or null
};
// Errors: the exchange itself failed (lost, deadline).
Result<TornStoreVerdict> test_torn_stores(const TornStoreOptions& options, Deadline deadline);

}  // namespace collctl::runtime
