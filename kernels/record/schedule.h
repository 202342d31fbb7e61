// Schedule: all events of one rank's work on one channel, part by part. Made by record(), proved by
// interpret(). Values; any thread.
#pragma once
#include <vector>

#include "base/result.h"
#include "kernels/record/event.h"

namespace collctl::kernels {

struct Schedule {
  Work work;  // with what it points to owned by the caller
  std::vector<std::vector<Event>> parts;
};

// Runs the work's algorithm on the recorder, with made-up scratch where it has none. Error (usage)
// when no algorithm serves it.
Result<Schedule> record(const Work& work);

}  // namespace collctl::kernels
