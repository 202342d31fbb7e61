#include "cmd/judge/counter_state.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/judge/xids.h"

namespace collctl::cmd {
namespace {

using base::CounterOf;

struct StateRule {
  CounterOf kind;
  const char* begins;  // its name
  enum : uint8_t { fault, told, nothing } grade;
  uint64_t least;  // that counts
  double per_day;  // more than so many; 0: at any rate
  const char* meaning;
  const char* remedy;
};
constexpr const char* kEarlierXid = "earlier_xid ";
// The first row that fits holds. Others of the same devices say little by themselves: few corrected
// errors in years, rows that were remapped and serve again. Requests that a device does not support
// come from looking for devices at boot, refused ones from handing them to virtual machines.
constexpr StateRule kStates[] = {
    {CounterOf::gpu, "rows_remap_failed", StateRule::fault, 1, 0,
     "rows of memory could not be remapped", remedies::kMemory},
    {CounterOf::gpu, "rows_remap_pending", StateRule::fault, 1, 0,
     "rows of memory wait to be remapped, which a reset does", remedies::kReset},
    {CounterOf::gpu, "ecc_uncorrected", StateRule::fault, 1, 0,
     "memory errors were not corrected since the driver was loaded", remedies::kReset},
    {CounterOf::gpu, "lifetime_ecc_uncorrected", StateRule::told, 1, 0,
     "memory errors were not corrected in its life", remedies::kMemory},
    {CounterOf::pci, "aer_nonfatal UnsupReq", StateRule::nothing, 1, 0, "", ""},
    {CounterOf::pci, "aer_nonfatal ACSViol", StateRule::nothing, 1, 0, "", ""},
    {CounterOf::pci, "aer_nonfatal", StateRule::fault, 1, 0,
     "its PCIe link had errors since boot that were not corrected", remedies::kSlot},
    {CounterOf::pci, "aer_fatal", StateRule::fault, 1, 0,
     "its PCIe link had fatal errors since boot", remedies::kSlot},
    {CounterOf::host, "ue_count", StateRule::fault, 1, 0,
     "errors of its memory could not be corrected since boot", remedies::kDimm},
    // Cables are plugged and switches rebooted at any installation.
    {CounterOf::nic, "link_downed", StateRule::told, 10, 2, "its link goes down again and again",
     remedies::kCable},
    {CounterOf::nic, "carrier_down_count", StateRule::told, 10, 2,
     "its link goes down again and again", remedies::kCable},
    {CounterOf::nic, "link_error_recovery", StateRule::told, 10, 2,
     "its link has to recover again and again", remedies::kCable},
    // InfiniBand's own bound for a good link: ten an hour.
    {CounterOf::nic, "symbol_error", StateRule::told, 100, 240, "symbols are wrong again and again",
     remedies::kCable},
    {CounterOf::nic, "phy_symbol_errors", StateRule::told, 100, 240,
     "symbols are wrong again and again", remedies::kCable},
    {CounterOf::nic, "fec_uncorrected", StateRule::told, 100, 240,
     "blocks arrive damaged beyond correction again and again", remedies::kCable},
};

}  // namespace

std::optional<CounterState> counter_state(const base::DeviceCounter& counter, uint64_t uptime_s) {
  if (counter.kind == CounterOf::gpu && counter.name.starts_with(kEarlierXid)) {
    const Xid xid = xid_of(counter.name.substr(std::string_view(kEarlierXid).size()));
    return CounterState{xid.is_fault(), format("{}, earlier in this boot", xid.meaning),
                        xid.remedy()};
  }
  for (const StateRule& rule : kStates) {
    if (rule.kind != counter.kind || !counter.name.starts_with(rule.begins)) continue;
    if (rule.grade == StateRule::nothing || counter.value < rule.least) return std::nullopt;
    if (rule.per_day == 0)
      return CounterState{rule.grade == StateRule::fault, rule.meaning, rule.remedy};
    const double days = std::max(double(uptime_s) / 86400, 1.0);
    if (uptime_s == 0 || double(counter.value) <= rule.per_day * days) return std::nullopt;
    return CounterState{rule.grade == StateRule::fault,
                        format("{} ({:.3g} a day)", rule.meaning, double(counter.value) / days),
                        rule.remedy};
  }
  return std::nullopt;
}

}  // namespace collctl::cmd
