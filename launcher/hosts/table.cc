#include "launcher/hosts/table.h"

#include "base/format.h"

namespace collctl::launcher {

Status HostTable::add(const SourceLine& line, size_t at, const HostSpec& spec) {
  const auto [found, is_new] = index_.emplace(spec.name, hosts_.size());
  if (is_new) {
    if (hosts_.size() >= kMostHosts)
      return line.mistake(at, format("more than {} hosts", kMostHosts));
    hosts_.emplace_back().spec.name = spec.name;
    hosts_.back().spec.where = places_.back();
  }
  return merge(line, at, hosts_[found->second], spec);
}

Status HostTable::merge(const SourceLine& line, size_t at, Host& host, const HostSpec& spec) {
  COLL_TRY(add_slots(line, at, host, spec.slots));
  size_t index = 0;
  for (const Attribute& attribute : attributes()) {
    const size_t i = index++;
    const std::string now = attribute.text(spec);
    if (now.empty()) continue;
    const std::string before = attribute.text(host.spec);
    if (!before.empty() && before != now)
      return line.mistake(at, format("{} has {}={} here but {}={} at {}", spec.name, attribute.name,
                                     now, attribute.name, before, places_[host.said[i]]));
    if (before.empty()) {
      attribute.read(now, host.spec);
      host.said[i] = uint32_t(places_.size() - 1);
    }
  }
  // max_slots is the first attribute.
  if (host.spec.max_slots != 0 && host.spec.slots.value_or(host.mentions) > host.spec.max_slots)
    return line.mistake(at, format("{} has {} slots in all, more than max_slots={} at {}",
                                   spec.name, host.spec.slots.value_or(host.mentions),
                                   host.spec.max_slots, places_[host.said[0]]));
  return {};
}

Status HostTable::add_slots(const SourceLine& line, size_t at, Host& host,
                            std::optional<int> slots) {
  if (host.mentions++ == 0) {
    host.spec.slots = slots;
    host.slots_said = uint32_t(places_.size() - 1);
    return {};
  }
  if (slots.has_value() != host.spec.slots.has_value())
    return line.mistake(
        at, format("{} has {} here but {} at {}: expected slots on both lines or on none",
                   host.spec.name, slots ? format("{} slots", *slots) : "no number of slots",
                   slots ? "no number of slots" : format("{} slots", *host.spec.slots),
                   places_[host.slots_said]));
  if (slots) *host.spec.slots += *slots;
  if (host.spec.slots.value_or(host.mentions) > kMostSlots)
    return line.mistake(at, format("{} has more than {} slots in all", host.spec.name, kMostSlots));
  return {};
}

Status HostTable::pick_from(const HostTable& inventory, const std::string& hostfile) {
  for (Host& host : hosts_) {
    const std::string& where = host.spec.where;
    const auto known = inventory.index_.find(host.spec.name);
    if (known == inventory.index_.end())
      return Error(ErrorCode::usage,
                   format("{}: {} is not a host of {}", where, host.spec.name, hostfile),
                   "with a hostfile, -H selects among its hosts");
    HostSpec spec = inventory.hosts_[known->second].spec;
    spec.slots = host.slots() ? host.slots() : inventory.hosts_[known->second].slots();
    if (!host.spec.user.empty()) spec.user = host.spec.user;
    if (spec.max_slots != 0 && spec.slots.value_or(1) > spec.max_slots)
      return Error(ErrorCode::usage,
                   format("{}: {} slots of {} are more than its max_slots={} ({})", where,
                          *spec.slots, spec.name, spec.max_slots, spec.where));
    host = Host{.spec = std::move(spec), .mentions = 1, .slots_said = 0, .said = {}};
  }
  return {};
}

std::vector<HostSpec> HostTable::take() {
  std::vector<HostSpec> specs;
  specs.reserve(hosts_.size());
  for (Host& host : hosts_) {
    host.spec.slots = host.slots();
    specs.push_back(std::move(host.spec));
  }
  *this = HostTable();
  return specs;
}

}  // namespace collctl::launcher
