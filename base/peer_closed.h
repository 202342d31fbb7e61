// Which errors say only that the other end of a connection is gone, not why; and which that it was
// never reached.
#pragma once
#include "base/clock.h"
#include "base/result.h"

namespace collctl::base {

// What a read at the end of a connection says.
inline constexpr const char* kClosedByPeer = "connection closed by the peer";

// A connection that the other end closed, or that broke because it did.
bool only_says_closed(const Error& error);

// A connection that did not come about. Nobody answered: packets were dropped, or there is no
// route. A refused one is none of these: there the other process has ended.
bool never_answered(const Error& connecting);
// "rank 7 cannot connect to rank 8: 10.0.0.8:4242: no connection before the deadline". Unlike a
// wait it names both ends of what is broken, so it explains the waits of all others.
Error cannot_connect(const std::string& from, const std::string& to, const std::string& host,
                     const Error& cause);
bool says_cannot_connect(const Error& error);
// The end of an attempt to connect in work that ends at `whole`: a little sooner, so that what does
// not answer is known to the others before their waits end.
Deadline connect_deadline(Deadline whole);

}  // namespace collctl::base
