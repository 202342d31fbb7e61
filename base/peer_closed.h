// Which errors say only that the other end of a connection is gone, not why; and which that it was
// never, or is no longer, reached.
#pragma once
#include "base/clock.h"
#include "base/result.h"

struct tcp_info;

namespace collctl::base {

struct Address;

// A read at the end of a connection.
Error closed_by_peer();
// A send or receive that broke; `closed`: the other end is gone.
Error connection_error(const char* what, int error_number);
// An attempt that failed: `refused`, `silent`, `unreachable` or `barred`.
Error connect_error(const Address& to, int error_number);
inline bool only_says_closed(const Error& error) {
  return error.cause == Cause::closed && error.code == ErrorCode::lost;
}

// A connection that did not come about. Nobody answered: packets were dropped, or there is no
// route. A refused one is none of these: there the other process has ended.
inline bool never_answered(const Error& connecting) {
  return connecting.cause == Cause::silent || connecting.cause == Cause::unreachable ||
         connecting.cause == Cause::barred;
}
// "10.0.0.8:4242: no connection before the deadline", of nobody who answered.
Error no_connection(const std::string& address);
// "rank 7 cannot connect to rank 8: 10.0.0.8:4242: no connection before the deadline". Unlike a
// wait it names both ends of what is broken, so it explains the waits of all others.
Error cannot_connect(const std::string& from, const std::string& to, const std::string& host,
                     const Error& cause);
inline bool says_cannot_connect(const Error& error) {
  return error.cause == Cause::no_connection;
}
// For how long the other end of a TCP connection has acknowledged nothing of what was sent to it
// again and again, in seconds; 0: nothing is overdue. A process that is stopped is no reason: its
// kernel acknowledges. Where the other end has closed and something is still on its way to it, this
// waits for up to 0.7 s to see what becomes of that, and tells of this time.
double unacknowledged_s(int fd);
double unacknowledged_s(const tcp_info& info);
// "rank 3 cannot reach rank 4: it has acknowledged nothing for 4.2 s": a connection over which
// nothing passes any more. Names both ends, too.
Error cannot_reach(const std::string& from, const std::string& to, double seconds);
inline bool says_cannot_reach(const Error& error) {
  return error.cause == Cause::unacknowledged;
}
inline bool says_broken_way(const Error& error) {
  return says_cannot_connect(error) || says_cannot_reach(error);
}
// The end of an attempt to connect in work that ends at `whole`: a little sooner, so that what does
// not answer is known to the others before their waits end.
Deadline connect_deadline(Deadline whole);

}  // namespace collctl::base
