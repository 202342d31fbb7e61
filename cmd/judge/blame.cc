#include "cmd/judge/blame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr double kOneWay = 0.5;  // a part that is bad in one direction, beside one that is in both

// Odds before anything was measured. A host goes wrong in more ways than one of its links; what is
// asked is only that the order is right and that a lone bad measurement (kAlarm) weighs less than a
// culprit.
double log_prior(const Suspect& part) {
  const double whole = part.at.kind == SubjectKind::host   ? 0.01
                       : part.at.kind == SubjectKind::link ? 0.002
                                                           : 0.005;
  return std::log(part.way == Way::both ? whole : kOneWay * whole);
}
constexpr double kAlarm = 0.01;   // a bad measurement of good parts
constexpr double kMissed = 0.02;  // a good measurement of a bad part
// A good measurement of a part that is bad only sometimes.
constexpr double kMissedSometimes = 0.5;
const double kIntermittentPrior = std::log(0.1);
const double kAlikeOdds = std::log(30.0);

// Measurements by the parts they go through, and which culprits each goes through.
class Search {
 public:
  Search(std::span<const Suspect> parts, std::span<const Trial> trials)
      : parts_(parts),
        trials_(trials),
        of_part_(parts.size()),
        missed_(trials.size(), 1.0),
        in_(parts.size(), 0) {
    for (size_t i = 0; i < trials.size(); ++i)
      for (const int part : trials[i].parts)
        of_part_[static_cast<size_t>(part)].push_back(static_cast<int>(i));
    for (size_t part = 0; part < parts.size(); ++part)
      if (std::ranges::any_of(of_part_[part], [&](int t) { return trials[index(t)].bad; }))
        candidates_.push_back(static_cast<int>(part));
  }

  // By how much the set gets more probable when the part comes in as one that misses so many.
  double gain(int part, double missed) const {
    double sum = log_prior(parts_[index(part)]) + (missed == kMissed ? 0 : kIntermittentPrior);
    for (const int t : of_part_[index(part)])
      sum += likelihood(t, missed_[index(t)] * missed) - likelihood(t, missed_[index(t)]);
    return sum;
  }
  double best_gain(int part) const {
    return std::max(gain(part, kMissed), gain(part, kMissedSometimes));
  }
  void put_in(int part) {
    const double missed =
        gain(part, kMissed) >= gain(part, kMissedSometimes) ? kMissed : kMissedSometimes;
    in_[index(part)] = missed;
    for (const int t : of_part_[index(part)]) missed_[index(t)] *= missed;
  }
  void take_out(int part) {
    for (const int t : of_part_[index(part)]) missed_[index(t)] /= in_[index(part)];
    in_[index(part)] = 0;
  }

  // The best one in, as long as that helps; after each, whoever is no longer needed goes and
  // whoever has a better replacement is replaced. Ends: the probability rises with every step.
  void run() {
    for (;;) {
      const int best = best_candidate();
      if (best < 0 || best_gain(best) <= kLeast) return;
      put_in(best);
      for (const int part : culprits()) {
        if (part == best) continue;
        take_out(part);
        const double own = best_gain(part);
        const int other = best_candidate();
        const double theirs = other < 0 ? kLeast : best_gain(other);
        if (std::max(own, theirs) <= kLeast) continue;
        put_in(theirs > own + kLeast ? other : part);
      }
    }
  }

  std::vector<int> culprits() const {
    std::vector<int> list;
    for (const int part : candidates_)
      if (in_[index(part)] != 0) list.push_back(part);
    return list;
  }

  Blamed describe(int part) {
    Blamed out;
    out.part = part;
    out.intermittent = in_[index(part)] != kMissed;
    take_out(part);
    out.log_odds = best_gain(part);
    std::vector<double> ratios;
    std::set<int> beside;  // parts that share a bad measurement with it
    for (const int t : of_part_[index(part)]) {
      if (missed_[index(t)] != 1.0) continue;
      ++out.tried;
      if (!trials_[index(t)].bad) continue;
      ++out.bad;
      ratios.push_back(trials_[index(t)].ratio);
      beside.insert(trials_[index(t)].parts.begin(), trials_[index(t)].parts.end());
    }
    for (const int other : beside)
      if (other != part && in_[index(other)] == 0 &&
          best_gain(other) + kAlikeOdds + prior_lead(part, other) > out.log_odds)
        out.alternatives.push_back(other);
    if (!ratios.empty()) {
      std::nth_element(ratios.begin(),
                       ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2),
                       ratios.end());
      out.median_ratio = ratios[ratios.size() / 2];
    }
    put_in(part);
    return out;
  }

  std::vector<int> unexplained() const {
    std::vector<int> list;
    for (size_t t = 0; t < trials_.size(); ++t)
      if (trials_[t].bad && missed_[t] == 1.0) list.push_back(static_cast<int>(t));
    return list;
  }

 private:
  static constexpr double kLeast = 1e-9;
  static size_t index(int i) { return static_cast<size_t>(i); }

  // `missed`: the probability that all culprits in the measurement went unnoticed; 1 without any.
  double likelihood(int t, double missed) const {
    const double good = missed * (1 - kAlarm);
    return std::log(trials_[index(t)].bad ? 1 - good : good);
  }
  // Priors choose between explanations, they do not tell two apart that no measurement tells apart.
  double prior_lead(int part, int other) const {
    return log_prior(parts_[index(part)]) - log_prior(parts_[index(other)]);
  }
  int best_candidate() const {
    int best = -1;
    double most = 0;
    for (const int part : candidates_) {
      if (in_[index(part)] != 0) continue;
      const double value = best_gain(part);
      if (best >= 0 && value <= most) continue;
      best = part;
      most = value;
    }
    return best;
  }

  std::span<const Suspect> parts_;
  std::span<const Trial> trials_;
  std::vector<std::vector<int>> of_part_;
  std::vector<double> missed_;
  std::vector<double> in_;  // how much a culprit misses; 0: none
  std::vector<int> candidates_;
};

}  // namespace

Subject whole_of(Subject at) {
  if (at.kind == SubjectKind::link &&
      std::tie(at.peer, at.peer_device) < std::tie(at.host, at.device)) {
    std::swap(at.host, at.peer);
    std::swap(at.device, at.peer_device);
  }
  return at;
}

std::string Suspect::name() const {
  if (way == Way::both || at.kind != SubjectKind::link) return subject_name(at);
  const auto end = [](const Host& host, const std::string& device) {
    return subject_name({.kind = SubjectKind::nic, .host = host, .device = device});
  };
  return format("{} -> {}", end(at.host, at.device), end(at.peer, at.peer_device));
}

std::string Suspect::text() const {
  if (way == Way::both || at.kind == SubjectKind::link) return name();
  return format("what {} {}", name(), way == Way::out ? "sends" : "receives");
}

Blame blame(std::span<const Suspect> parts, std::span<const Trial> trials) {
  Search search(parts, trials);
  search.run();
  Blame out;
  for (const int part : search.culprits()) out.culprits.push_back(search.describe(part));
  std::ranges::stable_sort(out.culprits, std::ranges::greater{}, &Blamed::log_odds);
  out.unexplained = search.unexplained();
  return out;
}

std::vector<std::vector<std::pair<int, int>>> tournament(int n) {
  // The circle method: one stays, the others move on by one place each round; with an odd number
  // one of them has no partner.
  std::vector<std::vector<std::pair<int, int>>> rounds;
  if (n < 2) return rounds;
  const int places = n + n % 2;
  for (int round = 0; round + 1 < places; ++round) {
    const auto at = [&](int place) {
      return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1);
    };
    auto& pairs = rounds.emplace_back();
    for (int place = 0; place < places / 2; ++place) {
      const int a = at(place), b = at(places - 1 - place);
      if (a < n && b < n) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

std::vector<Round> pair_rounds(int hosts, int few) {
  std::vector<Round> rounds;
  if (hosts < few) {
    for (const auto& pairs : tournament(hosts)) {
      Round& round = rounds.emplace_back();
      for (const auto& [a, b] : pairs) round.push_back({a, b});
    }
    return rounds;
  }
  for (int distance = 1; distance < hosts; distance *= 2)
    for (int phase = 0; phase < 2; ++phase) {
      Round round;
      for (int a = 0; a + distance < hosts; ++a)
        if (a / distance % 2 == phase) round.push_back({a, a + distance});
      if (!round.empty()) rounds.push_back(std::move(round));
    }
  return rounds;
}

namespace {

HostGroup hosts_of(const Trial& trial, int hosts) {
  HostGroup group;
  for (const int part : trial.parts)
    if (part < hosts) group.push_back(part);
  return group;
}

// The good measurements, by what was measured.
class Good {
 public:
  Good(std::span<const Trial> trials, int hosts) : by_host_(static_cast<size_t>(hosts)) {
    for (size_t t = 0; t < trials.size(); ++t) {
      if (trials[t].bad) continue;
      const HostGroup group = hosts_of(trials[t], hosts);
      for (const int host : group) by_host_[static_cast<size_t>(host)].push_back(t);
      if (group.size() == 2) by_pair_[{group[0], group[1]}].push_back(t);
    }
  }
  bool any(int host) const { return !by_host_[static_cast<size_t>(host)].empty(); }
  // A bad measurement that nothing explains was noise once its parts have been good twice since:
  // the pair itself, or every host of a larger group.
  bool twice_since(const HostGroup& group, size_t t) const {
    const auto twice = [&](const std::vector<size_t>& list) {
      return list.end() - std::upper_bound(list.begin(), list.end(), t) >= 2;
    };
    if (group.size() == 2) {
      const auto at = by_pair_.find({group[0], group[1]});
      return at != by_pair_.end() && twice(at->second);
    }
    return std::ranges::all_of(
        group, [&](int host) { return twice(by_host_[static_cast<size_t>(host)]); });
  }

 private:
  std::vector<std::vector<size_t>> by_host_;
  std::map<std::pair<int, int>, std::vector<size_t>> by_pair_;
};

}  // namespace

Round next_round(std::span<const Suspect> parts, std::span<const Trial> trials, int hosts,
                 int round) {
  const Blame now = blame(parts, trials);
  const Good good_ones(trials, hosts);
  std::set<int> settled, suspects;
  std::vector<HostGroup> again;  // pairs to be measured once more
  std::vector<HostGroup> large;  // of which only the suspects are
  const auto open = [&](const HostGroup& group, const std::set<int>& among) {
    HostGroup left;
    for (const int host : group)
      if (among.contains(host) && !settled.contains(host)) left.push_back(host);
    suspects.insert(left.begin(), left.end());
    if (group.size() == 2) again.push_back(group);
    if (group.size() > 2 && left.size() > 1) large.push_back(std::move(left));
  };
  for (const Blamed& one : now.culprits)
    if (one.named()) settled.insert(one.part);
  for (const Blamed& one : now.culprits) {
    if (one.named()) continue;
    std::set<int> either(one.alternatives.begin(), one.alternatives.end());
    either.insert(one.part);
    for (const Trial& trial : trials) {
      if (!trial.bad ||
          std::ranges::none_of(trial.parts, [&](int p) { return either.contains(p); }))
        continue;
      const HostGroup group = hosts_of(trial, hosts);
      // Under suspicion for a link of theirs, its hosts are too.
      std::set<int> among = either;
      if (group.size() == 2) among.insert(group.begin(), group.end());
      open(group, among);
    }
  }
  for (const int t : now.unexplained) {
    const HostGroup group = hosts_of(trials[static_cast<size_t>(t)], hosts);
    if (good_ones.twice_since(group, static_cast<size_t>(t))) continue;
    open(group, {group.begin(), group.end()});
  }
  if (suspects.empty() && again.empty()) return {};

  // The good ones, turned by `round` so that partners change.
  std::vector<int> good;
  for (int host = 0; host < hosts; ++host)
    if (!suspects.contains(host) && !settled.contains(host) && good_ones.any(host))
      good.push_back(host);
  const auto turn = [&](std::vector<int>& list) {
    if (!list.empty())
      std::rotate(list.begin(), list.begin() + round % static_cast<int>(list.size()), list.end());
  };
  turn(good);

  Round out;
  std::set<int> busy;
  auto next_good = good.begin();
  const auto take = [&](HostGroup group) {
    if (std::ranges::any_of(group, [&](int host) { return busy.contains(host); })) return;
    std::ranges::sort(group);
    busy.insert(group.begin(), group.end());
    out.push_back(std::move(group));
  };
  const auto with_good = [&](int host) {
    if (!busy.contains(host) && next_good != good.end()) take({host, *next_good++});
  };
  // In turn: the pairs once more, and each of their hosts beside a good one. The smallest large
  // group knows most.
  std::ranges::stable_sort(
      large, [](const HostGroup& a, const HostGroup& b) { return a.size() < b.size(); });
  if (round % 2 == 0)
    for (const HostGroup& group : again) take(group);
  for (const HostGroup& group : large) {
    const auto middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
    for (HostGroup half : {HostGroup(group.begin(), middle), HostGroup(middle, group.end())}) {
      if (half.size() == 1)
        with_good(half.front());
      else
        take(std::move(half));
    }
  }
  for (const int host : suspects) with_good(host);
  // Without good ones left the suspects measure each other, in another order each time.
  std::vector<int> rest;
  for (const int host : suspects)
    if (!busy.contains(host)) rest.push_back(host);
  turn(rest);
  for (size_t i = 0; i + 1 < rest.size(); i += 2) take({rest[i], rest[i + 1]});
  // A pair whose hosts are settled has nothing else to say.
  for (const HostGroup& group : again) take(group);
  return out;
}

std::string names_of(const Blamed& one, const Suspects& parts) {
  std::vector<int> all = one.alternatives;
  all.insert(all.begin(), one.part);
  std::string names;
  for (const int part : all) {
    // A part as a whole says more than a direction of it.
    const bool said = std::ranges::any_of(all, [&](int whole) {
      return whole != part && parts[part].way != Way::both && parts[whole].way == Way::both &&
             parts[whole].at == whole_of(parts[part].at);
    });
    if (!said) names += (names.empty() ? "" : ", ") + parts[part].text();
  }
  return names;
}

}  // namespace collctl::cmd
