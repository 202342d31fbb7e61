// Connections that a peer has begun and that never come about: what it sends arrives here, what is
// answered does not arrive there. Threads: any.
#pragma once
#include <string_view>

#include "base/socket.h"

namespace collctl::base {

// Whether one from the host of `remote`, from any port, waits at the listener `local`. False where
// the kernel does not say.
bool is_half_open(const Address& local, const Address& remote);
// The same by the text of /proc/net/tcp, or tcp6 for addresses of that family. Pure.
bool has_half_open(std::string_view table, const Address& local, const Address& remote);

}  // namespace collctl::base
