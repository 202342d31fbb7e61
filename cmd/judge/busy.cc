#include "cmd/judge/busy.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/judge/bench.h"

namespace collctl::cmd {
namespace {

constexpr double kNoExcuseBelow = 0.2;

bool is_spoilt(const Finding& finding) {
  return finding.reason == kBusyHost && finding.status != FindingStatus::pass;
}

}  // namespace

bool is_excusable(double measured, double asked) {
  return measured > 0 && asked > 0 && measured >= kNoExcuseBelow * asked &&
         asked >= kNoExcuseBelow * measured;
}

bool is_excusable(const Finding& finding) {
  return is_excusable(finding.figure(), finding.asked());
}

Finding& spoil(Finding& finding, std::string message, std::string remedy) {
  finding.reason = kBusyHost;
  return finding.leave_out(std::move(message), std::move(remedy));
}

void leave_out_spoilt(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (says_too_slow(finding) && is_excusable(finding)) spoil(finding, finding.message);
  }
}

bool BusyGuard::again(std::span<const Finding> found, const BusyHosts& busy) {
  const int64_t now = now_ns(), took_ns = now - std::exchange(began_ns_, now);
  if (!until_) until_ = Deadline::after_seconds(kMoreSeconds);
  ++times_;
  last_ = busy;
  for (const auto& [host, why] : busy) ++times_busy_[host];
  const bool lacks = std::ranges::any_of(found, [](const Finding& f) {
    return is_spoilt(f) && f.status == FindingStatus::not_tested;
  });
  if (times_ >= (lacks ? most_ : kMostTimes) || until_->remaining_ns() < took_ns ||
      std::ranges::none_of(found, is_spoilt) ||
      std::ranges::any_of(found, [](const Finding& f) { return f.status == FindingStatus::fail; }))
    return false;
  if (why_.empty() && !busy.empty())
    why_ = format("{}: {}", busy.begin()->first, busy.begin()->second);
  return true;
}

std::vector<Host> BusyGuard::alone(size_t hosts) const {
  std::vector<Host> list;
  // By chance once, as where another failure stands and nothing is measured again.
  if (times_ < 2 || 2 * times_busy_.size() > hosts) return list;
  for (const auto& [host, times] : times_busy_)
    if (times == times_) list.push_back(host);
  return list;
}

std::vector<Host> BusyGuard::settle(std::vector<Finding>& findings, size_t first,
                                    size_t hosts) const {
  const std::vector<Host> accused = alone(hosts);
  std::vector<Host> at_fault;
  const std::string each = times_ > 1 ? format(" in each of {} measurements", times_) : "";
  for (size_t i = first, end = findings.size(); i < end; ++i) {
    if (!is_spoilt(findings[i])) continue;
    const Finding spoilt = findings[i];
    std::vector<Host> whose;
    for (const Host& host : accused)
      if (spoilt.status != FindingStatus::warn &&
          (!spoilt.at.host.named() || spoilt.at.host == host))
        whose.push_back(host);
    if (whose.empty() && !each.empty()) findings[i].message += "," + each;
    at_fault.insert(at_fault.end(), whose.begin(), whose.end());
    for (const Host& host : whose) {
      Finding& finding = host == whose[0] ? findings[i] : findings.emplace_back(spoilt);
      finding.at = {.kind = SubjectKind::host, .host = host};
      finding.reason.clear();
      finding.fail(ErrorCode::failed,
                   format("{} was busy{}, and most of its peers were not ({}): {}", host, each,
                          last_.at(host), spoilt.message),
                   kBusyRemedy);
    }
  }
  return at_fault;
}

}  // namespace collctl::cmd
