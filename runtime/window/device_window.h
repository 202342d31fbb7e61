// DeviceWindow: GPU memory that all ranks of a communicator map, when they are all on one host, for
// the window kernels (kernels/cuda/launch.h). Made at start-up, given back by the destructor.
// Start-up's thread.
//
// Each rank makes its own part and passes a descriptor of it to every other rank; everybody maps
// all parts side by side: rank r's at base + r x stride. Nothing has a name, so nothing can be left
// behind, and a part lives as long as somebody maps it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/contract/window.h"
#include "kernels/cuda/launch.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/plan/rank_facts.h"
#include "transport/device/device.h"

namespace collctl::runtime {

class DeviceWindow {
 public:
  struct Options {
    int rank = 0, nranks = 1;
    uint64_t part_bytes = 0;  // Launcher::window_part_bytes
    uint64_t comm_hash = 0;
    transport::DevicePointer device;
    std::span<const transport::PeerInfo> peers;
    Bootstrap* bootstrap = nullptr;
  };
  struct Made {
    std::unique_ptr<DeviceWindow> window;
    int without = -1;  // the first rank that can have none, which all ranks know then
  };
  // All ranks together. Null when there is none: `why_not` then says what this rank could not do,
  // and is empty where another could not. A window that only some ranks have is of no
  // use: where `without` names nobody the caller asks all. Errors: the exchange itself failed
  // (lost, deadline).
  static Result<Made> make(const Options& options, std::string& why_not, Deadline deadline);
  kernels::cuda::PeerMemory memory() const;
  // The same memory as the verbs of kernels/window_block.h use it, of one channel; then nothing
  // else may. Wants kVerbsPartBytes.
  kernels::Window verbs() const;
  static constexpr uint64_t kVerbsBankBytes = 512 << 10;
  static constexpr uint64_t kVerbsPartBytes = 4096 + kernels::kWindowBanks * kVerbsBankBytes;
  uint64_t part_bytes() const { return own_.bytes(); }
  uint64_t held_bytes() const { return own_.held_bytes(); }  // of this rank's GPU

 private:
  DeviceWindow() = default;
  int rank_ = 0, nranks_ = 1;
  transport::DeviceMemory own_;
  transport::FlatMemory flat_;  // unmapped before the own part goes
};

}  // namespace collctl::runtime
