#include "cmd/judge/verdict.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/format.h"

namespace collctl::cmd {

namespace {

ErrorCode worse(ErrorCode a, ErrorCode b) {
  if (a == ErrorCode{}) return b;
  return b != ErrorCode{} && base::severity(b) > base::severity(a) ? b : a;
}

const char* word_of(ErrorCode code) {
  return code == ErrorCode::bad_data     ? kWrongData.word
         : code == ErrorCode::incomplete ? kNotTested.word
                                         : base::code_name(code);
}

// A failure counts, whatever else is said of it.
ErrorCode code_of(const Finding& finding) {
  const bool bare = finding.code == ErrorCode{} && finding.status == FindingStatus::fail;
  return bare ? ErrorCode::failed : finding.code;
}

}  // namespace

ErrorCode code_of_reason(std::string_view word) {
  for (const ReasonRow& row : kReasons)
    if (row.word == word) return row.code;
  for (const ErrorCode code : {ErrorCode::usage, ErrorCode::unavailable, ErrorCode::launch,
                               ErrorCode::lost, ErrorCode::deadline, ErrorCode::bad_data,
                               ErrorCode::incomplete, ErrorCode::defect, ErrorCode::interrupted})
    if (base::code_name(code) == word) return code;
  return ErrorCode::failed;
}

Verdict::Verdict(std::span<const Finding> findings, std::optional<Error> error,
                 const std::vector<std::string>& summary)
    : error_(std::move(error)) {
  for (const Finding& finding : findings) code_ = worse(code_, code_of(finding));
  for (const std::string& text : summary)
    reasons_.push_back({base::code_name(code_), text, "", -1});
  std::map<std::string, size_t> listed;
  for (const Finding& finding : findings) {
    const ErrorCode code = code_of(finding);
    if (!summary.empty() || code == ErrorCode{}) continue;
    if (error_ && code == ErrorCode::incomplete) continue;
    const std::string word = finding.reason.empty() ? word_of(code) : finding.reason;
    if (listed[word]++ < kMostReasons)
      reasons_.push_back({word, finding.message, finding.at.host.name, finding.at.rank});
  }
  if (error_) worsen(*error_);
}

void Verdict::worsen(const Error& error) {
  code_ = worse(code_, error.code);
  if (error.code == ErrorCode::interrupted) signal_ = error.signal;
}

int Verdict::exit_code() const {
  return code_ == ErrorCode::interrupted ? 128 + signal_ : int(code_);
}

std::vector<Culprit> blame_ends(std::span<const EndTrial> trials, std::span<const Host> ends,
                                const TrialWords& words) {
  std::vector<Culprit> culprits;
  std::vector<int> tried(ends.size()), failed(ends.size());
  for (const EndTrial& each : trials)
    for (const size_t end : {each.from, each.to}) {
      ++tried[end];
      failed[end] += each.failed ? 1 : 0;
    }
  // The worst first; what it explains is taken from its peers.
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return failed[a] * std::max(tried[b], 1) > failed[b] * std::max(tried[a], 1);
  });
  std::vector<int> left = failed;
  // Nobody can say which end it is where failures are with one peer alone: that is the link.
  const auto fails_with_several = [&](size_t end) {
    std::set<size_t> peers;
    for (const EndTrial& each : trials)
      if (each.failed && (each.from == end || each.to == end))
        peers.insert(each.from == end ? each.to : each.from);
    return peers.size() > 1;
  };
  std::vector<bool> guilty(ends.size());
  for (const size_t end : order) {
    if (left[end] * 2 < tried[end] || !fails_with_several(end)) continue;
    guilty[end] = true;
    culprits.push_back({SubjectKind::host, ends[end].name, double(failed[end]) / tried[end],
                        format("{} of {} {} with it failed", failed[end], tried[end], words.many),
                        false, ends[end]});
    for (const EndTrial& each : trials)
      if (each.failed && (each.from == end || each.to == end))
        --left[each.from == end ? each.to : each.from];
  }
  for (const EndTrial& each : trials)
    if (each.failed && !guilty[each.from] && !guilty[each.to])
      culprits.push_back({SubjectKind::link,
                          format("{} -> {}", ends[each.from], ends[each.to]),
                          1,
                          format("the {} between them failed", words.one),
                          false,
                          {}});
  return culprits;
}

}  // namespace collctl::cmd
