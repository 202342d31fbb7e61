// GPUs as ranks use them, over the fake driver: what works, what is given back, and what people are
// told when it does not work.
#include <signal.h>
#include <sys/wait.h>

#include <cstring>

#include "base/host_facts.h"
#include "base/wait.h"
#include "tests/catch.h"
#include "tests/unit/transport/rig.h"

namespace device_tests {

using namespace collctl;
using namespace collctl::test;
using transport::Device;
using transport::DeviceEvent;
using transport::DeviceGraph;
using transport::DeviceMemory;
using transport::DevicePointer;
using transport::DeviceStream;
using transport::FlatMemory;
using transport::PinnedMemory;

namespace {

constexpr uint64_t kMib = 1 << 20;

DevicePointer gpu(int ordinal) {
  auto device = Device::open(ordinal);
  REQUIRE(device);
  return *device;
}

bool says(const Error& error, const char* text) {
  return error.chain().find(text) != std::string::npos;
}

bool all_zero(const uint8_t* at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i)
    if (at[i] != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("a GPU that has broken before it is opened is one that the machine has not") {
  const FakeGpus gpus({.devices = 1});
  constexpr int kEcc = 214, kLaunchFailed = 719;
  for (const char* call :
       {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuStreamCreate"})
    for (const int code : {kEcc, kLaunchFailed}) {
      INFO(call << " " << code);
      fake_cuda::fail(call, code);
      const auto device = Device::open(0);
      REQUIRE_FALSE(device);
      CHECK(device.error().code == ErrorCode::unavailable);
      CHECK(says(device.error(), "GPU 0"));
      CHECK(device.error().hint.find("--device cpu") != std::string::npos);
    }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("a GPU says what it is") {
  const FakeGpus gpus({.devices = 3, .memory_bytes = 64 * kMib, .peers = "", .sm = 90});
  CHECK(Device::count().value() == 3);
  const DevicePointer device = gpu(1);
  CHECK(device->facts().ordinal == 1);
  CHECK(device->facts().bus_id == "0000:11:00.0");
  CHECK(device->facts().bus_number == 0x11000);
  CHECK(device->facts().compute_capability == 90);
  CHECK(device->facts().memory_bytes == 64 * kMib);
  CHECK(device->facts().fd_handles);
  CHECK(device->text() == "GPU 1 (0000:11:00.0)");
  CHECK(device->free_bytes() == 64 * kMib);
  CHECK(device->alive());
}

TEST_CASE("no GPU, no such GPU, no context: sentences with a remedy") {
  {
    const FakeGpus gpus({.devices = 0});
    CHECK(Device::count().value() == 0);
    auto none = Device::open(0);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == ErrorCode::unavailable);
    CHECK(none.error().hint.find("CUDA_VISIBLE_DEVICES") != std::string::npos);
    CHECK(none.error().hint.find("--device cpu") != std::string::npos);
  }
  // NVML may still answer where CUDA does not start.
  for (const int code : {803, 999}) {
    INFO("cuInit " << code);
    const FakeGpus gpus({.devices = 1});
    fake_cuda::fail("cuInit", code);
    const auto dead = Device::open(0);
    REQUIRE_FALSE(dead);
    CHECK(dead.error().code == ErrorCode::unavailable);
    CHECK(dead.error().hint.find("--device cpu") != std::string::npos);
  }
  const FakeGpus gpus({.devices = 2});
  auto third = Device::open(2);
  REQUIRE_FALSE(third);
  CHECK(third.error().code == ErrorCode::unavailable);
  CHECK(says(third.error(), "there is no GPU 2: this process sees 2, GPU 0 to 1"));
  fake_cuda::fail("cuDevicePrimaryCtxRetain", 2);
  auto full = Device::open(0);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == ErrorCode::unavailable);
  CHECK(says(full.error(), "GPU 0 (0000:11:00.0): create a context: CUDA_ERROR_OUT_OF_MEMORY"));
  fake_cuda::fail("cuStreamCreate", 2);
  CHECK_FALSE(Device::open(0));  // and the context is given back
}

TEST_CASE("memory is zeroed, bounded, and given back") {
  const FakeGpus gpus({.devices = 1, .memory_bytes = 8 * kMib});
  const DevicePointer device = gpu(0);
  for (const bool shared : {false, true}) {
    INFO("shared " << shared);
    auto memory = DeviceMemory::make(device, kMib + 1, shared);
    REQUIRE(memory);
    CHECK(memory->bytes() == kMib + 1);
    CHECK(all_zero(memory->data(), kMib + 1));
    CHECK(bool(memory->export_fd()) == shared);
    CHECK(bool(memory->export_ipc()) == !shared);
    auto more = DeviceMemory::make(device, 7 * kMib, shared);
    REQUIRE_FALSE(more);
    CHECK(more.error().code == ErrorCode::unavailable);
    CHECK(says(more.error(), "CUDA_ERROR_OUT_OF_MEMORY"));
    CHECK(says(more.error(), shared ? "8388608 bytes are needed, 6291456 of 8388608 are free"
                                    : "7340032 bytes are needed, 7340031 of 8388608 are free"));
    CHECK(more.error().hint.find("nvidia-smi") != std::string::npos);
  }
  CHECK(device->free_bytes() == 8 * kMib);
  CHECK(DeviceMemory::make(device, 0, true));
}

TEST_CASE("every step of making memory may fail, and nothing is kept") {
  const FakeGpus gpus({.devices = 2});
  const DevicePointer device = gpu(0);
  const auto before = fake_cuda::counts();
  for (const char* call :
       {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
    INFO(call);
    fake_cuda::fail(call, 999);
    auto memory = DeviceMemory::make(device, kMib, true);
    REQUIRE_FALSE(memory);
    CHECK(memory.error().code == ErrorCode::lost);  // CUDA_ERROR_UNKNOWN: nobody knows what works
    CHECK(says(memory.error(), "GPU 0"));
    CHECK(fake_cuda::counts() == before);
  }
}

TEST_CASE("a descriptor is the same memory, also on another GPU of the host") {
  const FakeGpus gpus({.devices = 2});
  const DevicePointer owner = gpu(0), user = gpu(1);
  auto memory = DeviceMemory::make(owner, 3 * kMib, true);
  REQUIRE(memory);
  auto fd = memory->export_fd();
  REQUIRE(fd);
  auto seen = DeviceMemory::import(user, fd->get(), 3 * kMib);
  REQUIRE(seen);
  CHECK(seen->data() != memory->data());
  memory->data()[3 * kMib - 1] = 77;
  CHECK(seen->data()[3 * kMib - 1] == 77);
  // A peer that says more than it passed is refused by the driver.
  CHECK_FALSE(DeviceMemory::import(user, fd->get(), 5 * kMib));
  Fd other(::dup(2));
  CHECK_FALSE(DeviceMemory::import(user, other.get(), kMib));
  // The memory outlives its owner's mapping.
  memory = DeviceMemory();
  CHECK(seen->data()[3 * kMib - 1] == 77);
}

TEST_CASE("GPUs that do not reach each other are told apart") {
  const FakeGpus gpus({.devices = 3, .peers = "0-1"});
  const DevicePointer a = gpu(0), b = gpu(1), c = gpu(2);
  CHECK(a->reaches(*c).value());
  CHECK(a->reaches(*a).value());
  transport::PeerInfo peer{};
  peer.bus_id = 0x7f000;  // a GPU this process cannot ask about
  CHECK(a->reaches(peer).value());
  auto cut = a->reaches(*b);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::unavailable);
  CHECK(says(cut.error(), "GPU 0 (0000:12:00.0) cannot access the memory of GPU 1 (0000:11:00.0)"));
  peer.bus_id = b->facts().bus_number;
  CHECK_FALSE(a->reaches(peer));
  auto memory = DeviceMemory::make(a, kMib, true);
  auto plain = DeviceMemory::make(a, kMib, false);
  auto fd = memory->export_fd();
  CHECK_FALSE(DeviceMemory::import(b, fd->get(), kMib));
  CHECK_FALSE(memory->allow(*b));
  CHECK_FALSE(plain->allow(*b));
  CHECK(memory->allow(*c));
  CHECK(plain->allow(*c));
  CHECK(plain->allow(*c));  // allowed already
}

TEST_CASE("memory that nobody was given access to cannot be touched") {
  const FakeGpus gpus({.devices = 2});
  const DevicePointer owner = gpu(0), user = gpu(1);
  auto memory = DeviceMemory::make(owner, kMib, true);
  auto own = DeviceStream::make(owner), others = DeviceStream::make(user);
  CHECK(own->fill(memory->data(), 1, kMib));
  CHECK_FALSE(others->fill(memory->data(), 1, kMib));
  REQUIRE(memory->allow(*user));
  CHECK(others->fill(memory->data(), 1, kMib));
  CHECK(own->synchronize(soon()));
  CHECK(others->synchronize(soon()));
  auto flat = FlatMemory::reserve(owner, 2, kMib);
  CHECK_FALSE(own->fill(flat->data(), 1, kMib));  // reserved, nothing there
}

TEST_CASE("memories of several ranks lie side by side") {
  const FakeGpus gpus({.devices = 3});
  const DevicePointer devices[3] = {gpu(0), gpu(1), gpu(2)};
  DeviceMemory parts[3];
  for (int i = 0; i < 3; ++i) {
    auto made = DeviceMemory::make(devices[i], kMib, true);
    REQUIRE(made);
    parts[i] = std::move(*made);
    parts[i].data()[5] = uint8_t(40 + i);
  }
  auto flat = FlatMemory::reserve(devices[1], 3, kMib);
  REQUIRE(flat);
  CHECK(flat->stride() == 2 * kMib);  // whole pages
  REQUIRE(flat->map(1, parts[1]));
  for (const int peer : {0, 2}) {
    auto fd = parts[peer].export_fd();
    REQUIRE(flat->map_fd(peer, fd->get(), kMib));
  }
  for (int i = 0; i < 3; ++i) CHECK(flat->data()[uint64_t(i) * flat->stride() + 5] == 40 + i);
  CHECK_FALSE(flat->map(1, parts[1]));  // taken
  CHECK_FALSE(flat->map(3, parts[1]));
  auto plain = DeviceMemory::make(devices[1], kMib, false);
  CHECK_FALSE(flat->map(0, *plain));
  CHECK_FALSE(FlatMemory::reserve(devices[0], 1025, kMib));
  CHECK_FALSE(FlatMemory::reserve(devices[0], 2, UINT64_MAX - 1));
  FlatMemory moved = std::move(*flat);
  CHECK(moved.data()[5] == 40);
}

// The other process of the next test: this program again, which takes the name from its standard
// input.
TEST_CASE("memory by name in another process", "[.child]") {
  const FakeGpus gpus({.devices = 2, .fd_handles = false});
  transport::IpcName name;
  REQUIRE(::read(0, &name, sizeof name) == ssize_t(sizeof name));
  auto seen = DeviceMemory::import_ipc(gpu(1), name, 64);
  REQUIRE(seen);
  CHECK(seen->data()[9] == 99);
  seen->data()[10] = 98;
}

TEST_CASE("a driver without handles still has memory by name") {
  const FakeGpus gpus({.devices = 2, .fd_handles = false});
  const DevicePointer device = gpu(0);
  CHECK_FALSE(device->facts().fd_handles);
  CHECK_FALSE(DeviceMemory::make(device, 64, true));
  auto memory = DeviceMemory::make(device, 64, false);
  REQUIRE(memory);
  memory->data()[9] = 99;
  const auto name = memory->export_ipc();
  REQUIRE(name);
  CHECK_FALSE(DeviceMemory::import_ipc(device, *name, 64));  // not within one process
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[0], 0);
    ::execl(base::kSelfPath, "test_transport", "memory by name in another process", nullptr);
    ::_exit(127);
  }
  REQUIRE(::write(ends[1], &*name, sizeof *name) == ssize_t(sizeof *name));
  ::close(ends[0]);
  ::close(ends[1]);
  int status = 0;
  const Deadline deadline = soon();
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (deadline.passed()) ::kill(child, SIGKILL);
    base::sleep_until(Deadline::after_ms(2));
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(memory->data()[10] == 98);
}

TEST_CASE("streams run in order, events tell time and order streams") {
  const FakeGpus gpus({.devices = 1});
  const DevicePointer device = gpu(0);
  auto first = DeviceStream::make(device), second = DeviceStream::make(device);
  auto event = DeviceEvent::make(device, false);
  auto start = DeviceEvent::make(device, true), end = DeviceEvent::make(device, true);
  std::atomic<bool> go{false};
  std::atomic<int> order{0};
  int at_first = 0, at_second = 0;
  REQUIRE(start->record(first->get()));
  REQUIRE(fake_cuda::enqueue(first->get(), [&] {
            while (!go.load()) base::sleep_until(Deadline::after_ms(1));
            at_first = ++order;
          }) == 0);
  REQUIRE(event->record(first->get()));
  REQUIRE(end->record(first->get()));
  REQUIRE(second->wait_for(*event));
  REQUIRE(fake_cuda::enqueue(second->get(), [&] { at_second = ++order; }) == 0);
  const Deadline started = soon();
  while (!start->done().value() && !started.passed()) base::yield_thread();
  CHECK_FALSE(first->idle().value());
  CHECK_FALSE(event->done().value());
  Status late = second->synchronize(Deadline::after_ms(20));
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::deadline);
  CHECK(says(late.error(), "waits for GPU 0 (0000:10:00.0)"));
  go = true;
  REQUIRE(second->synchronize(soon()));
  REQUIRE(first->synchronize(soon()));
  CHECK(at_first == 1);
  CHECK(at_second == 2);
  CHECK(event->done().value());
  CHECK(end->us_since(*start).value() >= 20'000);  // it waited at least as long as we did
}

TEST_CASE("copies go both ways") {
  const FakeGpus gpus({.devices = 1});
  const DevicePointer device = gpu(0);
  auto stream = DeviceStream::make(device);
  auto memory = DeviceMemory::make(device, 1000, false);
  auto pinned = PinnedMemory::make(device, 1000);
  REQUIRE(pinned);
  CHECK(all_zero(pinned->data(), 1000));
  std::memset(pinned->data(), 3, 1000);
  REQUIRE(stream->copy(memory->data(), pinned->data(), 1000));
  REQUIRE(stream->fill(pinned->data(), 9, 1000));
  REQUIRE(stream->copy(pinned->data() + 1, memory->data(), 999));
  REQUIRE(stream->copy(nullptr, nullptr, 0));
  REQUIRE(stream->synchronize(soon()));
  CHECK(pinned->data()[0] == 9);
  CHECK(pinned->data()[999] == 3);
}

TEST_CASE("somebody else's memory is pinned and unpinned") {
  const FakeGpus gpus({.devices = 1});
  const DevicePointer device = gpu(0);
  base::Mapping mapping(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 8192);
  {
    auto pinned = PinnedMemory::over(device, mapping.get(), mapping.size());
    REQUIRE(pinned);
    CHECK(fake_cuda::counts().pinned == 1);
    auto again = PinnedMemory::over(device, mapping.get(), mapping.size());
    REQUIRE(again);
    *again = PinnedMemory();
    CHECK(fake_cuda::counts().pinned == 1);  // still the first one's
  }
  CHECK(fake_cuda::counts().pinned == 0);
  fake_cuda::fail("cuMemHostGetDevicePointer_v2", 1);
  CHECK_FALSE(PinnedMemory::over(device, mapping.get(), mapping.size()));
  CHECK(fake_cuda::counts().pinned == 0);
  fake_cuda::fail("cuMemHostAlloc", 2);
  CHECK_FALSE(PinnedMemory::make(device, 64));
}

TEST_CASE("a graph does again what was captured") {
  const FakeGpus gpus({.devices = 1});
  const DevicePointer device = gpu(0);
  auto stream = DeviceStream::make(device), side = DeviceStream::make(device);
  auto fork = DeviceEvent::make(device, false), join = DeviceEvent::make(device, false);
  int runs = 0, side_runs = 0;
  REQUIRE(DeviceGraph::begin(device, stream->get()));
  REQUIRE(fake_cuda::enqueue(stream->get(), [&] { ++runs; }) == 0);
  REQUIRE(fork->record(stream->get()));
  REQUIRE(side->wait_for(*fork));
  REQUIRE(fake_cuda::enqueue(side->get(), [&] { ++side_runs; }) == 0);
  REQUIRE(join->record(side->get()));
  REQUIRE(stream->wait_for(*join));
  // Memory may be made meanwhile: it is not part of the graph.
  CHECK(DeviceMemory::make(device, kMib, true));
  auto graph = DeviceGraph::end(device, stream->get());
  REQUIRE(graph);
  CHECK(runs == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(graph->launch(stream->get()));
  REQUIRE(stream->synchronize(soon()));
  CHECK(runs == 3);
  CHECK(side_runs == 3);
  // A stream that captures cannot be asked whether it is idle; the capture is lost.
  REQUIRE(DeviceGraph::begin(device, stream->get()));
  CHECK_FALSE(stream->idle());
  CHECK_FALSE(DeviceGraph::end(device, stream->get()));
  CHECK(stream->idle().value());
}

TEST_CASE("a GPU that falls off is lost, not unavailable") {
  const FakeGpus gpus({.devices = 2});
  const DevicePointer device = gpu(0), other = gpu(1);
  auto stream = DeviceStream::make(device);
  fake_cuda::break_device(0, 700);
  Status alive = device->alive();
  REQUIRE_FALSE(alive);
  CHECK(alive.error().code == ErrorCode::lost);
  CHECK(says(alive.error(),
             "GPU 0 (0000:11:00.0): has stopped working: "
             "CUDA_ERROR_ILLEGAL_ADDRESS"));
  Status done = stream->synchronize(soon());
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::lost);
  CHECK(device->free_bytes() == 0);
  CHECK(other->alive());
  fake_cuda::break_device(0, 0);
}

}  // namespace device_tests
