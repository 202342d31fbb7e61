// Users' buffers in windows on GPU ranks, by the same calls as on CPU ranks: memory of the fake
// driver's devices, which is this process's, so that the test looks at it directly. Everything must
// have been given back to the driver at each end (with_gpu_ranks). Collectives move data directly
// between them where the model says so; the kernels themselves are tests/gpu/window_gpu's.
#include <cstring>

#include "runtime/window/memory.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/says.h"
#include "tests/unit/runtime/window/gpu_windows.h"

namespace window_user_window_gpu_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kServed[] = {Collective::all_reduce,     Collective::all_gather,
                                  Collective::reduce_scatter, Collective::broadcast,
                                  Collective::reduce,         Collective::gather,
                                  Collective::scatter,        Collective::all_to_all};
constexpr uint64_t kMostCount = 3001;

uint64_t memory_bytes(const Communicator& c) {
  return 3 * uint64_t(c.size()) * kMostCount * sizeof(float);
}

bool is_direct(Communicator& c, const Operation& op) {
  const auto plan = c.plan_for({&op, 1});
  return plan && plan->ops[0].direct;
}

// One window of all of it; null, with a complaint, when that fails.
struct DeviceWindowMemory {
  DeviceWindowMemory(Communicator& communicator, Complaints& complaints, uint64_t size)
      : c(communicator), to(complaints) {
    if (const Status made = make(size); !made) to.add(made.error().chain());
  }
  ~DeviceWindowMemory() {
    give_back();
    if (at != nullptr) to.add(c.rank(), free_window_memory(at));
  }
  DeviceWindowMemory(const DeviceWindowMemory&) = delete;
  DeviceWindowMemory& operator=(const DeviceWindowMemory&) = delete;
  Status make(uint64_t size) {
    COLL_ASSIGN(void* const memory, allocate_window_memory(size, c.device()));
    at = static_cast<uint8_t*>(memory);
    const WindowRange range{at, size};
    COLL_ASSIGN(auto windows, c.register_windows({&range, 1}, soon()));
    window = windows[0];
    return {};
  }
  void give_back() {
    if (window != nullptr) to.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
    window.reset();
  }
  float* floats() const { return reinterpret_cast<float*>(at); }

  Communicator& c;
  Complaints& to;
  uint8_t* at = nullptr;
  WindowPointer window;
};

void all_collectives(Communicator& c, Complaints& complaints, float* memory) {
  Stream stream(c);
  for (const Collective collective : kServed)
    for (const uint64_t count : {uint64_t(1), uint64_t(5), kMostCount})
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::all_to_all) continue;
        const std::string wrong =
            run_case(c, stream, {collective, count, c.size() - 1, in_place, memory},
                     count % 2 == 0 ? Communicator::Launch::async : Communicator::Launch::blocking);
        if (!wrong.empty()) return complaints.add(wrong);
      }
}

void look_at_all(Communicator& c, Complaints& complaints, const UserWindow& window) {
  if (window.team().size() != size_t(c.size())) complaints.add("not all are of the team");
  if (!right_bytes(c, complaints, window)) return;
  // The struct for kernels lies in the GPU's memory and says the same as the host's.
  kernels::UserWindow copy;
  if (window.on_device() == &window.shadow()) complaints.add("kernels get the host's struct");
  std::memcpy(static_cast<void*>(&copy), window.on_device(), sizeof copy);
  if (std::memcmp(&copy, &window.shadow(), sizeof copy) != 0 || copy.shadow != &window.shadow() ||
      kernels::window_local(copy, 7) != *window.peer(c.rank(), 7, 1))
    complaints.add("the window's struct for kernels differs");
}

}  // namespace

TEST_CASE("windows in GPU memory, registered again and again", "[gpu][user_window]") {
  for (const int n : {1, 2, 4}) {
    set_up_gpus(n);
    INFO(n << " ranks");
    GpuJob job;
    job.ranks = n;
    CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
            for (int round = 0; round < 20; ++round) {
              auto memory = allocate_window_memory(3 * kLookedAt, c.device());
              if (!memory) return complaints.add(memory.error().chain());
              auto* const at = static_cast<uint8_t*>(*memory);
              fill_window(c, at + kLookedAt);
              const WindowRange ranges[] = {{at, 10}, {at + kLookedAt, kLookedAt}};
              auto windows = c.register_windows(ranges, soon());
              if (!windows) return complaints.add(windows.error().chain());
              if (c.windows().usage().placements != 1) complaints.add("one memory, two mappings");
              COLL_TEST_OK(complaints, c.barrier(soon()));
              look_at_all(c, complaints, *(*windows)[1]);
              COLL_TEST_OK(complaints, c.barrier(soon()));
              if (free_window_memory(at)) complaints.add("registered memory was freed");
              COLL_TEST_OK(complaints, c.deregister_windows(*windows, soon()));
              COLL_TEST_OK(complaints, free_window_memory(at));
            }
          }) == "");
  }
}

TEST_CASE("memory of the host or of another GPU is no window of a GPU rank", "[gpu][user_window]") {
  set_up_gpus(3);
  GpuJob job;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          auto host = allocate_window_memory(4096);
          auto device = allocate_window_memory(4096, c.device());
          if (!host || !device) return complaints.add("no memory");
          const auto refused = [&](void* mine, const char* words) {
            const WindowRange range{mine, 100};
            const auto windows = c.register_windows({&range, 1}, soon());
            if (windows || windows.error().code != ErrorCode::usage ||
                windows.error().message.find(words) == std::string::npos)
              complaints.add(windows ? "registered" : windows.error().chain());
          };
          refused(*host, "belongs to the host, but rank");
          // One rank alone: both are told.
          refused(c.rank() == 0 ? *device : *host, "belongs to the host, but rank 1 uses GPU 1");
          COLL_TEST_OK(complaints, free_window_memory(*host));
          COLL_TEST_OK(complaints, free_window_memory(*device));
        }) == "");
}

TEST_CASE("GPUs that do not reach each other are of different teams", "[gpu][user_window]") {
  fake_cuda::set_up({.devices = 3, .peers = "0-2"});
  GpuJob job;
  job.ranks = 3;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          DeviceWindowMemory memory(c, complaints, memory_bytes(c));
          if (memory.window == nullptr) return;
          const bool alone = c.rank() == 2;
          if (memory.window->team().size() != (alone ? 1 : 2) || memory.window->reaches(2) != alone)
            complaints.add(format("rank {} has the wrong team", c.rank()));
          const auto there = memory.window->peer(2, 0, 1);
          if (!alone && (there || there.error().code != ErrorCode::usage))
            complaints.add("a GPU out of reach is mapped");
          // Windows are no reason to fail: the staged path is taken.
          if (c.no_direct_path().empty()) complaints.add("they are said to be direct");
          float* const at = memory.floats();
          const Operation op{
              .collective = Collective::all_reduce, .input = at, .output = at, .count = 1000};
          for (size_t i = 0; i < 1000; ++i) at[i] = float(c.rank() + 1);
          Stream stream(c);
          COLL_TEST_OK(complaints, c.start(op, stream));
          COLL_TEST_OK(complaints, stream.synchronize());
          if (std::any_of(at, at + 1000, [](float sum) { return sum != 6; }))
            complaints.add("a sum is wrong");
        }) == "");
}

TEST_CASE("a driver's failure is everybody's, and nothing stays mapped", "[gpu][user_window]") {
  set_up_gpus(2);
  GpuJob job;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          auto memory = allocate_window_memory(4096, c.device());
          if (!memory) return complaints.add(memory.error().chain());
          const WindowRange range{*memory, 4096};
          for (const char* call : {"cuMemMap", "cuMemImportFromShareableHandle",
                                   "cuMemExportToShareableHandle", "cuMemSetAccess"}) {
            COLL_TEST_OK(complaints, c.barrier(soon()));
            if (c.rank() == 0) fake_cuda::fail(call, 2);  // out of memory, on whichever rank
            COLL_TEST_OK(complaints, c.barrier(soon()));
            const auto failed = c.register_windows({&range, 1}, soon());
            if (failed || failed.error().code != ErrorCode::unavailable)
              complaints.add(failed ? format("{} was not called", call) : failed.error().chain());
            const WindowUsage usage = c.windows().usage();
            if (usage.placements != 0) complaints.add("something stayed");
          }
          auto windows = c.register_windows({&range, 1}, soon());
          if (!windows) return complaints.add(windows.error().chain());
          COLL_TEST_OK(complaints, c.deregister_windows(*windows, soon()));
          COLL_TEST_OK(complaints, free_window_memory(*memory));
        }) == "");
}

TEST_CASE("every collective of GPU ranks directly between windows", "[gpu][user_window]") {
  for (const int n : {1, 2, 3, 4}) {
    set_up_gpus(n);
    INFO(n << " ranks");
    GpuJob job;
    job.ranks = n;
    job.options.algo = "one-shot,two-shot,ring,pairwise";  // named: direct at any size
    job.options.op_timeout_s = 60;
    const LaunchCounts before = launch_counts();
    CHECK(
        with_gpu_ranks(job, [n](Communicator& c, Complaints& complaints) {
          DeviceWindowMemory memory(c, complaints, memory_bytes(c));
          if (memory.window == nullptr) return;
          const std::string why = n == 1 ? "one rank has no peers" : "";
          if (c.no_direct_path() != why) complaints.add(c.no_direct_path());
          float* const at = memory.floats();
          for (const Collective collective : kServed) {
            const Operation op{
                .collective = collective, .input = at, .output = at + 8 * n, .count = 8, .root = 0};
            if (is_direct(c, op) != (n > 1))
              complaints.add(format("{} planned another way", kernels::name_of(collective)));
          }
          all_collectives(c, complaints, at);
        }) == "");
    const LaunchCounts after = launch_counts();
    // Collectives, sizes, in place and not (all-to-all: not); on every rank.
    CHECK(after.direct - before.direct == (n == 1 ? 0 : uint64_t(n) * (7 * 6 + 3)));
    if (n > 1) CHECK(after.works == before.works);
  }
}

TEST_CASE("GPU ranks' plans: direct where large, never with ordinary buffers",
          "[gpu][user_window]") {
  constexpr int kRanks = 2;
  constexpr uint64_t kLarge = 2 << 20;  // elements of a block
  set_up_gpus(kRanks);
  GpuJob job;
  job.ranks = kRanks;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          constexpr uint64_t kRoom = 2 * kRanks * kLarge * sizeof(float);
          DeviceWindowMemory memory(c, complaints, kRoom);
          auto other = allocate_window_memory(kRoom, c.device());
          if (memory.window == nullptr || !other) return complaints.add("no memory");
          auto* const ordinary = static_cast<float*>(*other);
          float* const in = memory.floats();
          float* const out = in + kRanks * kLarge;
          for (const Collective collective :
               {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                Collective::all_to_all, Collective::broadcast}) {
            const auto op = [&](float* input, float* output) {
              return Operation{.collective = collective,
                               .input = input,
                               .output = output,
                               .count = kLarge,
                               .root = 0};
            };
            const char* const name = kernels::name_of(collective);
            if (!is_direct(c, op(in, out))) complaints.add(format("{} is not direct", name));
            // A rank that neither gives nor gets here needs no window for it.
            const bool gives = collective != Collective::broadcast || c.rank() == 0;
            if (is_direct(c, op(ordinary, out)) == gives)
              complaints.add(format("{} with an ordinary input", name));
            if (is_direct(c, op(in, ordinary)))
              complaints.add(format("{} with an ordinary output", name));
            if (is_direct(c, op(ordinary, ordinary + kRanks * kLarge)))
              complaints.add(format("{} of ordinary buffers", name));
          }
          const Operation large{.input = in, .output = out, .count = kLarge};
          complaints.add(c.rank(), c.set_choices("ring", "", 0));
          if (is_direct(c, large)) complaints.add("ring was asked for");
          complaints.add(c.rank(), c.set_choices("two-shot,ring", "", 0));
          if (!is_direct(c, large)) complaints.add("two-shot was asked for");
          complaints.add(c.rank(), c.set_choices("", "", 0));
          memory.give_back();
          if (is_direct(c, large)) complaints.add("planned over a window that has gone");
          COLL_TEST_OK(complaints, free_window_memory(*other));
        }) == "");
}

TEST_CASE("GPU ranks' buffers at other places on other ranks, in groups too",
          "[gpu][user_window]") {
  constexpr int kRanks = 3;
  set_up_gpus(kRanks);
  GpuJob job;
  job.ranks = kRanks;
  job.options.algo = "two-shot,ring";
  job.options.op_timeout_s = 60;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          DeviceWindowMemory first(c, complaints, 4096), second(c, complaints, 4096);
          if (first.window == nullptr || second.window == nullptr) return;
          // Two sums of 100 elements whose places differ from rank to rank; unaligned, too.
          Stream stream(c);
          std::vector<Operation> ops;
          for (const int k : {0, 1}) {
            float* const input = first.floats() + 200 * k + 17 * c.rank();
            for (uint64_t i = 0; i < 100; ++i) input[i] = value_of(c.rank() + k, i);
            uint8_t* const output =
                second.at + 1600 * k + 4 * 31 * (2 - c.rank()) + (c.rank() == 1 ? 1 : 0);
            ops.push_back({.input = input, .output = output, .count = 100});
            if (!is_direct(c, ops.back())) complaints.add("planned another way");
          }
          for (int round = 0; round < 3; ++round) {
            for (const Operation& op : ops) std::memset(op.output, 0x5a, 400);
            complaints.add(c.rank(), c.barrier(soon()));
            complaints.add(c.rank(), c.start_all(ops, stream, Communicator::Launch::async));
            complaints.add(c.rank(), stream.synchronize());
            for (const int k : {0, 1})
              for (uint64_t i = 0; i < 100; ++i) {
                float got;
                std::memcpy(&got, static_cast<uint8_t*>(ops[size_t(k)].output) + 4 * i, 4);
                if (got != value_of(k, i) + value_of(1 + k, i) + value_of(2 + k, i))
                  return complaints.add(format("rank {}: element {} is {}", c.rank(), i, got));
              }
          }
        }) == "");
}

}  // namespace window_user_window_gpu_tests
