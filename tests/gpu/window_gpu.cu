// The window kernels on GPUs. `check`: n ranks on one device (streams), then one rank on each of
// all devices (threads): every collective, algorithm, protocol, types and operations, odd sizes,
// unaligned, in place, equality with sums made on the host; through peer memory and straight
// between buffers that all map; a rank that never comes must end in a report; a user's window as
// kernels see it. `time`: microseconds by size and number of blocks, streams and graphs, one rank a
// device. Exit 77: no GPU here.
#include <string>

#include "tests/gpu/window_world.h"

using namespace window_tests;

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU here\n");
    return 77;
  }
  const std::string what = argc > 1 ? argv[1] : "check";
  if (what == "check") {
    // `check direct`: only what goes straight between buffers. `check few`: a small part, for
    // compute-sanitizer. `check N...`: only so many ranks on one device.
    std::vector<int> sizes{1, 2, 3, 4, 7, 8};
    const bool only_direct = argc > 2 && std::string(argv[2]) == "direct";
    const bool few = argc > 2 && std::string(argv[2]) == "few";
    const int named = only_direct || few ? 3 : 2;
    if (argc > named) sizes.clear();
    for (int i = named; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
    for (const int n : sizes) {
      World w(n, true);
      check_world(w, only_direct, few);
      std::printf("one device, %d ranks: %d cases, %d wrong\n", n, cases, failures);
      std::fflush(stdout);
    }
    if (devices > 1) {
      World w(devices, false);
      check_world(w, only_direct, few);
      std::printf("%d devices: %d cases, %d wrong\n", devices, cases, failures);
    }
    check_pointers(World(3, true));
    if (devices > 1) check_pointers(World(devices, false));
    check_missing(2);
    check_missing(3);
    check_missing_direct(2);
    check_missing_direct(3);
    std::printf("%d cases, %d wrong\n", cases, failures);
    return failures == 0 ? 0 : 1;
  }
  if (what == "stress") {
    World w(devices, devices == 1);
    stress(w, argc > 2 ? uint32_t(std::atoi(argv[2])) : 1, argc > 3 ? std::atoi(argv[3]) : 2000);
    std::printf("%d cases, %d wrong\n", cases, failures);
    return failures == 0 ? 0 : 1;
  }
  if (devices < 2) {
    std::printf("skipped: one GPU here\n");
    return 77;
  }
  World w(devices, false, (2ull << 30) + (64u << 20));
  const bool quick = argc > 2 && std::string(argv[2]) == "quick";
  if (argc > 2 && std::string(argv[2]) == "chunks") {
    time_chunks(w);
    return 0;
  }
  time_world(w, Collective::all_reduce, quick);
  time_world(w, Collective::all_gather, true);
  time_world(w, Collective::reduce_scatter, true);
  time_world(w, Collective::all_to_all, true);
  time_world(w, Collective::broadcast, true);
  return 0;
}
