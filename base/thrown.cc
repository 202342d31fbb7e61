#include "base/thrown.h"

#include <new>
#include <system_error>

#include "base/format.h"

namespace collctl::base {

Error thrown_error(const std::exception& thrown) {
  const auto* const system = dynamic_cast<const std::system_error*>(&thrown);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return {ErrorCode::unavailable, format("cannot start a thread: {}", thrown.what()),
            "raise the limit on processes and threads (ulimit -u, pids.max of a container) or on "
            "memory (ulimit -v), or start fewer ranks"};
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr)
    return {ErrorCode::unavailable, "out of memory",
            "raise the memory limit (ulimit -v, or the container's), or use fewer ranks or "
            "a smaller --max-bytes"};
  return {ErrorCode::defect, thrown.what(),
          "this is a defect of collctl; please report it with the command line"};
}

}  // namespace collctl::base
