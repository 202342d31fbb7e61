// Expected failures as values: an Error is a code, a sentence, and the contexts added on the way
// up. Code that returns an error does not log it; `main` prints the chain once, with
// its hint. Threads: values, no sharing.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/host.h"

namespace collctl::base {

// The numbers are the exit codes of the command line (see docs of `collctl --help`, "EXIT CODES").
enum class ErrorCode : int {
  failed = 1,        // done, and the answer is no
  usage = 2,         // bad option, file, configuration or value
  unavailable = 3,   // not possible on this machine: device, library, permission, limit
  launch = 4,        // a rank could not be started
  lost = 5,          // a rank, peer or link failed during the run
  deadline = 6,      // no progress before a deadline; the message says who waits for whom
  bad_data = 7,      // wrong bytes
  incomplete = 8,    // passed, but something asked for was not tested
  defect = 70,       // a bug in collctl
  interrupted = 130  // ended by a signal; Error::signal says which
};

// Of several errors the worst is reported: defect, bad_data, lost, deadline, launch,
// unavailable, ...
int severity(ErrorCode code);
// The stable word for a code in JSON, e.g. "deadline".
const char* code_name(ErrorCode code);

// The kind of thing that went wrong, where something is decided by it: texts are for people only.
enum class Cause : uint8_t {
  unsaid,
  unresolved,      // a host's name
  refused,         // a connection: the host answers, and nothing listens there
  unreachable,     // there is no way to the address
  barred,          // this host's own routes or filters let nothing go there
  silent,          // nothing came in time
  closed,          // the other end closed the connection, or it broke because it did
  unknown_key,     // of a host, at the one who asks
  changed_key,     // another one than is known, or a revoked one
  login,           // refused
  no_connection,   // between `from` and `rank`: it did not come about
  unacknowledged,  // between `from` and `rank`: nothing passes any more
  late,            // `rank` was waited for until the deadline of `from`
  absent,          // the launcher itself did not run
  halted,          // the communicator has lost ranks, as the launcher says
  told_to_end,     // a group: the whole says why
  malformed,       // a record or frame
};
inline constexpr uint8_t kCauses = 17;

struct Error {
  ErrorCode code = ErrorCode::defect;
  Cause cause = Cause::unsaid;
  std::string message;  // what happened, in one sentence without a trailing full stop
  std::vector<std::string>
      contexts;                   // innermost first: "connect rank 3 -> rank 5", "bootstrap", ...
  std::string hint;               // what to do about it; may be empty
  int rank = -1;                  // the rank at fault or waited for, when known
  int from = -1;                  // the rank that found it; -1: the one that reports it
  std::string host;               // its host, when known, as people call it
  HostId host_id = HostId::none;  // which one that is, in the list of the job
  int awaited = -1;  // whom the rank that reports it waited for, where `rank` is not that one
  int signal = 0;    // with `interrupted`

  Error() = default;
  Error(ErrorCode c, std::string m, std::string h = {})
      : code(c), message(std::move(m)), hint(std::move(h)) {}
  // Adds where it happened; returns itself so that `return e.within("...")` reads well.
  Error& within(std::string context) & {
    contexts.push_back(std::move(context));
    return *this;
  }
  Error&& within(std::string context) && {
    contexts.push_back(std::move(context));
    return std::move(*this);
  }
  Error&& blame(int at_rank) && {
    rank = at_rank;
    return std::move(*this);
  }
  Error& on(const Host& which) {
    host = which.name;
    host_id = which.id;
    return *this;
  }
  Host where() const { return {host_id, host}; }
  Error&& because(Cause of) && {
    cause = of;
    return std::move(*this);
  }
  // "outer: inner: message", without the hint.
  std::string chain() const;
  // For the wording alone, so that nothing is said twice: chain() already has these words.
  bool has_said(std::string_view words) const;
};

// Error from errno: "<what>: <strerror>", with a hint where descriptors are short. `code` says what
// it means to the user.
Error errno_error(ErrorCode code, std::string_view what, int error_number);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error)                                        // NOLINT
      : state_(std::in_place_index<1>, std::make_unique<Error>(std::move(error))) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  Error& error() { return *std::get<1>(state_); }
  const Error& error() const { return *std::get<1>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }

 private:
  std::variant<T, std::unique_ptr<Error>> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}  // NOLINT
  bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};
using Status = Result<void>;

}  // namespace collctl::base

namespace collctl {
using base::Cause;
using base::Error;
using base::ErrorCode;
using base::Result;
using base::Status;
}  // namespace collctl

#define COLL_JOIN_INNER(a, b) a##b
#define COLL_JOIN(a, b) COLL_JOIN_INNER(a, b)
// COLL_TRY(expr): return the error of a Status or Result, else go on.
#define COLL_TRY(expr)                                                                  \
  do {                                                                                  \
    if (auto coll_result = (expr); !coll_result) return std::move(coll_result.error()); \
  } while (false)
// COLL_TRY_IN(expr, context): the same, adding where it happened.
#define COLL_TRY_IN(expr, context)                           \
  do {                                                       \
    if (auto coll_result = (expr); !coll_result)             \
      return std::move(coll_result.error()).within(context); \
  } while (false)
// COLL_ASSIGN(auto x, expr): unwrap a Result into a declaration or lvalue, or return its error.
#define COLL_ASSIGN(target, expr)                                \
  auto COLL_JOIN(coll_result_, __LINE__) = (expr);               \
  if (!COLL_JOIN(coll_result_, __LINE__))                        \
    return std::move(COLL_JOIN(coll_result_, __LINE__).error()); \
  target = std::move(COLL_JOIN(coll_result_, __LINE__)).value()
