// Values of counters that say something by themselves, however long they have been so: what was bad
// when a check began is bad. THE table of them. Pure. Threads: any.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/host_counters.h"

namespace collctl::cmd {

struct CounterState {
  bool fault;  // else: to know
  std::string meaning;
  const char* remedy;
};
// None: the value says nothing. `uptime_s`: of the host, by which flaps are held; 0: not known, and
// they say nothing.
std::optional<CounterState> counter_state(const base::DeviceCounter& counter, uint64_t uptime_s);

// Remedies for devices, in one wording.
namespace remedies {
inline constexpr const char* kCable =
    "clean or exchange the cable and transceiver, look at the switch port (ibdiagnet, ethtool -m)";
inline constexpr const char* kMemory =
    "run dcgmi diag -r 3, reset the GPU; rows that cannot be remapped: have it exchanged";
inline constexpr const char* kDimm =
    "find the module (edac-util -v, ipmitool sel list), reseat it or have it exchanged";
inline constexpr const char* kReset =
    "reset the GPU or reboot (nvidia-smi --gpu-reset), then dcgmi diag -r 3; if it comes again "
    "have it exchanged";
inline constexpr const char* kSlot =
    "reseat the card or its riser, look at the slot's link (collctl topo)";
}  // namespace remedies

}  // namespace collctl::cmd
