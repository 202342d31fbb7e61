// Errors of GPUs that the driver writes into the kernel's log (Xids): the meaning of each and what
// to do about it. Source: NVIDIA's catalog of Xids for A100 to GB200
// (docs.nvidia.com/deploy/xid-errors, "immediate action"). Pure. Threads: any.
#pragma once
#include <cstdint>
#include <string>

namespace collctl::cmd {

// `link`, `reset`, `reboot`, `hardware`: the GPU does not serve until that is done.
enum class XidCure : uint8_t { nothing, program, watch, link, reset, reboot, hardware };

struct Xid {
  XidCure cure = XidCure::watch;
  const char* meaning = "";  // "the GPU has fallen off the bus"
  bool is_fault() const { return cure >= XidCure::link; }
  const char* remedy() const;
};

// By the name that base/host_counters.h gives it, without "xid ": "79", "149 nonfatal",
// "154 Node Reboot Required". A number that the catalog does not have is one to watch.
Xid xid_of(const std::string& name);

}  // namespace collctl::cmd
