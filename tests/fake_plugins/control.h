// Network plugins for tests, as shared objects in the build folder tests/fake_plugins:
// libnccl-net-fake6.so to -fake12.so (a network over sockets by one version of the interface each)
// and -reduces6.so to -reduces12.so (besides, a network that reduces in a process beside the ranks,
// reducer.h). They are as strict as a NIC would be: ranges and kinds of
// registered memory, 32 requests (version 6: 8), connections that need both ends at the same time,
// no data without a receive that waits for it, GPU memory that stays old until it is flushed.
//
// Variables, read at each call:
//   FAKE_PLUGIN_FAIL=isend      this call fails (names as in the interface; of the network that
//                               reduces those of both with coll: collListen); isend:3 the 4th
//   FAKE_PLUGIN_NONSENSE=WORD   devices, no-devices, no-host, no-bytes, null-listener, size,
//                               no-size (of what came is told), silent (nothing is ever accepted,
//                               no group is ever whole), stuck-receive (what has come is never
//                               told), unpacks (GPU memory needs code of the plugin), waits
//                               (accept, until the peer connects); of the network that reduces:
//                               null-group-listener, no-group-devices, no-group-bytes, small-groups
//                               (4096 bytes at once), stuck-group
//   FAKE_PLUGIN_POINTERS=N      bits of getProperties (1 host, 2 CUDA, 4 DMA-BUF); default 1
//   FAKE_PLUGIN_REDUCES=LIST    operations that are reduced, sum,prod,max,min by default
//   FAKE_PLUGIN_TYPES=LIST      types that are, by their numbers in nccl.h; all by default
//
// A test gets at what is held by dlsym: fake_plugin_counts(). A line that is closed while it has
// requests gives everything back, but goes on as a NIC might: fake_plugin_late() writes to all that
// was to be received and was not, and says how many such receives there were.
#pragma once

namespace fake_plugin {

struct Counts {
  int sessions, listeners, connections, memories, requests;
  int flushes;  // ever
  int calls;    // of send and receive, ever
};
using CountsFunction = Counts (*)();
#define FAKE_PLUGIN_EXPORT __attribute__((visibility("default")))
inline constexpr const char* kCountsName = "fake_plugin_counts";
using LateFunction = int (*)();
inline constexpr const char* kLateName = "fake_plugin_late";

}  // namespace fake_plugin
