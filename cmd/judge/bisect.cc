#include "cmd/judge/bisect.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

// A group may be slow for a link between two of its hosts; of larger ones there are too many to
// tell apart, and smaller ones follow.
constexpr size_t kMostLinked = 16;
constexpr int kLeastSlow = 3;   // groups before a host is named, of as many hosts as allow it
constexpr int kLeastAlone = 2;  // times that two hosts are slow before their link is named

int log2_up(size_t hosts) {
  return int(std::bit_width(hosts - 1));
}

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
  if (hosts < 3) return {};
  std::vector<int> open, good;
  for (int host = 0; host < hosts; ++host) (good_[size_t(host)] ? good : open).push_back(host);
  const int log2 = log2_up(hosts_.size());
  if ((rounds_ > 1 && open == suspects_) || rounds_ >= log2 + 2)
    return rounds_ < 6 * log2 + 2 ? link_round() : Round();

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
  suspects_.clear();
  culprits_.clear();
  slow_links_.clear();
  double most_slow = 0, least_good = std::numeric_limits<double>::infinity();
  for (const Measured& one : measured_)
    one.slow ? most_slow = std::max(most_slow, one.ratio)
             : least_good = std::min(least_good, one.ratio);
  apart_ = most_slow < below_ * least_good;
  if (!apart_) return;
  find_hosts();
  find_links();
}

void Bisection::divide_groups() {
  double best = 0;
  for (const Measured& one : measured_) best = std::max(best, one.ratio);
  const bool apart = best * below_ >= whole_;
  divide_ = apart ? std::sqrt(whole_ * best) : best + whole_;
  good_.assign(good_.size(), false);
  met_.assign(good_.size() * good_.size(), false);
  for (Measured& one : measured_) {
    one.slow = one.ratio < divide_;
    if (one.slow) continue;
    for (const int host : one.hosts) {
      good_[size_t(host)] = true;
      for (const int other : one.hosts) met_[size_t(host) * good_.size() + size_t(other)] = true;
    }
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

void Bisection::find_hosts() {
  const int least = std::min(kLeastSlow, log2_up(hosts_.size()) - 1);
  Suspects parts;
  const std::vector<Trial> seen = trials(parts);
  for (const Blamed& one : blame(parts.all(), seen).culprits)
    if (one.part < int(hosts_.size()) && one.named() && !good_[size_t(one.part)] &&
        is_alone(one.part) && evidence({one.part}).slow >= least)
      suspects_.push_back(one.part);
  std::ranges::sort(suspects_);
  // With one good host in all its slow groups it may be the link between the two.
  std::ranges::copy_if(suspects_, std::back_inserter(culprits_),
                       [&](int host) { return company(host).empty(); });
}

HostGroup Bisection::company(int host) const {
  HostGroup all;
  for (int other = 0; other < int(hosts_.size()); ++other)
    if (good_[size_t(other)]) all.push_back(other);
  for (const Measured& one : measured_)
    if (one.slow && std::ranges::count(one.hosts, host) == 1)
      std::erase_if(all, [&](int other) { return std::ranges::count(one.hosts, other) == 0; });
  return all;
}

void Bisection::find_links() {
  for (const Measured& one : measured_) {
    if (!one.slow || one.hosts.size() != 2) continue;
    const Link link(one.hosts[0], one.hosts[1]);
    if (good_[size_t(link.first)] && good_[size_t(link.second)] &&
        !have_met(link.first, link.second))
      ++slow_links_[link];
  }
}

std::vector<Bisection::Link> Bisection::links() const {
  std::vector<Link> list;
  for (const auto& [link, times] : slow_links_)
    if (times >= kLeastAlone) list.push_back(link);
  return list;
}

bool Bisection::is_explained(const HostGroup& group) const {
  const auto has = [&](int host) { return std::ranges::count(group, host) > 0; };
  return std::ranges::any_of(culprits_, has) || std::ranges::any_of(links(), [&](const Link& link) {
           return has(link.first) && has(link.second);
         });
}

// Two good hosts each that were in no good group together.
size_t Bisection::open_links(const HostGroup& group) const {
  size_t open = 0;
  for (size_t a = 0; a < group.size(); ++a)
    for (size_t b = a + 1; b < group.size(); ++b)
      open += good_[size_t(group[a])] && good_[size_t(group[b])] && !have_met(group[a], group[b]);
  return open;
}

Round Bisection::link_round() const {
  if (!apart_) return {};
  Round round;
  std::vector<bool> taken(hosts_.size(), false);
  const auto add = [&](int a, int b) {
    if (taken[size_t(a)] || taken[size_t(b)]) return;
    taken[size_t(a)] = taken[size_t(b)] = true;
    round.push_back({std::min(a, b), std::max(a, b)});
  };
  for (const int host : suspects_) {
    const HostGroup with = company(host);
    for (int other = 0; !with.empty() && other < int(hosts_.size()); ++other)
      if (good_[size_t(other)] && std::ranges::count(with, other) == 0) add(host, other);
  }
  for (const auto& [link, times] : slow_links_)
    if (times < kLeastAlone) add(link.first, link.second);
  if (!round.empty()) return round;

  // The smallest slow group that nothing explains; all together were slow as well.
  HostGroup least(hosts_.size());
  std::iota(least.begin(), least.end(), 0);
  if (is_explained(least)) least.clear();
  for (const Measured& one : measured_)
    if (one.slow && one.hosts.size() > 2 && (least.empty() || one.hosts.size() < least.size()) &&
        !is_explained(one.hosts) && open_links(one.hosts) > 0)
      least = one.hosts;
  std::array<HostGroup, 4> quarters;
  for (size_t i = 0; i < least.size(); ++i) quarters[i * 4 / least.size()].push_back(least[i]);
  size_t most = 0;
  for (size_t partner = 1; partner < quarters.size(); ++partner) {
    Round halves(2);
    for (size_t q = 0; q < quarters.size(); ++q) {
      HostGroup& half = halves[q == 0 || q == partner ? 0 : 1];
      half.insert(half.end(), quarters[q].begin(), quarters[q].end());
    }
    std::erase_if(halves, [](const HostGroup& half) { return half.size() < 2; });
    size_t open = 0;
    for (const HostGroup& half : halves) open += open_links(half);
    if (open <= most) continue;
    most = open;
    round = std::move(halves);
  }
  return round;
}

Bisection::Evidence Bisection::evidence(const HostGroup& hosts) const {
  Evidence all;
  std::vector<double> ratios;
  for (const Measured& one : measured_) {
    if (!std::ranges::all_of(hosts, [&](int h) { return std::ranges::count(one.hosts, h) > 0; }))
      continue;
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
