// A structure of a tuner plugin, whatever its version, as far as it is used here. Owned by who
// asked for it (table.h); threads: one at a time for each context.
#pragma once
#include <string>

#include "runtime/tuner/versions/common.h"

namespace collctl::runtime {

struct TunerStart {
  uint64_t communicator = 0;
  size_t ranks = 1, nodes = 1;
  TunerDomains domains{};
  TunerConstants constants{};
};

class TunerCalls {
 public:
  virtual ~TunerCalls() = default;
  virtual int version() const = 0;
  virtual std::string name() const = 0;  // cut
  // The interface's name of the first function that is called and is not there; null: none.
  virtual const char* first_missing() const = 0;

  // `start` may be written to. The context may stay null.
  virtual TunerCode init(void** context, TunerStart& start, TunerLog log) const = 0;
  // `table` has kTunerAlgorithms x kTunerProtocols; `channels` 0: as planned.
  virtual TunerCode cost(void* context, int collective, size_t bytes, float* table, bool registered,
                         int* channels) const = 0;
  virtual TunerCode finalize(void* context) const = 0;
};

}  // namespace collctl::runtime
