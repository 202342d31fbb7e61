// Version 4 of the tuner interface (common.h): init has the numbers of ranks and nodes only.
#pragma once
#include "runtime/tuner/versions/v5.h"

namespace collctl::runtime {

struct Tuner4 {
  const char* name;
  TunerCode (*init)(size_t ranks, size_t nodes, TunerLog, void** context);
  TunerCode (*cost)(void* context, int collective, size_t bytes, int operations, float** table,
                    int algorithms, int protocols, int registered, int* channels);
  TunerCode (*finalize)(void* context);  // destroy
};
static_assert(sizeof(Tuner4) == 4 * 8);

struct TunerVersion4 : TunerVersion5 {
  static constexpr int kNumber = 4;
  using Structure = Tuner4;
  static constexpr bool kDomains = false;
};

}  // namespace collctl::runtime
