// HostWindow: memory that all ranks of a communicator map, when they are all on one host and can
// pass descriptors. Made at start-up, used by the CPU executor through the plain Window structs,
// given back by the destructor. Start-up's thread.
//
// One mapping (shared_parts.h) holds all parts side by side: rank r's at base + r x stride
// (contract/window.h). Nothing has a name, so nothing can be left behind.
//
// Memory of a rank: channels x (2 banks + 128 bytes), in whole pages.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "kernels/contract/window.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/plan/rank_facts.h"

namespace collctl::runtime {

class HostWindow {
 public:
  struct Options {
    int rank = 0, nranks = 1, channels = 1;
    uint64_t bank_bytes = 0;
    uint64_t comm_hash = 0;
    Bootstrap* bootstrap = nullptr;
  };
  // All ranks together. Null when one rank has none: `why_not` then says what this rank could not
  // do, and is empty where another could not. Errors: the exchange itself failed (lost, deadline).
  static Result<std::unique_ptr<HostWindow>> make(const Options& options, std::string& why_not,
                                                  Deadline deadline);

  // By channel; stable addresses.
  std::span<kernels::Window> windows() { return windows_; }
  uint64_t bytes() const { return memory_.size(); }

 private:
  HostWindow() = default;
  base::Mapping memory_;
  std::vector<kernels::Window> windows_;
};

}  // namespace collctl::runtime
