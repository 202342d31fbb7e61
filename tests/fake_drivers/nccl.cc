// A libnccl.so.2 for tests: the functions that the product calls, with the types of NCCL's public
// interface.
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tests/fake_drivers/cuda_control.h"
#include "tests/fake_drivers/nccl_control.h"

namespace {

constexpr int kOk = 0, kInternal = 3, kInvalidUsage = 5;

struct World {
  std::mutex mutex;
  fake_nccl::Setup setup;
  std::vector<fake_nccl::Made> made;
  fake_nccl::Counts counts;
};
World& world() {
  static World* const one = new World();  // threads that hang outlive main
  return *one;
}

struct Id {
  char bytes[128];
};

int run(void* stream) {
  {
    const std::lock_guard lock(world().mutex);
    ++world().counts.calls;
  }
  return fake_cuda::enqueue(stream,
                            [] { std::this_thread::sleep_for(std::chrono::microseconds(30)); }) == 0
             ? kOk
             : kInternal;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

namespace fake_nccl {

void set_up(const Setup& setup) {
  const std::lock_guard lock(world().mutex);
  world().setup = setup;
  world().made.clear();
  world().counts = {};
}
std::vector<Made> made() {
  const std::lock_guard lock(world().mutex);
  return world().made;
}
Counts counts() {
  const std::lock_guard lock(world().mutex);
  return world().counts;
}

}  // namespace fake_nccl

extern "C" {

int ncclGetVersion(int* version) {
  *version = world().setup.version;
  return kOk;
}
const char* ncclGetErrorString(int code) {
  return code == kInternal       ? "internal error"
         : code == kInvalidUsage ? "invalid usage"
                                 : "no error";
}
const char* ncclGetLastError(void*) {
  return "the fake's last words";
}
int ncclGetUniqueId(Id* id) {
  *id = Id{{'f', 'a', 'k', 'e'}};
  return kOk;
}
int ncclCommInitRank(void** comm, int, Id id, int rank) {
  const bool hang = world().setup.hang_init;
  while (hang) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (id.bytes[0] != 'f' || world().setup.refuse_init) return kInternal;
  const std::lock_guard lock(world().mutex);
  world().made.push_back(
      {variable("NCCL_ALGO"), variable("NCCL_PROTO"), variable("NCCL_NVLS_ENABLE"), rank});
  ++world().counts.communicators;
  *comm = new int(rank);
  return kOk;
}
int ncclCommDestroy(void* comm) {
  const std::lock_guard lock(world().mutex);
  --world().counts.communicators;
  delete static_cast<int*>(comm);
  return kOk;
}
int ncclCommAbort(void* comm) {
  return ncclCommDestroy(comm);
}
int ncclCommGetAsyncError(void*, int* code) {
  *code = kOk;
  return kOk;
}
int ncclGroupStart() {
  return kOk;
}
int ncclGroupEnd() {
  return kOk;
}
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void* stream) {
  return run(stream);
}
int ncclBroadcast(const void*, void*, size_t, int, int, void*, void* stream) {
  return run(stream);
}
int ncclReduce(const void*, void*, size_t, int, int, int, void*, void* stream) {
  return run(stream);
}
int ncclAllGather(const void*, void*, size_t, int, void*, void* stream) {
  return run(stream);
}
int ncclReduceScatter(const void*, void*, size_t, int, int, void*, void* stream) {
  return run(stream);
}
int ncclSend(const void*, size_t, int, int, void*, void* stream) {
  return run(stream);
}
int ncclRecv(void*, size_t, int, int, void*, void* stream) {
  return run(stream);
}
int ncclCommRegister(void*, void* memory, size_t, void** handle) {
  const std::lock_guard lock(world().mutex);
  ++world().counts.registrations;
  *handle = memory;
  return kOk;
}
int ncclCommDeregister(void*, void*) {
  const std::lock_guard lock(world().mutex);
  --world().counts.registrations;
  return kOk;
}
int ncclCommWindowRegister(void*, void* memory, size_t, void** window, int flags) {
  const std::lock_guard lock(world().mutex);
  if (world().setup.refuse_windows || flags != 1) return kInvalidUsage;
  ++world().counts.windows;
  *window = memory;
  return kOk;
}
int ncclCommWindowDeregister(void*, void*) {
  const std::lock_guard lock(world().mutex);
  --world().counts.windows;
  return kOk;
}
}
