#include "cmd/check/tally.h"

#include "base/format.h"

namespace collctl::cmd {

void Tally::plan(const Host& host, size_t count, const char* what) {
  hosts_[host].planned += count;
  what_ = what;
}

void Tally::did(const Host& host, const std::string& key) {
  hosts_[host].done.insert(key);
}

size_t Tally::planned() const {
  size_t sum = 0;
  for (const auto& [host, counts] : hosts_) sum += counts.planned;
  return sum;
}

size_t Tally::done() const {
  size_t sum = 0;
  for (const auto& [host, counts] : hosts_) sum += counts.counted();
  return sum;
}

std::vector<Finding> Tally::missing(const std::string& suite,
                                    const std::map<Host, std::string>& excused) const {
  std::vector<Finding> list;
  const auto add = [&](Subject at, std::string why) {
    Finding finding{.name = suite + "/measured", .at = std::move(at)};
    finding.leave_out(std::move(why),
                      "a suite that has not measured what it planned says nothing "
                      "good: run it again, with -v for what it did");
    list.push_back(std::move(finding));
  };
  if (planned() == 0) {
    add({}, suite + ": there was nothing to measure");
    return list;
  }
  std::vector<Host> less;
  size_t counted = 0;
  for (const auto& [host, counts] : hosts_) {
    if (excused.contains(host)) continue;
    ++counted;
    if (counts.counted() < counts.planned) less.push_back(host);
  }
  if (less.size() > 1 && less.size() == counted) {
    add({}, format("{}: {} of {} {} were measured", suite, done(), planned(), what_));
    return list;
  }
  for (const Host& host : less) {
    const Counts& counts = hosts_.at(host);
    add({.kind = SubjectKind::host, .host = host},
        format("{}: {} of {} {} were measured", host, counts.counted(), counts.planned, what_));
  }
  return list;
}

}  // namespace collctl::cmd
