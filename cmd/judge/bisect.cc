#include "cmd/judge/bisect.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

// A group may be slow for a link between two of its hosts; of larger ones there are too many to
// tell apart, and smaller ones follow.
constexpr size_t kMostLinked = 16;
constexpr int kLeastSlow = 3;  // groups before a host is named, of as many hosts as allow it

}  // namespace

Bisection::Bisection(std::span<const Host> hosts, double whole, double below)
    : hosts_(hosts.begin(), hosts.end()),
      whole_(whole),
      below_(below),
      divide_(whole / below),
      good_(hosts.size(), false) {}

bool Bisection::is_alone(int host) const {
  return std::ranges::any_of(measured_, [&](const Measured& one) {
    return one.slow && std::ranges::count(one.hosts, host) == 1 &&
           std::ranges::count_if(one.hosts, [&](int h) { return !good_[size_t(h)]; }) == 1;
  });
}

Round Bisection::next() const {
  const int hosts = int(hosts_.size());
  std::vector<int> open, good;
  for (int host = 0; host < hosts; ++host) (good_[size_t(host)] ? good : open).push_back(host);
  const bool settled = rounds_ > 1 && open == culprits();
  if (hosts < 3 || settled || rounds_ >= int(std::bit_width(unsigned(hosts - 1))) + 2) return {};

  const int least = std::max(2, hosts >> std::min(rounds_ + 1, 30));
  const int count = hosts / least;
  // Suspects first, one a group as far as there are groups, so that each group has equally many;
  // then the good ones. The later ones are turned with every round, so that partners change.
  std::vector<int> order = open;
  const auto turn = [&](std::span<int> list) {
    if (!list.empty())
      std::rotate(list.begin(), list.begin() + rounds_ % std::ssize(list), list.end());
  };
  turn(good);
  turn(count == 1 ? std::span(order)
                  : std::span(order).subspan(std::min(order.size(), size_t(count))));
  order.insert(order.end(), good.begin(), good.end());
  // One group alone leaves some out, else it were the whole.
  const int seats = count == 1 ? least : hosts;
  Round round{size_t(count)};
  for (int i = 0; i < seats; ++i) round[size_t(i % count)].push_back(order[size_t(i)]);
  for (HostGroup& group : round) std::ranges::sort(group);
  return round;
}

void Bisection::take(const Round& round, std::span<const double> ratios) {
  ++rounds_;
  for (size_t i = 0; i < round.size() && i < ratios.size(); ++i)
    if (ratios[i] > 0) measured_.push_back({round[i], ratios[i], true});
  divide_groups();
}

void Bisection::divide_groups() {
  double best = 0;
  for (const Measured& one : measured_) best = std::max(best, one.ratio);
  const bool apart = best * below_ >= whole_;
  divide_ = apart ? std::sqrt(whole_ * best) : best + whole_;
  good_.assign(good_.size(), false);
  for (Measured& one : measured_) {
    one.slow = one.ratio < divide_;
    for (const int host : one.hosts) good_[size_t(host)] = good_[size_t(host)] || !one.slow;
  }
}

std::vector<Trial> Bisection::trials(Suspects& parts) const {
  Trial all{.parts = {}, .bad = true, .ratio = whole_};
  for (const Host& host : hosts_)
    all.parts.push_back(parts.add({.kind = SubjectKind::host, .host = host}));
  std::vector<Trial> list{std::move(all)};
  for (const Measured& one : measured_) {
    Trial trial{.parts = one.hosts, .bad = one.slow, .ratio = one.ratio};
    if (one.hosts.size() <= kMostLinked)
      for (size_t a = 0; a < one.hosts.size(); ++a)
        for (size_t b = a + 1; b < one.hosts.size(); ++b)
          trial.parts.push_back(parts.add({.kind = SubjectKind::link,
                                           .host = hosts_[size_t(one.hosts[a])],
                                           .peer = hosts_[size_t(one.hosts[b])]}));
    list.push_back(std::move(trial));
  }
  return list;
}

std::vector<int> Bisection::culprits() const {
  double most_slow = 0, least_good = std::numeric_limits<double>::infinity();
  for (const Measured& one : measured_)
    one.slow ? most_slow = std::max(most_slow, one.ratio)
             : least_good = std::min(least_good, one.ratio);
  const int least = std::min(kLeastSlow, int(std::bit_width(hosts_.size() - 1)) - 1);
  std::vector<int> list;
  if (most_slow >= below_ * least_good) return list;
  Suspects parts;
  const std::vector<Trial> seen = trials(parts);
  for (const Blamed& one : blame(parts.all(), seen).culprits)
    if (one.part < int(hosts_.size()) && one.named() && !good_[size_t(one.part)] &&
        is_alone(one.part) && evidence(one.part).slow >= least)
      list.push_back(one.part);
  std::ranges::sort(list);
  return list;
}

Bisection::Evidence Bisection::evidence(int host) const {
  Evidence all;
  std::vector<double> ratios;
  for (const Measured& one : measured_) {
    if (std::ranges::count(one.hosts, host) == 0) continue;
    ++all.tried;
    all.slow += one.slow;
    ratios.push_back(one.ratio);
  }
  all.ratio = median(std::move(ratios));
  return all;
}

double Bisection::good() const {
  std::vector<double> ratios;
  for (const Measured& one : measured_)
    if (!one.slow) ratios.push_back(one.ratio);
  return median(std::move(ratios));
}

int Bisection::slow_groups() const {
  return int(std::ranges::count_if(measured_, [](const Measured& one) { return one.slow; }));
}

}  // namespace collctl::cmd
