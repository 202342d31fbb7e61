#include "cmd/judge/verdict.h"

#include <algorithm>
#include <map>

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

}  // namespace collctl::cmd
