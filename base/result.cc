#include "base/result.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace collctl::base {

int severity(ErrorCode code) {
  switch (code) {
    case ErrorCode::interrupted:
      return 10;
    case ErrorCode::usage:
      return 9;  // stops everything before it starts
    case ErrorCode::defect:
      return 8;
    case ErrorCode::bad_data:
      return 7;
    case ErrorCode::lost:
      return 6;
    case ErrorCode::deadline:
      return 5;
    case ErrorCode::launch:
      return 4;
    case ErrorCode::unavailable:
      return 3;
    case ErrorCode::failed:
      return 2;
    case ErrorCode::incomplete:
      return 1;
  }
  return 8;
}

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::failed:
      return "failed";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::launch:
      return "launch";
    case ErrorCode::lost:
      return "lost";
    case ErrorCode::deadline:
      return "deadline";
    case ErrorCode::bad_data:
      return "bad-data";
    case ErrorCode::incomplete:
      return "incomplete";
    case ErrorCode::defect:
      return "defect";
    case ErrorCode::interrupted:
      return "interrupted";
  }
  return "defect";
}

Error::Error() = default;
Error::Error(ErrorCode c, std::string m, std::string_view h)
    : code(c), message(std::move(m)), hint(h) {}
Error::Error(const Error&) = default;
Error::Error(Error&&) noexcept = default;
Error& Error::operator=(const Error&) = default;
Error& Error::operator=(Error&&) noexcept = default;
Error::~Error() = default;

Error& Error::within(std::string context) & {
  contexts.push_back(std::move(context));
  return *this;
}

Failure::Failure(Error&& error) : error_(new Error(std::move(error))) {}

Failure&& Failure::within(std::string context) && {
  error_->within(std::move(context));
  return std::move(*this);
}

void Failure::drop() {
  delete error_;
}

void not_in_result(const char* what) {
  throw std::logic_error(std::string("a result has no ") + what);
}

bool Error::has_said(std::string_view words) const {
  return chain().find(words) != std::string::npos;
}

std::string Error::chain() const {
  std::string text;
  for (auto it = contexts.rbegin(); it != contexts.rend(); ++it) text += *it + ": ";
  return text + message;
}

Error errno_error(ErrorCode code, std::string_view what, int error_number) {
  char buffer[256];
  // The GNU strerror_r returns the text, which may or may not be in the buffer.
  const char* text = strerror_r(error_number, buffer, sizeof buffer);
  // Wherever they show, there is one remedy.
  const char* hint = error_number == EMFILE ? "raise the open-file limit (ulimit -n)"
                     : error_number == ENFILE
                         ? "this host's table of open files is full (fs.file-max)"
                         : "";
  return {code, std::string(what) + ": " + text, hint};
}

}  // namespace collctl::base
