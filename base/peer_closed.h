// Which errors say only that the other end of a connection is gone, not why.
#pragma once
#include "base/result.h"

namespace collctl::base {

// What a read at the end of a connection says.
inline constexpr const char* kClosedByPeer = "connection closed by the peer";

// A connection that the other end closed, or that broke because it did.
bool only_says_closed(const Error& error);

}  // namespace collctl::base
