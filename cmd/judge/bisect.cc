#include "cmd/judge/bisect.h"

#include <algorithm>
#include <bit>

#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

// A group may be slow for a link between two of its hosts; of larger ones there are too many to
// tell apart, and smaller ones follow.
constexpr size_t kMostLinked = 16;

}  // namespace

Bisection::Bisection(std::span<const Host> hosts, double whole, double below)
    : hosts_(hosts.begin(), hosts.end()), slow_below_(whole / below), good_(hosts.size(), false) {
  Trial all{.parts = {}, .bad = true, .ratio = whole};
  for (const Host& host : hosts_)
    all.parts.push_back(parts_.add({.kind = SubjectKind::host, .host = host}));
  trials_.push_back(std::move(all));
}

std::vector<int> Bisection::suspects() const {
  std::vector<int> list;
  for (int host = 0; host < int(hosts_.size()); ++host)
    if (!good_[size_t(host)]) list.push_back(host);
  return list;
}

int Bisection::alone(int host) const {
  return int(std::count_if(measured_.begin(), measured_.end(), [&](const Measured& one) {
    return one.slow && std::ranges::count(one.hosts, host) == 1 &&
           std::ranges::count_if(one.hosts, [&](int h) { return !good_[size_t(h)]; }) == 1;
  }));
}

Round Bisection::next() const {
  const int hosts = int(hosts_.size());
  const std::vector<int> open = suspects();
  const bool settled = rounds_ > 1 && open == culprits();
  if (hosts < 3 || settled || rounds_ >= int(std::bit_width(unsigned(hosts - 1))) + 2) return {};

  const int least = std::max(2, hosts >> std::min(rounds_ + 1, 30));
  const int count = hosts / least;
  // Suspects first, one a group as far as there are groups, so that each group has equally many;
  // then the good ones. The later ones are turned with every round, so that partners change.
  std::vector<int> order = open, good;
  for (int host = 0; host < hosts; ++host)
    if (good_[size_t(host)]) good.push_back(host);
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
  for (size_t i = 0; i < round.size() && i < ratios.size(); ++i) {
    if (ratios[i] <= 0) continue;
    const bool slow = ratios[i] < slow_below_;
    measured_.push_back({round[i], ratios[i], slow});
    Trial trial{.parts = round[i], .bad = slow, .ratio = ratios[i]};
    for (const int host : round[i]) good_[size_t(host)] = good_[size_t(host)] || !slow;
    if (round[i].size() <= kMostLinked)
      for (size_t a = 0; a < round[i].size(); ++a)
        for (size_t b = a + 1; b < round[i].size(); ++b)
          trial.parts.push_back(parts_.add({.kind = SubjectKind::link,
                                            .host = hosts_[size_t(round[i][a])],
                                            .peer = hosts_[size_t(round[i][b])]}));
    trials_.push_back(std::move(trial));
  }
}

std::vector<int> Bisection::culprits() const {
  std::vector<int> list;
  for (const Blamed& one : blame(parts_.all(), trials_).culprits)
    if (one.part < int(hosts_.size()) && one.named() && !good_[size_t(one.part)] &&
        alone(one.part) > 0)
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
