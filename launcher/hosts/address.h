// Addresses of this host's network interfaces, as the agent needs them. Any thread.
#pragma once
#include <string>

#include "base/result.h"

namespace collctl::launcher {

// The interface that has this address ("10.0.0.7", "fe80::1"); an address that none has is an error
// of code unavailable that lists those there are.
Result<std::string> interface_with(const std::string& address);
// Whether this text is an address that means this host: of loopback, or one that an interface has.
bool is_own_address(const std::string& text);
// The address at which others reach this host: where SSH was reached (`ssh_connection`, the
// variable of that name), else the first address that is not loopback, else empty.
std::string reached_at(const std::string& ssh_connection);

}  // namespace collctl::launcher
