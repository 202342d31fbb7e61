// Version 6 of the tuner interface (common.h).
#pragma once
#include "runtime/tuner/versions/common.h"

namespace collctl::runtime {

struct Tuner6 {
  const char* name;
  TunerCode (*init)(void** context, uint64_t communicator, size_t ranks, size_t nodes, TunerLog,
                    TunerDomains*, TunerConstants*);
  TunerCode (*cost)(void* context, int collective, size_t bytes, int operations, float** table,
                    int algorithms, int protocols, int registered, int* channels);
  TunerCode (*finalize)(void* context);
  TunerCode (*chunk)(void* context, int collective, size_t bytes, int algorithm, int protocol,
                     int channels, size_t* chunk_bytes);  // may be null
};
static_assert(sizeof(Tuner6) == 5 * 8);

struct TunerVersion6 {
  static constexpr int kNumber = 6;
  using Structure = Tuner6;
  static constexpr bool kRegistered = true;  // in getCollInfo: whether buffers are
  static constexpr bool kDomains = true;     // in init, with the communicator and the constants
};

}  // namespace collctl::runtime
