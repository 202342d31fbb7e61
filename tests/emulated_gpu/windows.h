// Ranks of the window kernels on the emulated GPU: what all of them map, a stream each, and
// operations whose buffers lie in flat memory, each rank's at its own alignment. Pairwise ones go
// as messages, the rounds of a rank in one launch.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/window/launch.h"
#include "kernels/cuda/window_layout.h"
#include "kernels/cuda/window_stand.h"
#include "tests/unit/kernels/cpu_operation.h"

namespace emulated_tests {

using namespace collctl::kernels;
using collctl::kernels::cuda::DirectPath;
using collctl::kernels::cuda::In;
using collctl::kernels::cuda::PeerMemory;
using collctl::kernels::cuda::WindowLayout;
using cpu_tests::Case;
using cpu_tests::Operation;

struct WindowCase {
  Case what;
  DirectPath direct = DirectPath::none;
  int blocks = 1;
  uint32_t chunk_bytes = 0;
  std::vector<size_t> misalign;  // by rank
  int times = 1;                 // of messages: so often in one launch
};
std::string describe(const WindowCase& c, int nranks);
// Whether there is a kernel for it.
bool served(const WindowCase& c, int nranks, In in = In::gpu);

class Windows {
 public:
  // `epoch`: of the launches before. `in`: on the host with what is each rank's own apart.
  Windows(int nranks, uint64_t epoch, In in = In::gpu);
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  const int nranks;
  const In in;
  int64_t timeout_ns = 500'000'000;
  uint32_t counting = 0;  // bit by rank: that it counts waits
  // Queues it for all ranks but `without`. Empty, or what refused it.
  std::string launch(const WindowCase& c, int without = -1);
  // Runs what is queued, and compares. Empty, or what is wrong.
  std::string finish();
  // Likewise, without a look at results: of ranks that abort.
  std::string finish_anyhow();
  // A rank's next launch comes so many looks late.
  void hold_up(int rank, uint64_t looks);
  // For how long a rank has waited for a peer; -1: for all.
  uint64_t waited_ns(int rank, int peer = -1) const;
  // Queues a look at all ranks after so many looks of others; then all kernels abort.
  void look_after(uint64_t looks);
  struct Seen {
    bool known = false;
    collctl::kernels::cuda::WindowStand stand;
  };
  const Seen& seen(int rank) const { return seen_[size_t(rank)]; }
  const Report& report(int rank) const { return reports_[size_t(rank)]; }
  bool aborted() const { return abort_word_ != 0; }

 private:
  struct Placed {
    std::unique_ptr<Operation> operation;
    uint8_t *memory = nullptr, *input = nullptr;  // where its memories lie
  };
  int launch_rounds(collctl::kernels::cuda::WindowLaunch launch,
                    const std::vector<PairStep>& steps);
  uint8_t* put(int rank, const std::vector<uint8_t>& memory);
  uint64_t own_stride() const;
  PeerMemory memory_of(int rank) const;
  uint8_t* slot(int rank) const { return users_ + uint64_t(rank) * kSlotBytes; }

  static constexpr uint64_t kSlotBytes = uint64_t(64) << 20;
  WindowLayout layout_;
  uint64_t stride_;
  uint8_t *parts_, *owns_, *users_;
  std::vector<uint64_t> used_;  // of the ranks' slots
  std::vector<Placed> placed_;
  std::vector<Report> reports_;
  std::vector<std::vector<PeerWait>> waits_;  // by rank, of each peer
  std::vector<Seen> seen_;
  uint32_t abort_word_ = 0;
};

}  // namespace emulated_tests
