#include "transport/memory/kept.h"

#include <list>
#include <mutex>

namespace collctl::transport {

void keep_for_ever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::list<std::shared_ptr<void>>();
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace collctl::transport
