#include "cmd/rails/usual.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/judge/usual.h"

namespace collctl::cmd {

namespace {

using NicAt = std::pair<int, size_t>;  // host, index of its NIC

// `value` of a cell, of which more is better; none: it does not count. `kind`: what is held against
// each other.
template <class Value, class Kind>
std::map<double, double> usual_of(const RailsReport& report, bool rail_only, const Value& value,
                                  const Kind& kind) {
  Usual<double, NicAt> all;
  for (const RailAt& at : all_cells(report)) {
    const RailsNic &from = nic_from(report, at), &to = nic_to(report, at);
    const std::optional<double> good = value(cell_at(report, at));
    if (!good || (rail_only && from.name != to.name)) continue;
    const NicAt one{report.pairs[at.pair].from, at.from}, other{report.pairs[at.pair].to, at.to};
    all.add(kind(from, to), one, other, *good);
  }
  return all.values();
}

}  // namespace

std::map<double, double> usual_speeds(const RailsReport& report, bool rail_only) {
  return usual_of(
      report, rail_only,
      [](const RailResult& cell) {
        return cell.end == RailEnd::ok ? std::optional(cell.GBps) : std::nullopt;
      },
      [](const RailsNic& from, const RailsNic& to) {
        return std::min(from.rate_Gbps, to.rate_Gbps);
      });
}

double usual_resent(const RailsReport& report, bool rail_only) {
  const auto usual = usual_of(
      report, rail_only,
      [](const RailResult& cell) {
        return cell.end == RailEnd::ok && cell.resent >= 0 ? std::optional(-cell.resent)
                                                           : std::nullopt;
      },
      [](const RailsNic&, const RailsNic&) { return 0.0; });
  return usual.empty() ? 0 : -usual.begin()->second;
}

const RailsNic& nic_from(const RailsReport& r, const RailAt& at) {
  return r.hosts[size_t(r.pairs[at.pair].from)].nics[at.from];
}
const RailsNic& nic_to(const RailsReport& r, const RailAt& at) {
  return r.hosts[size_t(r.pairs[at.pair].to)].nics[at.to];
}
const RailResult& cell_at(const RailsReport& r, const RailAt& at) {
  const RailPair& pair = r.pairs[at.pair];
  return pair.cells[at.from * r.hosts[size_t(pair.to)].nics.size() + at.to];
}

std::vector<RailAt> all_cells(const RailsReport& r) {
  std::vector<RailAt> list;
  for (size_t p = 0; p < r.pairs.size(); ++p)
    for (size_t i = 0; i < r.hosts[size_t(r.pairs[p].from)].nics.size(); ++i)
      for (size_t j = 0; j < r.hosts[size_t(r.pairs[p].to)].nics.size(); ++j)
        list.push_back({p, i, j});
  return list;
}

std::string rail_text(const RailsReport& r, const RailAt& at) {
  const RailPair& pair = r.pairs[at.pair];
  return format("{} {} -> {} {}", r.hosts[size_t(pair.from)].host, nic_from(r, at).name,
                r.hosts[size_t(pair.to)].host, nic_to(r, at).name);
}

}  // namespace collctl::cmd
