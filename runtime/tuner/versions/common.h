// The binary interface of tuner plugins (libnccl-tuner-*.so), 64-bit: what all its versions share.
// Our own declarations. Sources: the published description, NCCL 2.30.7's plugins/tuner/README.md
// and src/include/plugin/tuner/tuner_v3.h to tuner_v6.h. A library exports one structure for each
// version it implements: ncclTunerPlugin_v5 and so on. Calls return 0 or a code of ncclResult_t;
// none may wait.
//
// Each version is a file here, with its structure and a row (TunerVersionN): what differs from the
// next newer one, from which adapter.h makes the calls. table.cc has them in order.
//
//   version  NCCL   what is older than in the one above
//    6       2.30   (size of chunks; not asked for here, where chunks are cut otherwise)
//    5       2.28   no sizes of chunks
//    4       2.26   init: no communicator, domains and constants; the last call is named destroy
//    3       2.22   nothing of registered buffers
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/drivers/plugin.h"

namespace collctl::runtime {

using TunerCode = int;  // ncclResult_t
using TunerLog = base::drivers::PluginLog;
inline constexpr TunerCode kTunerOk = 0;

// The table of times: NCCL's algorithms in the order Tree, Ring, CollNetDirect, CollNetChain, NVLS,
// NVLSTree, PAT, each with LL, LL128, Simple. Microseconds; below 0: cannot be had.
inline constexpr int kTunerAlgorithms = 7, kTunerProtocols = 3;
inline constexpr float kTunerIgnore = -1;

// Collectives by number.
inline constexpr int kTunerBroadcast = 0, kTunerReduce = 1, kTunerAllGather = 2,
                     kTunerReduceScatter = 3, kTunerAllReduce = 4;

// NVLink domains; NCCL has a host for each.
struct TunerDomains {
  int count;
  int least_ranks, most_ranks;
};

// Constants of NCCL's model: latencies in us, by algorithm and protocol, and over NVLink, PCI,
// network; caps in GB/s, by generation of GPU and 1, 2, 4 nodes.
struct TunerConstants {
  double base_us[kTunerAlgorithms][kTunerProtocols];
  double hop_us[3][kTunerAlgorithms][kTunerProtocols];
  double caps[5][4][3];  // LL, Ring LL128, Tree LL128, Tree, NVLSTree; the first of all channels
  bool operator==(const TunerConstants&) const = default;
};
static_assert(sizeof(TunerConstants) == (21 + 63 + 60) * 8);

}  // namespace collctl::runtime
