// The window kernels on GPUs. `check [direct] [N...]`: n ranks on one device (streams), then one
// and two on each of all devices (threads): every collective, algorithm, protocol, types and
// operations, odd sizes, unaligned, in place, equality with sums made on the host; through peer
// memory, of GPUs or of the host, and directly between buffers that all map; then `missing [N...]`:
// a rank that never comes must end in a report; and `pointers`: a user's window as kernels see it.
// `few N`: a small part, n ranks on one device, for compute-sanitizer. `stress [SEED
// [OPERATIONS]]`. `time`: microseconds by size and number of blocks, streams and graphs, one rank a
// device; `time special N...`: kernels made for some sizes against those that would serve these,
// too, n ranks on as many devices, or all on one; `time store N...`: likewise one-shot and two-shot
// by store. Exit 77: no GPU here.
#include <string>

#include "tests/gpu/window_world.h"

using namespace window_tests;

namespace {

constexpr uint64_t kUserBytes = 80u << 20;

void check_single(int ranks, bool only_direct, bool few) {
  for (const In in : {In::gpu, In::host}) {
    if (only_direct && in == In::host) continue;
    World w(ranks, ranks, kUserBytes, in);
    check_world(w, only_direct, few);
    std::printf("one device, %d ranks%s: %d cases, %d wrong\n", ranks,
                in == In::host ? ", window on the host" : "", cases, failures);
    std::fflush(stdout);
  }
}

void check_several(int devices, bool only_direct) {
  for (const int share : {1, 2, 0}) {
    if (share == 0 && only_direct) continue;
    World w(share == 0 ? devices : devices * share, share == 0 ? 1 : share, kUserBytes,
            share == 0 ? In::host : In::gpu);
    check_world(w, only_direct);
    std::printf("%d devices, %d on each: %d cases, %d wrong\n", devices, w.ranks_a_device, cases,
                failures);
    std::fflush(stdout);
  }
}

void check_all_missing(std::vector<int> sizes) {
  if (sizes.empty()) sizes = {2, 3};
  for (const int n : sizes) {
    for (const In in : {In::gpu, In::host}) {
      World w(n, n, kUserBytes, in);
      check_missing(w);
      if (in == In::gpu) check_missing_direct(w);
    }
  }
}

void check_all_pointers(int devices) {
  check_pointers(World(3, 3));
  if (devices > 1) check_pointers(World(devices, 1));
}

// The numbers from argument `first` on.
std::vector<int> numbers(int argc, char** argv, int first) {
  std::vector<int> all;
  for (int i = first; i < argc; ++i) all.push_back(std::atoi(argv[i]));
  return all;
}

void check(int argc, char** argv, int devices) {
  const bool only_direct = argc > 2 && std::string(argv[2]) == "direct";
  std::vector<int> sizes = numbers(argc, argv, only_direct ? 3 : 2);
  if (sizes.empty()) sizes = {1, 2, 3, 4, 7, 8};
  for (const int n : sizes) check_single(n, only_direct, false);
  if (devices > 1) check_several(devices, only_direct);
  check_all_pointers(devices);
  check_all_missing({});
}

int time(const std::string& how, int devices, const std::vector<int>& ranks) {
  if (how == "special" || how == "store") {
    for (const int n : ranks) {
      World w(n, devices < n ? n : 1);
      how == "store" ? time_store(w) : time_special(w);
    }
    return ranks.empty() ? 2 : failures == 0 ? 0 : 1;
  }
  if (devices < 2) {
    std::printf("skipped: one GPU here\n");
    return 77;
  }
  World w(devices, 1, (2ull << 30) + (64u << 20));
  if (how == "chunks") {
    time_chunks(w);
    return 0;
  }
  if (how == "messages") {
    time_messages(w);
    return 0;
  }
  time_world(w, Collective::all_reduce, how == "quick");
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter,
                             Collective::all_to_all, Collective::broadcast})
    time_world(w, c, true);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU here\n");
    return 77;
  }
  const std::string what = argc > 1 ? argv[1] : "check";
  if (what == "time") return time(argc > 2 ? argv[2] : "", devices, numbers(argc, argv, 3));
  if (what == "check") {
    check(argc, argv, devices);
  } else if (what == "few") {
    for (const int n : numbers(argc, argv, 2)) check_single(n, false, true);
  } else if (what == "missing") {
    check_all_missing(numbers(argc, argv, 2));
  } else if (what == "pointers") {
    check_all_pointers(devices);
  } else if (what == "stress") {
    for (const In in : {In::gpu, In::host}) {
      World w(devices, 1, kUserBytes, in);
      stress(w, argc > 2 ? uint32_t(std::atoi(argv[2])) : 1, argc > 3 ? std::atoi(argv[3]) : 2000);
    }
  } else {
    std::fprintf(stderr, "window_gpu: there is no part '%s'\n", what.c_str());
    return 2;
  }
  std::printf("%d cases, %d wrong\n", cases, failures);
  return failures == 0 && cases > 0 ? 0 : 1;
}
