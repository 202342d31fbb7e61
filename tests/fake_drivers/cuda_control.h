// Calls to the fake libcuda.so.1 from a test that is linked with it. A process that only finds the
// library at run time sets the same by variables (read once, at the first call):
//   FAKE_CUDA=N          GPUs; bus ids 0000:10:00.0 upwards, in the opposite order of the ordinals
//   FAKE_CUDA_MEMORY=N   bytes of each GPU (8 GiB)
//   FAKE_CUDA_PEERS=...  "none", or pairs of ordinals that do not reach each other: "0-1,2-3"
//   FAKE_CUDA_SM=86      compute capability
//   FAKE_CUDA_FDS=0      no memory with handles
//   FAKE_CUDA_FABRIC=1   memory with names for other hosts (fabric handles)
//   FAKE_CUDA_MIG=1      two devices each are MIG instances of one GPU
//   FAKE_CUDA_FAIL=...   calls that fail: "cuMemCreate:2" (the first), "cuMemCreate:2:5" (the
//   sixth)
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace fake_cuda {

struct Setup {
  int devices = 2;
  uint64_t memory_bytes = uint64_t(8) << 30;
  std::string peers = {};  // as FAKE_CUDA_PEERS
  int sm = 86;
  bool fd_handles = true;
  bool fabric = false;  // memory can have names for other hosts
  bool imex = true;     // and this process the right to make and to take them
  bool mig = false;     // two ordinals each are instances of one GPU: one bus id, two UUIDs
};
// Only while nothing of the driver is in use.
void set_up(const Setup& setup);
// The call of this function after `after` others fails once with the code; `breaks`: and so does
// all else on the calling thread's device from then on, as after break_device().
void fail(const std::string& function, int code, int after = 0, bool breaks = false);
// How often each function that can fail was called since set_up().
std::map<std::string, int> calls();
// From now on everything on the device's context fails with the code, as after an error of a
// kernel; 0: works again.
void break_device(int ordinal, int code);

// Objects that are held now: all zero when everything was given back.
struct Counts {
  int contexts = 0, allocations = 0, handles = 0, reservations = 0, mappings = 0, imports = 0;
  int pinned = 0, streams = 0, events = 0, graphs = 0;
  uint64_t bytes = 0;  // of all devices
  bool operator==(const Counts&) const = default;
  std::string text() const;
};
Counts counts();

// The GPU whose memory stands behind an address; -1: the host's.
int owner_of(const void* at);

// Queues a function on a stream of the fake, as a kernel would be: it runs in stream order on a
// thread of the stream, is recorded into a graph while the stream captures, and runs at each launch
// of that graph. Returns the driver's code.
int enqueue(void* stream, std::function<void()> work);
// Called by such work: what it takes by the GPU's clock. Between two events of a stream whose works
// say so, that is what passed; otherwise the host's clock counts.
void take_us(double us);

}  // namespace fake_cuda
