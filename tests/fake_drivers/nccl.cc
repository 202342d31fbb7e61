// A libnccl.so.2 for tests: the functions that the product calls, with the types of NCCL's public
// interface.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_drivers/cuda_control.h"
#include "tests/fake_drivers/nccl_control.h"
#include "tests/refusals.h"

extern "C" {
int cuMemAlloc_v2(unsigned long long* at, size_t bytes);
int cuMemFree_v2(unsigned long long at);
}

namespace {

constexpr int kOk = 0, kInternal = 3, kInvalidUsage = 5;

enum class Kind { none, all_reduce, broadcast, reduce, all_gather, reduce_scatter };
constexpr size_t kElement = 4;  // of float32

struct Call {  // of one rank
  Kind kind = Kind::none;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;
  int root = 0;
};
// A collective of all ranks, done by the last that comes.
struct Meeting {
  std::map<int, Call> calls;
  bool done = false;
};

struct Comm {
  int rank = 0, ranks = 1, number = 0;  // of all that this rank has made
  int collectives = 0;
  std::string algorithm;
  unsigned long long buffers = 0;  // CUdeviceptr
  int windows = 0, registrations = 0;
};

struct World {
  std::mutex mutex;
  std::map<int, unsigned long long> code;  // of each rank's device
  fake_nccl::Setup setup;
  std::vector<fake_nccl::Made> made;
  fake_nccl::Counts counts;
  std::map<std::pair<int, int>, int> in_flight;  // messages from, to
  collctl::test::Refusals refusals;
  std::map<int, int> numbers;                       // by rank: communicators made
  std::map<std::pair<int, int>, Meeting> meetings;  // by communicator and collective
  std::condition_variable changed;
  int generation = 0;  // of set_up()
  bool hangs = false, logged = false;
};
World& world() {
  static World* const one = new World();  // threads that hang outlive main
  return *one;
}

struct Id {
  char bytes[128];
};

int64_t machine_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
int64_t (*now_ns)() = machine_ns;

// As long as it takes on the clock that those who measure it read.
void take(std::chrono::nanoseconds time) {
  const int64_t until = now_ns() + time.count();
  for (int64_t left = time.count(); left > 0; left = until - now_ns())
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

bool refused(const char* function) {
  return world().refusals.refused(function) != 0;
}

// On the calling thread's device, once for each rank.
bool load_code(World& w, int rank) {
  if (w.setup.code_bytes == 0 || w.code.count(rank) != 0) return true;
  return cuMemAlloc_v2(&w.code[rank], w.setup.code_bytes) == kOk;
}

// The inputs of all first: they may lie where results go.
void move(const std::map<int, Call>& calls, int wrong_on) {
  const Call& any = calls.begin()->second;
  const size_t ranks = calls.size();
  if (any.count == 0) return;  // there may be no buffers
  const size_t each = any.count * (any.kind == Kind::reduce_scatter ? ranks : 1);
  std::map<int, std::vector<float>> inputs;
  std::vector<float> sum(each, 0);
  for (const auto& [rank, call] : calls) {
    std::vector<float>& input = inputs[rank];
    input.resize(each);
    if (any.kind == Kind::broadcast && rank != any.root) continue;
    std::memcpy(input.data(), call.from, each * kElement);
    for (size_t i = 0; i < each; ++i) sum[i] += input[i];
  }
  for (const auto& [rank, call] : calls) {
    auto* to = static_cast<float*>(call.to);
    const auto own = size_t(rank) * any.count;
    const auto put = [&](const std::vector<float>& from, size_t at, size_t into) {
      std::memcpy(to + into, from.data() + at, any.count * kElement);
    };
    if (any.kind == Kind::all_reduce) put(sum, 0, 0);
    if (any.kind == Kind::reduce && rank == any.root) put(sum, 0, 0);
    if (any.kind == Kind::broadcast) put(inputs[any.root], 0, 0);
    if (any.kind == Kind::reduce_scatter) put(sum, own, 0);
    for (const auto& [peer, input] : inputs)
      if (any.kind == Kind::all_gather) put(input, 0, size_t(peer) * any.count);
    if (rank == wrong_on && any.count > 0) to[0] += 1;
  }
}

// On the stream's thread. Ends at the next set_up() as well.
void meet(std::pair<int, int> which, int ranks, int rank, const Call& call) {
  World& w = world();
  std::unique_lock lock(w.mutex);
  const int generation = w.generation;
  Meeting& meeting = w.meetings[which];
  meeting.calls[rank] = call;
  if (int(meeting.calls.size()) == ranks) {
    move(meeting.calls, w.setup.wrong_on);
    meeting.done = true;
    w.changed.notify_all();
  }
  w.changed.wait(lock, [&] { return w.generation != generation || meeting.done; });
}

void hang() {
  World& w = world();
  std::unique_lock lock(w.mutex);
  const int generation = w.generation;
  w.changed.wait(lock, [&] { return w.generation != generation || !w.hangs; });
}

int run(void* comm, void* stream, const Call& call = {}) {
  if (refused("collective")) return kInternal;
  std::pair<int, int> which;
  int rank = 0, ranks = 1;
  bool moves = false;
  {
    const std::lock_guard lock(world().mutex);
    auto* own = static_cast<Comm*>(comm);
    moves = world().setup.moves && call.kind != Kind::none;
    if (moves) which = {own->number, own->collectives++};
    rank = own->rank;
    ranks = own->ranks;
    const std::string& refused = world().setup.refuse_algorithm;
    if (!refused.empty() && own->algorithm == refused) return kInvalidUsage;
    if (!load_code(world(), own->rank)) return kInternal;
    ++world().counts.calls;
  }
  const auto work = [which, rank, ranks, call, moves] {
    take(std::chrono::microseconds(30));
    hang();
    if (moves) meet(which, ranks, rank, call);
  };
  return fake_cuda::enqueue(stream, work) == 0 ? kOk : kInternal;
}

int message(int sends, int peer, void* comm, void* stream) {
  const int own = static_cast<const Comm*>(comm)->rank;
  {
    const std::lock_guard lock(world().mutex);
    world().in_flight[sends > 0 ? std::pair(own, peer) : std::pair(peer, own)] +=
        sends;  // or receives: -1
  }
  return run(comm, stream);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void write_log(World& w) {
  if (w.logged || variable("NCCL_DEBUG") != "INFO") return;
  w.logged = true;
  if (FILE* file = std::fopen(variable("NCCL_DEBUG_FILE").c_str(), "w"); file != nullptr) {
    std::fputs(w.setup.log.c_str(), file);
    std::fclose(file);
  }
}

}  // namespace

namespace fake_nccl {
void use_clock(int64_t (*ns)()) {
  now_ns = ns;
}

void set_up(const Setup& setup) {
  const std::lock_guard lock(world().mutex);
  world().setup = setup;
  world().made.clear();
  world().counts = {};
  world().in_flight.clear();
  world().refusals.clear();
  world().numbers.clear();
  world().meetings.clear();
  ++world().generation;
  world().hangs = setup.hang_collective;
  world().logged = false;
  world().changed.notify_all();
}
void let_go() {
  const std::lock_guard lock(world().mutex);
  world().hangs = false;
  world().changed.notify_all();
}
void fail(const std::string& function, int after) {
  world().refusals.fail(function, kInternal, after);
}
std::map<std::string, int> calls() {
  return world().refusals.calls();
}
std::vector<Made> made() {
  const std::lock_guard lock(world().mutex);
  return world().made;
}
Counts counts() {
  const std::lock_guard lock(world().mutex);
  Counts counts = world().counts;
  for (const auto& [pair, messages] : world().in_flight) counts.unmatched += std::abs(messages);
  return counts;
}
void unload() {
  const std::lock_guard lock(world().mutex);
  for (const auto& [rank, memory] : world().code) cuMemFree_v2(memory);
  world().code.clear();
}

}  // namespace fake_nccl

extern "C" {

int ncclGetVersion(int* version) {
  if (refused("ncclGetVersion")) return kInternal;
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
  if (refused("ncclGetUniqueId")) return kInternal;
  *id = Id{{'f', 'a', 'k', 'e'}};
  return kOk;
}
int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  if (refused("ncclCommInitRank")) return kInternal;
  const bool hang = world().setup.hang_init;
  while (hang && world().setup.hang_init) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (hang) return kInternal;  // let go by the next set_up
  if (id.bytes[0] != 'f' || world().setup.refuse_init) return kInternal;
  take(std::chrono::milliseconds(world().setup.init_ms));
  const std::lock_guard lock(world().mutex);
  auto made = std::make_unique<Comm>();
  made->rank = rank;
  made->ranks = ranks;
  made->number = world().numbers[rank]++;
  made->algorithm = variable("NCCL_ALGO");
  write_log(world());
  if (world().setup.buffer_bytes != 0 &&
      cuMemAlloc_v2(&made->buffers, world().setup.buffer_bytes) != kOk)
    return kInternal;
  world().made.push_back(
      {made->algorithm, variable("NCCL_PROTO"), variable("NCCL_NVLS_ENABLE"), rank});
  ++world().counts.communicators;
  *comm = made.release();
  return kOk;
}
int ncclCommDestroy(void* comm) {
  const std::lock_guard lock(world().mutex);
  --world().counts.communicators;
  const std::unique_ptr<Comm> gone(static_cast<Comm*>(comm));
  return gone->buffers == 0 ? kOk : cuMemFree_v2(gone->buffers);
}
int ncclCommAbort(void* comm) {
  {
    const std::lock_guard lock(world().mutex);
    world().counts.windows -= static_cast<Comm*>(comm)->windows;
    world().counts.registrations -= static_cast<Comm*>(comm)->registrations;
  }
  return ncclCommDestroy(comm);
}
int ncclCommGetAsyncError(void*, int* code) {
  if (refused("ncclCommGetAsyncError")) return kInternal;
  *code = kOk;
  return kOk;
}
int ncclGroupStart() {
  if (refused("ncclGroupStart")) return kInternal;
  return kOk;
}
int ncclGroupEnd() {
  if (refused("ncclGroupEnd")) return kInternal;
  return kOk;
}
int ncclAllReduce(const void* from, void* to, size_t count, int, int, void* comm, void* stream) {
  return run(comm, stream, {Kind::all_reduce, from, to, count});
}
int ncclBroadcast(const void* from, void* to, size_t count, int, int root, void* comm,
                  void* stream) {
  return run(comm, stream, {Kind::broadcast, from, to, count, root});
}
int ncclReduce(const void* from, void* to, size_t count, int, int, int root, void* comm,
               void* stream) {
  return run(comm, stream, {Kind::reduce, from, to, count, root});
}
int ncclAllGather(const void* from, void* to, size_t count, int, void* comm, void* stream) {
  return run(comm, stream, {Kind::all_gather, from, to, count});
}
int ncclReduceScatter(const void* from, void* to, size_t count, int, int, void* comm,
                      void* stream) {
  return run(comm, stream, {Kind::reduce_scatter, from, to, count});
}
int ncclSend(const void*, size_t, int, int peer, void* comm, void* stream) {
  return message(1, peer, comm, stream);
}
int ncclRecv(void*, size_t, int, int peer, void* comm, void* stream) {
  return message(-1, peer, comm, stream);
}
int ncclCommRegister(void* comm, void* memory, size_t, void** handle) {
  if (refused("ncclCommRegister")) return kInternal;
  const std::lock_guard lock(world().mutex);
  ++world().counts.registrations;
  ++static_cast<Comm*>(comm)->registrations;
  *handle = memory;
  return kOk;
}
int ncclCommDeregister(void* comm, void*) {
  {
    const std::lock_guard lock(world().mutex);
    --world().counts.registrations;
    --static_cast<Comm*>(comm)->registrations;
  }
  return refused("ncclCommDeregister") ? kInternal : kOk;
}
int ncclCommWindowRegister(void* comm, void* memory, size_t, void** window, int flags) {
  if (refused("ncclCommWindowRegister")) return kInternal;
  const std::lock_guard lock(world().mutex);
  if (world().setup.refuse_windows || flags != 1) return kInvalidUsage;
  ++world().counts.windows;
  ++static_cast<Comm*>(comm)->windows;
  *window = memory;
  return kOk;
}
int ncclCommWindowDeregister(void* comm, void*) {
  {
    const std::lock_guard lock(world().mutex);
    --world().counts.windows;
    --static_cast<Comm*>(comm)->windows;
  }
  return refused("ncclCommWindowDeregister") ? kInternal : kOk;
}
}
