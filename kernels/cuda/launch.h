// The host's interface to the GPU's kernels: plain C++ that every build can include. Called by the
// CUDA executor (runtime/executor/cuda) through a table (launcher/launcher.h), so that tests can
// run the executor with works on host threads.
//
// All launches are asynchronous, in the order of the given stream, and can be captured into a CUDA
// graph. Blocks of ranks that wait for each other must be resident at once: a launch has at most as
// many blocks as the device has multiprocessors. Return values are cudaError_t numbers, 0 = ok;
// error_text() words them. The device's context must be the calling thread's.
#pragma once
#include <cstdint>

#include "kernels/contract/fifo.h"
#include "kernels/contract/report.h"
#include "kernels/contract/waits.h"
#include "kernels/contract/window.h"
#include "kernels/contract/work.h"

namespace collctl::kernels::cuda {

// State that a launch shares with all else of its communicator: device addresses, all of them.
struct DeviceShared {
  Report* reports = nullptr;            // pinned host memory, one a channel; code none
  uint32_t* abort_word = nullptr;       // pinned host memory: nonzero = abort
  int64_t timeout_ns = 0;               // of a wait without progress
  const ChannelLinks* links = nullptr;  // device memory, by channel, with all that it points to
  WaitNote* notes = nullptr;            // pinned host memory, one a channel; null: none are written
  // Device memory, zeroed, one a rank: counted up where it is not null, at two looks at the clock a
  // wait. Times are means over those of a launch that wait side by side, so that launches of all
  // sizes add up; in kWaitParts of a nanosecond.
  PeerWait* waits = nullptr;
};
inline constexpr uint32_t kWaitParts = 65536;

// Works through the verbs, block c runs the works of channel c in their order. `works` is host
// memory that is read before the call returns (what they point to - ring orders, pair steps - is
// device memory). All of one launch have the protocol `protocol`; types, operations, collectives
// and algorithms may differ.
struct WorksLaunch {
  const Work* works = nullptr;
  int work_count = 0;
  Protocol protocol = Protocol::simple;
  int threads = 512;  // of a block; a multiple of 32, 96 to 608 (LL128, LL: 640)
  // Copies in host memory of what kernels would look up, where there are any: the rounds of all
  // works one behind the other, and shared.links (whose fifos lie on the device). They spare
  // messages two trips to memory.
  const PairStep* host_pairs = nullptr;
  const ChannelLinks* host_links = nullptr;
  // Likewise, for small operations (kernels/cuda/moves): by work, the ring's order in host memory,
  // null where it has none; and what every fifo of `protocol` has at least, 0 where that is not
  // known.
  const int32_t* const* host_orders = nullptr;
  uint32_t slot_bytes = 0;
  DeviceShared shared;
  void* stream = nullptr;  // CUstream
};

// Whether there is a work, all of its protocol, and none has the channel of another.
inline bool one_work_a_channel(const WorksLaunch& launch) {
  static_assert(kMaxChannels <= 64);
  uint64_t channels = 0;  // bit by channel
  for (int w = 0; w < launch.work_count; ++w) {
    const Work& work = launch.works[w];
    if (work.channel >= kMaxChannels || work.protocol != launch.protocol) return false;
    const uint64_t bit = uint64_t(1) << work.channel;
    if ((channels & bit) != 0) return false;
    channels |= bit;
  }
  return channels != 0;
}

// Memory that all ranks of a host map on their devices, rank r's part at base + r x stride, as the
// window kernels use it: counters, flags, lines and staging. Zeroed when it is made, from then on
// theirs alone; its contents show how far the ranks have got, so all ranks must run the same calls
// in the same order.
struct PeerMemory {
  uint8_t* base = nullptr;
  uint64_t stride = 0;
  int rank = 0, nranks = 1;
  // Where the parts lie in host memory (window_host_bytes): memory of this rank's GPU, for what
  // nobody else looks at (window_own_bytes). Null: they lie on GPUs, and that in this rank's part.
  uint8_t* own = nullptr;
};

// Directly between users' buffers, which all ranks map: none is the path through peer memory. A
// reduction's contributions are stored into slots of who adds them up (all-reduce only), or loaded
// by it; a broadcast is stored by its root, or loaded by the others, a part by each for all of
// them. `best` is the one that was measured faster; other collectives have only one.
enum class DirectPath : uint8_t { none, best, store, load };

// One whole operation through peers' memory, by a kernel made for it (algorithm one_shot or
// two_shot); or rounds of messages (send_recv, pairwise, ll128 or simple), of which only the ranks
// at their ends know.
struct WindowLaunch {
  Work work;  // the whole operation: part_offset 0, part_count = count; channel 0
  PeerMemory memory;
  // For messages: work.pair_count rounds, in elements of work.type; the work has no buffers. Host
  // memory, read before the call returns. No peer is the rank itself. The k-th message of a rank to
  // another by a protocol is the k-th that it receives from there by it, and takes as many bytes.
  const PairStep* rounds = nullptr;
  // Then input and output of every rank are addresses in its slot of `flat`, null where the
  // operation has no such buffer there; the places may differ from rank to rank. Peers' outputs are
  // written to between the begin and the end of the launch on their own streams only.
  DirectPath direct = DirectPath::none;
  FlatRange flat;
  // For measurements: the kernel that serves any size, instead of those made for some (table.h).
  bool general = false;
  int blocks = 0;            // 0: as measured best for the size
  uint32_t chunk_bytes = 0;  // protocol simple: of a chunk in a slot; 0 likewise
  DeviceShared shared;
  void* stream = nullptr;  // CUstream
};

// window_stand.h has them: nvcc reads this header often, and standard ones take it long.
struct WindowStand;
struct ReadMemory;
struct BurnKernels;  // burn.h

// Whether the receivers of a broadcast by window kernels forward what they get, a slice each, so
// that every byte leaves the root once: from 3 ranks on, by LL128 where it is worth the second hop.
constexpr bool broadcast_is_dealt(Protocol protocol, int nranks, uint64_t bytes) {
  return nranks > 2 && (protocol == Protocol::simple ||
                        (protocol == Protocol::ll128 && bytes > uint64_t(256) << 10));
}

inline constexpr uint32_t kTornStoreAborted = ~uint32_t(0);

struct Launcher {
  bool built = false;
  const char* architectures = "";  // "80,90+PTX": as compiled, PTX of the last
  const char* why_not = "";        // when not built
  // The most works one launch takes (they travel as kernel arguments).
  int most_works = 0;
  // Loads all kernels onto the current device. Before the first launch: CUDA would do it then, and
  // may wait for what runs there, which may be waiting for that launch. `counts_waits`: also those
  // that run where DeviceShared::waits is not null.
  int (*prepare)(bool counts_waits) = nullptr;
  int (*launch_works)(const WorksLaunch&) = nullptr;
  // Bytes of a rank's part that the window kernels need.
  uint64_t (*window_part_bytes)(int nranks) = nullptr;
  // Likewise of a part in host memory, where GPUs do not reach each other's: for operations by LL
  // and Simple; and those of its GPU's own beside it (PeerMemory::own). 0: there are no kernels.
  uint64_t (*window_host_bytes)(int nranks) = nullptr;
  uint64_t (*window_own_bytes)(int nranks) = nullptr;
  // Whether there is a window kernel for it, for this many bytes of `count` elements (send_recv,
  // pairwise: of a message). Pure; the same on all ranks.
  bool (*window_serves)(Collective, AlgorithmId, Protocol, DataType, RedOp, int nranks,
                        uint64_t bytes) = nullptr;
  // Likewise, whether there is a direct one between users' buffers. Null: for nothing.
  bool (*window_direct)(Collective, DataType, RedOp, int nranks, uint64_t bytes) = nullptr;
  int (*launch_window)(const WindowLaunch&) = nullptr;
  // False: not known, as memory could not be read or as the rank got on meanwhile. Null: never.
  bool (*window_stand)(const PeerMemory&, const ReadMemory&, WindowStand&) = nullptr;
  // Whether these kernels can run on a device of this compute capability (90), and whether it has
  // arithmetic for the type there (float8 from 89 on). Pure.
  bool (*runs_on)(int compute_capability) = nullptr;
  bool (*has_type)(DataType type, int compute_capability) = nullptr;
  const char* (*error_text)(int error) = nullptr;
  // Torn-store test of LL128 over a path: launches on both ends, see torn_store.h.
  // Writer: 128-byte lines into `lines` (peer's memory); reader: watches own memory `lines` and
  // counts lines whose flag was new and whose data was old into *torn (pinned, 0 before); it stores
  // kTornStoreAborted there when the writer's last round did not arrive. The lines are zeros
  // before.
  int (*torn_store_write)(void* lines, uint32_t line_count, uint32_t rounds,
                          void* stream) = nullptr;
  int (*torn_store_read)(void* lines, uint32_t line_count, uint32_t rounds, uint32_t* torn,
                         const uint32_t* abort_word, int64_t timeout_ns, void* stream) = nullptr;
  // Measurements between GPUs, on the current device: a copy by its multiprocessors, of whole packs
  // of 16 bytes that do not overlap, both ends aligned to 16.
  int (*peer_copy)(void* to, const void* from, uint64_t bytes, void* stream) = nullptr;
  // One thread loads 8 bytes, the address of the next ones, so often; the last goes to *end.
  int (*peer_chase)(const void* first, uint32_t steps, uint64_t* end, void* stream) = nullptr;
  const BurnKernels* burn = nullptr;  // null: there are none
};

}  // namespace collctl::kernels::cuda
