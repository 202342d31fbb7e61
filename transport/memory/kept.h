// Memory that something which nobody can stop may still read or write: a network's library that has
// not given its requests back. It stays until the process ends. Threads: any.
#pragma once
#include <memory>

namespace collctl::transport {

void keep_for_ever(std::shared_ptr<void> memory);

}  // namespace collctl::transport
