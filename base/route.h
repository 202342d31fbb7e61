// Which interface the kernel would send by.
#pragma once
#include <string>

#include "base/socket.h"

namespace collctl::base {

// From `source` to `to`, by routes and rules as they are now. Empty: there is no way, or the kernel
// does not say. Sends nothing and does not wait.
std::string route_device(const Address& to, const Address& source);

}  // namespace collctl::base
