// Culprits, from measurements that overlap: every measurement goes through several parts
// (hosts, NICs, a link) and is bad when one of them is. Values in, values out; no threads, no
// clock.
//
// Why a likelihood and not a least-squares fit: bandwidth is that of the narrowest part and not a
// sum over the parts, and a broken part gives no number at all. Every measurement does say good or
// bad, so this is group testing with noise: of all small sets of culprits the one is sought under
// which the measurements seen are most probable, P(set) times the product of P(good or bad | set),
// where each kind of part has a prior. One culprit behind many bad measurements is then far more
// probable than many culprits behind one each, and one bad measurement among many good ones of the
// same part is taken for noise until it has been repeated.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

// Which of what goes through a part: all of it, or one direction. An end that only sends badly, or
// only receives badly, is a culprit of its own: its other direction is good every time.
enum class Way : uint8_t { both, out, in };

// A part that can be at fault.
struct Suspect {
  Subject at;
  Way way = Way::both;  // of a link: `out` is from `host` to `peer`
  // "node04", "node01 -> node04".
  std::string name() const;
  // The same, "what node04 sends".
  std::string text() const;
};

// The part with both its directions: a link has its first end first, whichever sends.
Subject whole_of(Subject at);

// The suspects of some measurements, numbered as they come.
class Suspects {
 public:
  // The same number for the same part and way. A link with a way is what its `host` sends to its
  // `peer`; without one it is what lies between the two, whichever comes first.
  int add(const Subject& part, Way way = Way::both) {
    const Subject& at = way == Way::both ? whole_of(part) : part;
    const auto [known, fresh] = index_.try_emplace(std::pair(at, way), int(list_.size()));
    if (fresh) list_.push_back({at, way});
    return known->second;
  }
  const Suspect& operator[](int part) const { return list_[size_t(part)]; }
  std::span<const Suspect> all() const { return list_; }

 private:
  std::vector<Suspect> list_;
  std::map<std::pair<Subject, Way>, int> index_;
};

// One measurement. `ratio`: measured over expected, 0 when it broke or never ended.
struct Trial {
  std::vector<int> parts;  // indexes, each once
  bool bad = false;
  double ratio = 1;
};

struct Blamed {
  int part = 0;
  // Parts that explain as much nearly as well (odds below 30 : 1): the measurements cannot tell
  // them apart, and whoever reports this names all of them or none.
  std::vector<int> alternatives;
  int bad = 0, tried = 0;     // its measurements without another culprit's: n of m
  bool intermittent = false;  // many of its measurements are good
  double median_ratio = 0;    // of the bad ones
  double log_odds = 0;        // of the set with this part against the set without it
  // Sure enough to be named: 20 : 1, and no alternative.
  bool named() const { return alternatives.empty() && log_odds >= 3; }
};

struct Blame {
  std::vector<Blamed> culprits;  // the strongest first
  std::vector<int> unexplained;  // bad trials that no culprit explains: to be measured again
};
Blame blame(std::span<const Suspect> parts, std::span<const Trial> trials);
// The part and those that cannot be told from it: "node01, node02 - node03".
std::string names_of(const Blamed& one, const Suspects& parts);

// The measurements to make. Groups of one round have no member in common, so they run at the same
// time.
using HostGroup = std::vector<int>;  // two hosts or more
using Round = std::vector<HostGroup>;

// The rounds of a tournament: in each, every one of n has at most one partner; every pair once.
std::vector<std::vector<std::pair<int, int>>> tournament(int n);
// Every pair once, in n - 1 rounds (n if odd); from `few` hosts on, only the pairs at distances of
// powers of two, in about 2 log2 n rounds: every host is still in several pairs with different
// partners, but not every link is tried.
std::vector<Round> pair_rounds(int hosts, int few = 64);

// The round that settles most of what is open: each suspect beside a host known to be good, pairs
// that were bad once more, and large groups that were bad in halves filled up with good hosts.
// `hosts`: parts 0 .. hosts - 1 are the hosts. Empty: nothing is open, or nothing more can be
// learned by pairs and groups of hosts. `round` varies the partners.
Round next_round(std::span<const Suspect> parts, std::span<const Trial> trials, int hosts,
                 int round);

}  // namespace collctl::cmd
