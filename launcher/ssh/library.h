// Which SSH library is linked into this binary, for `collctl version`. Any thread.
#pragma once
#include <string>

namespace collctl::launcher {

std::string ssh_library();  // "libssh2 1.10.0"

}  // namespace collctl::launcher
