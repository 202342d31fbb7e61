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

// The worst of several errors is reported: defect, bad_data, lost, deadline, launch,
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
  unlike,          // hosts of two kinds, which cannot do this together: nobody's fault
};
inline constexpr uint8_t kCauses = 18;

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

  // Out of line, like all that is done with errors: two thousand places pass one on.
  Error();
  Error(ErrorCode c, std::string m, std::string_view h = {});
  Error(const Error&);
  Error(Error&&) noexcept;
  Error& operator=(const Error&);
  Error& operator=(Error&&) noexcept;
  ~Error();
  // Adds where it happened; returns itself so that `return e.within("...")` reads well.
  Error& within(std::string context) &;
  Error&& within(std::string context) && { return std::move(within(std::move(context))); }
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

// An error on its way up: a pointer, so that a Result is small.
class Failure {
 public:
  Failure() = default;  // none
  explicit Failure(Error&& error);
  Failure(Failure&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Failure& operator=(Failure&& other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Failure() {
    if (error_ != nullptr) drop();
  }
  explicit operator bool() const { return error_ != nullptr; }
  Error& operator*() const { return *error_; }
  Failure&& within(std::string context) &&;
  operator Error() && { return std::move(*error_); }  // NOLINT: passed on by who returns an Error

 private:
  void drop();
  Error* error_ = nullptr;
};

// Throws std::logic_error: a value was taken of an error, or an error of a value.
[[noreturn]] void not_in_result(const char* what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}   // NOLINT: implicit on purpose
  Result(Error error) : Result(Failure(std::move(error))) {}  // NOLINT
  Result(Failure failure)                                     // NOLINT
      : state_(std::in_place_index<1>, std::move(failure)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return *inside(); }
  const T& value() const& { return *inside(); }
  T&& value() && { return std::move(*inside()); }
  Error& error() { return *failed(); }
  const Error& error() const { return *failed(); }
  Failure&& failure() && { return std::move(failed()); }
  T* operator->() { return inside(); }
  const T* operator->() const { return inside(); }
  T& operator*() & { return *inside(); }
  const T& operator*() const& { return *inside(); }

 private:
  T* inside() {
    if (!ok()) not_in_result("value");
    return std::get_if<0>(&state_);
  }
  const T* inside() const { return const_cast<Result*>(this)->inside(); }
  Failure& failed() {
    if (ok()) not_in_result("error");
    return *std::get_if<1>(&state_);
  }
  const Failure& failed() const { return const_cast<Result*>(this)->failed(); }

  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failure_(std::move(error)) {}        // NOLINT
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT
  bool ok() const { return !failure_; }
  explicit operator bool() const { return !failure_; }
  Error& error() { return *failure_; }
  const Error& error() const { return *failure_; }
  Failure&& failure() && { return std::move(failure_); }

 private:
  Failure failure_;
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
#define COLL_TRY(expr)                                                                    \
  do {                                                                                    \
    if (auto coll_result = (expr); !coll_result) return std::move(coll_result).failure(); \
  } while (false)
// COLL_TRY_IN(expr, context): the same, adding where it happened.
#define COLL_TRY_IN(expr, context)                             \
  do {                                                         \
    if (auto coll_result = (expr); !coll_result)               \
      return std::move(coll_result).failure().within(context); \
  } while (false)
// COLL_ASSIGN(auto x, expr): unwrap a Result into a declaration or lvalue, or return its error.
#define COLL_ASSIGN(target, expr)                                  \
  auto COLL_JOIN(coll_result_, __LINE__) = (expr);                 \
  if (!COLL_JOIN(coll_result_, __LINE__))                          \
    return std::move(COLL_JOIN(coll_result_, __LINE__)).failure(); \
  target = std::move(COLL_JOIN(coll_result_, __LINE__)).value()
