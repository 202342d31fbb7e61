// Memory that something which cannot be stopped may still access: a network's library that has
// not returned its requests. It is kept until the process ends. Threads: any.
#pragma once
#include <memory>

namespace collctl::transport {

void keep_for_ever(std::shared_ptr<void> memory);

}  // namespace collctl::transport
