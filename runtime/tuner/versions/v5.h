// Version 5 of the tuner interface (common.h): no sizes of chunks.
#pragma once
#include "runtime/tuner/versions/v6.h"

namespace collctl::runtime {

struct Tuner5 {
  const char* name;
  TunerCode (*init)(void** context, uint64_t communicator, size_t ranks, size_t nodes, TunerLog,
                    TunerDomains*, TunerConstants*);
  TunerCode (*cost)(void* context, int collective, size_t bytes, int operations, float** table,
                    int algorithms, int protocols, int registered, int* channels);
  TunerCode (*finalize)(void* context);
};
static_assert(sizeof(Tuner5) == 4 * 8);

struct TunerVersion5 : TunerVersion6 {
  static constexpr int kNumber = 5;
  using Structure = Tuner5;
};

}  // namespace collctl::runtime
