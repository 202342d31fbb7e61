// Version 3 of the tuner interface (common.h): nothing of registered buffers.
#pragma once
#include "runtime/tuner/versions/v4.h"

namespace collctl::runtime {

struct Tuner3 {
  const char* name;
  TunerCode (*init)(size_t ranks, size_t nodes, TunerLog, void** context);
  TunerCode (*cost)(void* context, int collective, size_t bytes, int operations, float** table,
                    int algorithms, int protocols, int* channels);
  TunerCode (*finalize)(void* context);  // destroy
};
static_assert(sizeof(Tuner3) == 4 * 8);

struct TunerVersion3 : TunerVersion4 {
  static constexpr int kNumber = 3;
  using Structure = Tuner3;
  static constexpr bool kRegistered = false;
};

}  // namespace collctl::runtime
