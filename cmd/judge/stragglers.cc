#include "cmd/judge/stragglers.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "cmd/measure/timing.h"

namespace collctl::cmd {
namespace {

// A straggler has so much more of the time than the others, and so many times what they have.
constexpr double kMoreShare = 0.15, kTimesOthers = 1.5;
constexpr double kLinkShare = 0.3, kTimesOtherLinks = 2;
constexpr double kToldAway = 0.05;  // of the time: without a processor

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

struct Carrying {
  const RankWaits *from, *to;
  double share;
};

std::vector<Straggler> late_ranks(std::span<const RankWaits> ranks) {
  std::vector<Straggler> late;
  for (const RankWaits& rank : ranks) {
    std::vector<double> others;
    for (const RankWaits& other : ranks)
      if (&other != &rank) others.push_back(share_of(other.own_us(), other.elapsed_us));
    const double usual = median(others), own = share_of(rank.own_us(), rank.elapsed_us);
    if (others.empty() || own < usual + kMoreShare || own < kTimesOthers * usual) continue;
    Straggler one{.at = {.kind = SubjectKind::rank, .host = rank.host, .rank = rank.rank},
                  .share = own,
                  .usual = usual,
                  .why = format("the others waited for it: it waited {:.0f} % of the time, they "
                                "{:.0f} %",
                                100 * (1 - own), 100 * (1 - usual))};
    if (rank.away_us > kToldAway * rank.elapsed_us)
      one.why += format("; it had no processor, or was stopped, for {:.2f} s", rank.away_us / 1e6);
    late.push_back(std::move(one));
  }
  return late;
}

// All ranks of a host that has several, while other hosts' are in time: it is the host.
void merge_hosts(std::span<const RankWaits> ranks, std::vector<Straggler>& late) {
  std::map<Host, int> all, bad;
  for (const RankWaits& rank : ranks) ++all[rank.host];
  for (const Straggler& one : late) ++bad[one.at.host];
  if (all.size() < 2) return;
  for (const auto& [host, count] : bad) {
    if (count < 2 || count != all[host]) continue;
    const Host late_host = host;
    const auto first =
        std::ranges::find_if(late, [&](const Straggler& one) { return one.at.host == late_host; });
    Straggler merged = *first;
    merged.at = {.kind = SubjectKind::host, .host = late_host};
    merged.why = format("all its {} ranks were late: {}", count, first->why);
    std::erase_if(late, [&](const Straggler& one) { return one.at.host == late_host; });
    late.push_back(std::move(merged));
  }
}

std::vector<Straggler> late_links(std::span<const RankWaits> ranks) {
  std::vector<Carrying> links;
  const auto find = [&](int number) { return std::ranges::find(ranks, number, &RankWaits::rank); };
  for (const RankWaits& rank : ranks)
    for (const PeerWaits& peer : rank.peers) {
      const auto to = find(peer.peer);
      if (peer.carrying_us > 0 && to != ranks.end())
        links.push_back({&rank, &*to, share_of(peer.carrying_us, rank.elapsed_us)});
    }
  std::vector<Straggler> late;
  for (const Carrying& link : links) {
    std::vector<double> others;
    for (const Carrying& other : links)
      if (&other != &link) others.push_back(other.share);
    const double usual = median(others);
    // With two links, nobody knows which is the usual one.
    if (others.size() < 2 || link.share < kLinkShare || link.share < kTimesOtherLinks * usual)
      continue;
    late.push_back({.at = {.kind = SubjectKind::link,
                           .host = link.from->host,
                           .peer = link.to->host,
                           .rank = link.from->rank,
                           .peer_rank = link.to->rank},
                    .share = link.share,
                    .usual = usual,
                    .why = format("it carried data {:.0f} % of the time, other links {:.0f} %",
                                  100 * link.share, 100 * usual)});
  }
  // Several links with one host in common: that host's network.
  if (late.size() < 2) return late;
  std::set<Host> common = {late.front().at.host, late.front().at.peer};
  for (const Straggler& one : late)
    std::erase_if(common,
                  [&](const Host& host) { return host != one.at.host && host != one.at.peer; });
  if (common.size() != 1) return late;
  Straggler merged = late.front();
  merged.at = {.kind = SubjectKind::host, .host = *common.begin()};
  merged.why = format("{} links of it were slow: {}", late.size(), merged.why);
  return {merged};
}

}  // namespace

std::vector<Straggler> stragglers(std::span<const RankWaits> ranks) {
  std::vector<Straggler> late = late_ranks(ranks);
  if (late.empty())
    late = late_links(ranks);
  else
    merge_hosts(ranks, late);
  std::ranges::stable_sort(late, [](const Straggler& a, const Straggler& b) {
    return a.share - a.usual > b.share - b.usual;
  });
  return late;
}

std::string straggler_name(const Straggler& straggler) {
  const Subject& at = straggler.at;
  if (at.kind == SubjectKind::host) return "host " + at.host.name;
  if (at.kind == SubjectKind::link)
    return format("link rank {} (host {}) -> rank {} (host {})", at.rank, at.host, at.peer_rank,
                  at.peer);
  return format("rank {} (host {})", at.rank, at.host);
}

}  // namespace collctl::cmd
