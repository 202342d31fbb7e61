#include "cmd/rails/usual.h"

#include <algorithm>

namespace collctl::cmd {
namespace {

using Nic = std::pair<int, size_t>;  // host, index of its NIC
using Partners = std::map<Nic, double>;

// The n-th best of them.
double nth_best(std::vector<double> values, size_t n) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(n - 1), values.end(),
                   std::greater<>());
  return values[n - 1];
}

// `value` of a cell, of which more is better; none: it does not count. `kind`: what is held against
// each other.
template <class Value, class Kind>
std::map<double, double> usual_of(const RailsReport& report, bool rail_only, const Value& value,
                                  const Kind& kind) {
  std::map<double, std::map<Nic, Partners>> by_kind;
  const auto keep_better = [](Partners& partners, const Nic& nic, double better) {
    const auto [at, fresh] = partners.emplace(nic, better);
    if (!fresh) at->second = std::max(at->second, better);
  };
  for (const RailPair& pair : report.pairs) {
    const auto &from = report.hosts[size_t(pair.from)].nics,
               &to = report.hosts[size_t(pair.to)].nics;
    for (size_t i = 0; i < from.size(); ++i)
      for (size_t j = 0; j < to.size(); ++j) {
        const RailResult& cell = pair.cells[i * to.size() + j];
        const std::optional<double> good = value(cell);
        if (!good || (rail_only && from[i].name != to[j].name)) continue;
        auto& nics = by_kind[kind(from[i], to[j])];
        keep_better(nics[{pair.from, i}], {pair.to, j}, *good);
        keep_better(nics[{pair.to, j}], {pair.from, i}, *good);
      }
  }
  std::map<double, double> usual;
  for (const auto& [which, nics] : by_kind) {
    std::vector<double> of_nics;
    for (const auto& [nic, partners] : nics) {
      std::vector<double> values;
      for (const auto& [partner, good] : partners) values.push_back(good);
      of_nics.push_back(nth_best(std::move(values), (partners.size() + 1) / 2));
    }
    usual[which] = nth_best(of_nics, (of_nics.size() + 1) / 2);
  }
  return usual;
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

}  // namespace collctl::cmd
