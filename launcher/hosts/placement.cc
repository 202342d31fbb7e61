#include "launcher/hosts/placement.h"

#include <algorithm>

#include "base/format.h"
#include "base/number_ranges.h"

namespace collctl::launcher {

std::vector<HostSlots> host_slots(const std::vector<HostSpec>& hosts, int unsaid) {
  std::vector<HostSlots> slots;
  for (const HostSpec& host : hosts) {
    const int found = host.max_slots != 0 ? std::min(unsaid, host.max_slots) : unsaid;
    slots.push_back({.name = host.name,
                     .slots = host.slots.value_or(found),
                     .max_slots = host.max_slots,
                     .slots_said = host.slots.has_value()});
  }
  return slots;
}

namespace {

Error usage(std::string message, std::string hint) {
  return {ErrorCode::usage, std::move(message), std::move(hint)};
}

std::string plural(int64_t count, const char* what) {
  return format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "node01 4, node02 4, ...", of the hosts that `number` gives a number for.
template <class Number>
std::string host_numbers(const std::vector<HostSlots>& hosts, Number number) {
  constexpr int kShown = 4;
  std::string text;
  int shown = 0;
  for (const HostSlots& host : hosts) {
    const int value = number(host);
    if (value == 0) continue;
    if (shown++ == kShown) return text + ", ...";
    text += format("{}{} {}", text.empty() ? "" : ", ", host.name, value);
  }
  return text;
}

// How many ranks each host may take: within its slots, and in all.
struct Room {
  std::vector<int> slots, most;
  int64_t all_slots = 0, all = 0;
};

Result<Room> room_of(const std::vector<HostSlots>& hosts, const PlaceOptions& options) {
  Room room;
  const int k = options.per_host;
  const auto limit = [&](const HostSlots& host) {
    const int most = options.oversubscribe ? host.max_slots
                     : host.slots_said     ? host.slots
                                           : host.max_slots;
    return most != 0 && most < k ? most : 0;  // the number that is too small for -N
  };
  if (const std::string small = host_numbers(hosts, limit); k != 0 && !small.empty())
    return usage(format("{} per host requested, fewer slots on {}", plural(k, "rank"), small),
                 options.oversubscribe ? "use a smaller -N, or larger max_slots="
                                       : "use --oversubscribe, a smaller -N, or more slots=");
  for (const HostSlots& host : hosts) {
    room.slots.push_back(k != 0 ? k : host.slots);
    room.most.push_back(k != 0                   ? k
                        : !options.oversubscribe ? host.slots
                        : host.max_slots != 0    ? host.max_slots
                                                 : kMostRanks);
    room.all_slots += room.slots.back();
    room.all += room.most.back();
  }
  return room;
}

Error too_many(const std::vector<HostSlots>& hosts, const PlaceOptions& options, const Room& room) {
  const std::string asked = format("{} requested", plural(options.ranks, "rank"));
  const std::string where = plural(int64_t(hosts.size()), "host");
  if (options.per_host != 0)
    return usage(format("{}, {} per host on {} make {}", asked, options.per_host, where, room.all),
                 "use fewer -n, a larger -N, or more hosts");
  if (options.oversubscribe)
    return usage(format("{}, the max_slots of {} allow {} ({})", asked, where, room.all,
                        host_numbers(hosts, [](const HostSlots& h) { return h.max_slots; })),
                 "use fewer -n, larger max_slots=, or more hosts");
  return usage(format("{}, {} on {} ({})", asked, plural(room.all, "slot"), where,
                      host_numbers(hosts, [](const HostSlots& h) { return h.slots; })),
               "use --oversubscribe, fewer -n, or more slots=");
}

// One rank a host in turn, to those below their limit, until all are dealt. `deal` sees each host.
template <class Deal>
void deal_in_turn(std::vector<int>& counts, const std::vector<int>& limits, int& left, Deal deal) {
  std::vector<size_t> open;
  for (size_t host = 0; host < counts.size(); ++host)
    if (counts[host] < limits[host]) open.push_back(host);
  while (left > 0 && !open.empty()) {
    std::vector<size_t> still;
    for (const size_t host : open) {
      if (left == 0) break;
      --left;
      deal(host);
      if (++counts[host] < limits[host]) still.push_back(host);
    }
    open.swap(still);
  }
}

// The host of each rank, by rank.
std::vector<int> hosts_in_order(const Room& room, int ranks, MapBy map_by) {
  std::vector<int> order;
  std::vector<int> counts(room.slots.size());
  int left = ranks;
  const auto place = [&](size_t host) { order.push_back(int(host)); };
  if (map_by == MapBy::host) {
    deal_in_turn(counts, room.slots, left, place);
    deal_in_turn(counts, room.most, left, place);
    return order;
  }
  for (size_t host = 0; host < counts.size(); ++host) {
    counts[host] = std::min(left, room.slots[host]);
    left -= counts[host];
  }
  deal_in_turn(counts, room.most, left, [](size_t) {});
  for (size_t host = 0; host < counts.size(); ++host)
    order.insert(order.end(), size_t(counts[host]), int(host));
  return order;
}

}  // namespace

Result<JobPlacement> place_ranks(const std::vector<HostSlots>& hosts, const PlaceOptions& options) {
  if (hosts.empty()) return usage("no host to place ranks on", "give hosts with -H or --hostfile");
  COLL_ASSIGN(const Room room, room_of(hosts, options));
  const int64_t ranks = options.ranks != 0 ? options.ranks : room.all_slots;
  if (ranks > room.all) return too_many(hosts, options, room);
  if (ranks > kMostRanks)
    return usage(format("{} on {}, more than {}", plural(ranks, "rank"),
                        plural(int64_t(hosts.size()), "host"), kMostRanks),
                 "use -n or -N");
  JobPlacement placement;
  placement.host_of = hosts_in_order(room, int(ranks), options.map_by);
  placement.ranks_of.resize(hosts.size());
  for (size_t rank = 0; rank < placement.host_of.size(); ++rank) {
    auto& there = placement.ranks_of[size_t(placement.host_of[rank])];
    placement.local_rank.push_back(int(there.size()));
    there.push_back(int(rank));
  }
  return placement;
}

std::string rank_range(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + base::number_ranges(ranks, ", ");
}

Result<std::optional<JobPlacement>> place_before_asking(const std::vector<HostSpec>& hosts,
                                                        const PlaceOptions& options) {
  const bool all_said = std::all_of(hosts.begin(), hosts.end(),
                                    [](const HostSpec& host) { return host.slots.has_value(); });
  if (options.ranks == 0 && options.per_host == 0 && !all_said)
    return std::optional<JobPlacement>();
  // As many slots as could matter, and as few as a host may have: where both say the same, so does
  // anything between.
  COLL_ASSIGN(JobPlacement most,
              place_ranks(host_slots(hosts, std::max(options.ranks, 1)), options));
  auto least = place_ranks(host_slots(hosts, 1), options);
  if (!least.ok() || least->host_of != most.host_of) return std::optional<JobPlacement>();
  return std::optional(std::move(most));
}

}  // namespace collctl::launcher
