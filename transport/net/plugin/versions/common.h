// The binary interface of external network plugins (libnccl-net-*.so), 64-bit: what all its
// versions share. Our own declarations. Sources: the published description, NCCL 2.30.7's
// plugins/net/README.md and src/include/plugin/net/net_v6.h to net_v12.h. A library exports one
// structure for each version it implements: ncclNetPlugin_v12 and so on, and
// ncclCollNetPlugin_v12 where it has in-network reduction. Calls return 0 or one of kNetPlugin*;
// none may wait.
//
// Each version is a file here, with its structures and a row (NetVersionN): what differs from the
// next newer one, from which adapter.h makes the calls. table.cc has them in order.
//
//   version  NCCL   what is older than in the one above
//   12       2.30   (devices of up to 8 parts; rails and planes)
//   11       2.28   devices of up to 4 parts
//   10       2.26   no context for each communicator, no finalize: one init for the process
//    9       2.24   no configuration in connect, no profile with init and messages
//    8       2.20   messages and counts are int; no sizes and no forced flush in the facts (1 GiB,
//                   sums 512 MiB); no device of several parts
//    7       2.19   regMr's size is int; no global registration; CollNet sums only
//    6       2.13   no offload to a device in connect and accept; 8 requests at once, not 32
#pragma once
#include <cstddef>
#include <cstdint>

namespace collctl::transport {

using NetPluginCode = int;  // ncclResult_t
inline constexpr NetPluginCode kNetPluginOk = 0, kNetPluginSystemError = 2,
                               kNetPluginInternalError = 3, kNetPluginInvalidArgument = 4,
                               kNetPluginRemoteError = 6;
inline constexpr size_t kNetPluginHandleBytes = 128;
// Bits of the facts' pointers, and the kinds of memory that are registered.
inline constexpr int kNetPluginHost = 1, kNetPluginCuda = 2, kNetPluginDmaBuf = 4;
// Kind of offload: what arrives in GPU memory must be put together by the plugin's own GPU code.
inline constexpr int kNetPluginUnpacks = 1;
inline constexpr int kNetPluginMostRequests = 32;  // in flight on one connection, the newest

// Log lines of a plugin: level (2 warning, 3 info, 5 trace), bits of subsystems, then printf's.
using NetPluginLog = void (*)(int level, unsigned long subsystems, const char* where, int line,
                              const char* text, ...);
using NetPluginProfile = NetPluginCode (*)(void** event, int kind, void* parent, int64_t plugin,
                                           void* more);
struct NetPluginConfig {
  int traffic_class;
};

template <int kParts>
struct NetPluginParts {
  int count;
  int devices[kParts];
};

struct NetPluginPiece {
  void* memory;
  void* at;
  size_t bytes;
};

}  // namespace collctl::transport
