// The window kernels' ranks on GPUs: what all of them map, some ranks on each device (streams); and
// the parts that window_gpu runs. A CUDA error ends the program.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/cuda/table.h"
#include "kernels/cuda/window/launch.h"
#include "kernels/cuda/window_layout.h"

namespace window_tests {

using namespace collctl::kernels;
using namespace collctl::kernels::cuda;

#define CUDA_OK(call)                                                                    \
  do {                                                                                   \
    const cudaError_t rc = cudaError_t(call);                                            \
    if (rc != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(rc)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

// Memory of every rank on its device, or on the host, side by side in one range that all devices
// may use.
struct Mapped {
  void make(int ranks, int ranks_a_device, uint64_t bytes, In in = In::gpu);
  ~Mapped();
  void clear();
  int n = 0, ranks_a_device = 1;
  uint8_t* base = nullptr;
  uint64_t stride = 0;
  In in = In::gpu;
};

struct World {
  // Ranks 0 to `ranks_a_device` - 1 share device 0, and so on. `user_bytes`: of the buffers that
  // all ranks map, for each rank. `in`: where the window is.
  World(int ranks, int ranks_a_device, uint64_t user_bytes = 80u << 20, In in = In::gpu);
  ~World();
  // As it was at first: after operations that not all ranks ended.
  void reset();
  // Where rank r's buffers lie in what all map: at other places on other ranks.
  uint8_t* user_input(int r) const { return users.base + r * users.stride + r * 1024; }
  uint8_t* user_output(int r) const {
    return users.base + r * users.stride + users.stride / 2 + (n - r) * 512;
  }
  int device(int r) const { return r / ranks_a_device; }
  WindowLaunch launch(int r, Work work, int blocks, DirectPath direct = DirectPath::none) const {
    WindowLaunch l{};
    work.rank = r;
    work.nranks = n;
    work.part_count = work.count;
    l.work = work;
    l.memory = {peers.base, peers.stride, r, n, in == In::host ? owns[size_t(r)] : nullptr};
    l.direct = direct;
    if (direct != DirectPath::none) l.flat = {users.base, users.stride};
    l.blocks = blocks;
    l.shared.reports = reports + r;
    l.shared.abort_word = abort_word;
    l.shared.timeout_ns = timeout_ns;
    l.stream = streams[r];
    return l;
  }
  // Messages of `work`'s type: every rank to the next one, out of its input into that one's output.
  PairStep shift(int r, const Work& work) const {
    return {work.input, work.output, work.count, work.count, (r + 1) % n, (r + n - 1) % n};
  }
  // `step` must live until the launch.
  WindowLaunch message(int r, const PairStep& step, Work work, int blocks) const {
    work.input = work.output = nullptr;
    work.count = 0;
    work.pair_count = 1;
    WindowLaunch l = launch(r, work, blocks);
    l.rounds = &step;
    return l;
  }
  int n;
  int ranks_a_device;
  In in;
  Mapped peers, users;
  std::vector<uint8_t*> owns;  // where the window is in host memory
  std::vector<cudaStream_t> streams;
  Report* reports = nullptr;
  uint32_t* abort_word = nullptr;
  int64_t timeout_ns = 5'000'000'000;

 private:
  void forget();
};

inline int failures = 0, cases = 0;

struct Case {
  Collective collective;
  AlgorithmId algorithm;
  Protocol protocol;
  DataType type;
  RedOp op;
  uint64_t count;
  int blocks;
  uint64_t shift;  // bytes that the buffers are off 16
  bool in_place;
  DirectPath direct = DirectPath::none;
};

// Runs it, compares every element, and that nothing beside the output was written. Nothing where
// the kernels do not serve it.
void run_case(const World& w, const Case& c);
// Every collective, algorithm, protocol, type and operation. `few`: what compute-sanitizer gets
// through in minutes.
void check_world(World& w, bool only_direct, bool few = false);
// Random operations one after the other: what was in a bank before differs every time.
void stress(World& w, uint32_t seed, int operations);
// A rank that never comes must end in a report; directly between buffers also one that comes with
// another size.
void check_missing(World& w);
void check_missing_direct(World& w);
// Checks what kernels find of a user's window by its struct in the device's memory.
void check_pointers(const World& w);

void time_world(World& w, Collective collective, bool quick);
// Times messages, by the number of blocks and the size of chunks.
void time_messages(World& w);
// Likewise data that goes by store, by the size of its chunks.
void time_chunks(World& w);
// Times kernels made for some sizes (kernels/cuda/table.h), beside those that run without them.
void time_special(World& w);
// Times one-shot and two-shot by store.
void time_store(World& w);

}  // namespace window_tests
