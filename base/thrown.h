// Exceptions of the standard library, as an Error. Nothing here throws on purpose; a thread that
// cannot be started (std::system_error) and memory that is not there (std::bad_alloc) are limits of
// the machine, anything else is a defect. Caught where a rank or the program begins. Threads: any.
#pragma once
#include <exception>

#include "base/result.h"

namespace collctl::base {

Error thrown_error(const std::exception& thrown);

// Calls `work`, which returns a Status; what it throws is returned as an error.
template <class Work>
Status caught(Work&& work) {
  try {
    return work();
  } catch (const std::exception& thrown) {
    return thrown_error(thrown);
  }
}

}  // namespace collctl::base
