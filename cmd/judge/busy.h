// Figures that say little because others had a host's processors meanwhile: they are measured
// again while the budget has time for it, without one a few times. Figures still spoilt were not
// tested (code 8), or are the fault of a host that was busy every time while most of its peers were
// not. Threads: values.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

inline constexpr const char* kBusyRemedy =
    "find out who takes its processors, or who limits them: top; systemd-cgtop; CPUQuota= of the "
    "slice, --cpus of the container";

using BusyHosts = std::map<Host, std::string>;  // why the figures of each say little

// Whether a load of others may be why so little was measured of what is asked: below a fifth none
// is.
bool is_excusable(double measured, double asked);
bool is_excusable(const Finding& finding);  // by its own figures
// The figure says little, as a host was busy: it was not tested.
Finding& spoil(Finding& finding, std::string message,
               std::string remedy = "measure again when the hosts are idle");
// Spoils what was too slow while a host was busy, unless that is no excuse.
void leave_out_spoilt(std::vector<Finding>& findings);

class BusyGuard {
 public:
  // Without `until`, and where all figures are as good as asked; and until then.
  static constexpr int kMostTimes = 3, kMostUntil = 100;
  static constexpr double kMoreSeconds = 60;  // after the first measurement
  // The first measurement begins. `until`: none is begun that is likely to end later; none: of the
  // first one's end and kMoreSeconds.
  explicit BusyGuard(std::optional<Deadline> until)
      : most_(until ? kMostUntil : kMostTimes), until_(until), began_ns_(now_ns()) {}
  // A measurement is over: whether to make it once more. One with a failure stands, as the next
  // might not show it.
  bool again(std::span<const Finding> found, const BusyHosts& busy);
  // Finds whose fault it is that findings stay spoilt, from `first` on. `hosts`: how many took
  // part.
  std::vector<Host> settle(std::vector<Finding>& findings, size_t first, size_t hosts) const;
  int times() const { return times_; }
  // Why it was measured more than once: "node03: ..."; else empty.
  const std::string& why() const { return why_; }

 private:
  std::vector<Host> alone(size_t hosts) const;

  const int most_;
  std::optional<Deadline> until_;
  int64_t began_ns_;
  int times_ = 0;
  std::string why_;
  BusyHosts last_;
  std::map<Host, int> times_busy_;
};

}  // namespace collctl::cmd
