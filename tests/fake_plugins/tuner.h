// Tuner plugins for tests, as shared objects in the build folder tests/fake_plugins:
// libnccl-tuner-fake3.so to -fake6.so (one version of the interface each), -old.so (version 2
// only), -holed.so (no getCollInfo), and libnccl-net-tuned12.so, a network's that has a tuner as
// well. They refuse calls whose arguments are not as the interface says.
//
// Variables, read at each call:
//   FAKE_TUNER_FAIL=getCollInfo  this call fails (names as in the interface)
//   FAKE_TUNER_PICK=A:P          this entry of the table gets the time 0 (numbers of NCCL)
//   FAKE_TUNER_ONLY=A:P          all other entries become -1
//   FAKE_TUNER_TIME=A:P:US       this entry gets this time
//   FAKE_TUNER_CHANNELS=N        so many channels
//   FAKE_TUNER_NONSENSE=WORD     nan (a time), nothing (all entries -1), constants (init changes
//                                NCCL's)
//   FAKE_TUNER_DIFFERS=A:P       every second communicator picks this one
//
// A test gets at what is held and was called by dlsym: fake_tuner_counts().
#pragma once

namespace fake_tuner {

struct Counts {
  int sessions;    // begun and not ended
  int calls;       // of getCollInfo, ever
  int registered;  // of these with registered buffers
};
using CountsFunction = Counts (*)();
inline constexpr const char* kCountsName = "fake_tuner_counts";

}  // namespace fake_tuner
