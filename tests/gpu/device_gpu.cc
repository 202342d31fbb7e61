// GPUs as ranks use them (transport/device) and P2P's memory, by the real driver: what the unit
// tests hold over the fake one. Exits 77 with the reason where there is no GPU.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/wait.h"
#include "transport/device/device.h"
#include "transport/peer.h"

using namespace collctl;
using namespace collctl::transport;

namespace {

constexpr uint64_t kBytes = 3u << 20;
int failures = 0;

void check(bool right, const char* what) {
  std::printf("%s: %s\n", right ? "ok" : "FAILED", what);
  failures += right ? 0 : 1;
}

// The value, or the end of the test with the error's sentence.
template <class T>
T need(Result<T> result, const char* what) {
  if (result) return std::move(result).value();
  std::printf("FAILED: %s: %s (%s)\n", what, result.error().chain().c_str(),
              result.error().hint.c_str());
  std::exit(1);
}
void need(const Status& status, const char* what) {
  if (status) return;
  std::printf("FAILED: %s: %s\n", what, status.error().chain().c_str());
  std::exit(1);
}

Deadline soon() {
  return Deadline::after_seconds(20);
}

std::vector<uint8_t> bytes_of(const DevicePointer& device, const uint8_t* from, uint64_t bytes) {
  const PinnedMemory host = need(PinnedMemory::make(device, bytes), "pinned memory");
  const DeviceStream stream = need(DeviceStream::make(device), "a stream");
  need(stream.copy(host.data(), from, bytes), "copy to the host");
  need(stream.synchronize(soon()), "wait");
  return {host.data(), host.data() + bytes};
}

bool all(const std::vector<uint8_t>& bytes, uint8_t value) {
  for (const uint8_t byte : bytes)
    if (byte != value) return false;
  return true;
}

void fill(const DevicePointer& device, uint8_t* at, uint8_t value) {
  const DeviceStream stream = need(DeviceStream::make(device), "a stream");
  need(stream.fill(at, value, kBytes), "fill");
  need(stream.synchronize(soon()), "wait");
}

void test_one(const DevicePointer& device) {
  const DeviceFacts& facts = device->facts();
  std::printf("%s %s, compute capability %d, %d multiprocessors, %llu MiB, descriptors %d\n",
              device->text().c_str(), facts.name.c_str(), facts.compute_capability,
              facts.multiprocessors, static_cast<unsigned long long>(facts.memory_bytes >> 20),
              int(facts.fd_handles));
  check(bool(device->alive()), "it is alive");
  const uint64_t before = device->free_bytes();
  check(before > 0 && before <= facts.memory_bytes, "it says how much is free");
  for (const bool shared : {false, true}) {
    if (shared && !facts.fd_handles) continue;
    const DeviceMemory memory = need(DeviceMemory::make(device, kBytes, shared), "memory");
    check(all(bytes_of(device, memory.data(), kBytes), 0), "memory is zeroed");
    fill(device, memory.data(), 7);
    check(all(bytes_of(device, memory.data(), kBytes), 7), "fill and copy");
  }
  auto too_much = DeviceMemory::make(device, facts.memory_bytes * 2, false);
  check(!too_much && too_much.error().code == ErrorCode::unavailable, "too much is refused");
  if (!too_much) std::printf("  %s\n", too_much.error().chain().c_str());
  void* block = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const base::Mapping mapping(block, 1 << 20);
  const PinnedMemory pinned = need(PinnedMemory::over(device, block, 1 << 20), "pin");
  const DeviceMemory memory = need(DeviceMemory::make(device, 1 << 20, false), "memory");
  std::memset(block, 5, 1 << 20);
  const DeviceStream stream = need(DeviceStream::make(device), "a stream");
  need(stream.copy(memory.data(), block, 1 << 20), "copy from pinned memory");
  need(stream.synchronize(soon()), "wait");
  check(all(bytes_of(device, memory.data(), 1 << 20), 5), "shared memory is pinned in place");
}

void test_streams(const DevicePointer& device) {
  const DeviceStream first = need(DeviceStream::make(device), "a stream");
  const DeviceStream second = need(DeviceStream::make(device), "a stream");
  const DeviceEvent start = need(DeviceEvent::make(device, true), "an event");
  const DeviceEvent end = need(DeviceEvent::make(device, true), "an event");
  const DeviceEvent order = need(DeviceEvent::make(device, false), "an event");
  const DeviceMemory memory = need(DeviceMemory::make(device, kBytes, false), "memory");
  need(start.record(first.get()), "record");
  for (int i = 0; i < 100; ++i) need(first.fill(memory.data(), uint8_t(i), kBytes), "fill");
  need(order.record(first.get()), "record");
  need(second.wait_for(order), "wait for an event");
  need(second.fill(memory.data(), 123, kBytes), "fill");
  need(end.record(second.get()), "record");
  need(second.synchronize(soon()), "wait");
  check(need(first.idle(), "idle") && need(order.done(), "done"), "all is done in order");
  check(all(bytes_of(device, memory.data(), kBytes), 123), "the last write is the last");
  const double us = need(end.us_since(start), "time");
  std::printf("  101 fills of 3 MiB took %.0f us\n", us);
  check(us > 0, "events tell time");

  need(DeviceGraph::begin(device, first.get()), "capture");
  need(first.fill(memory.data(), 50, kBytes), "fill");
  need(order.record(first.get()), "record");
  need(second.wait_for(order), "fork");
  need(second.fill(memory.data(), 51, kBytes), "fill");
  need(order.record(second.get()), "record");
  need(first.wait_for(order), "join");
  // Memory and links that are made meanwhile are not part of the graph.
  const DeviceMemory other = need(DeviceMemory::make(device, kBytes, device->facts().fd_handles),
                                  "memory while capturing");
  const DeviceGraph graph = need(DeviceGraph::end(device, first.get()), "end of capture");
  check(all(bytes_of(device, memory.data(), kBytes), 123), "a capture runs nothing");
  for (int i = 0; i < 3; ++i) need(graph.launch(first.get()), "launch");
  need(first.synchronize(soon()), "wait");
  check(all(bytes_of(device, memory.data(), kBytes), 51), "a graph runs what was captured");
}

void test_pair(const DevicePointer& a, const DevicePointer& b) {
  auto reaches = a->reaches(*b);
  if (!reaches) {
    std::printf("not tested: %s\n", reaches.error().chain().c_str());
    return;
  }
  PeerInfo peer;
  peer.bus_id = b->facts().bus_number;
  std::memcpy(peer.device_uuid, b->facts().uuid.data(), sizeof peer.device_uuid);
  check(bool(a->reaches(peer)), "a peer is found by its bus");
  if (a->facts().fd_handles) {
    const DeviceMemory own = need(DeviceMemory::make(a, kBytes, true), "shared memory");
    const base::Fd fd = need(own.export_fd(), "a descriptor");
    const DeviceMemory seen = need(DeviceMemory::import(b, fd.get(), kBytes), "import");
    fill(b, seen.data(), 21);
    check(all(bytes_of(a, own.data(), kBytes), 21), "a descriptor is the same memory");
    need(own.allow(*b), "allow a peer");
    fill(b, own.data(), 22);
    check(all(bytes_of(a, own.data(), kBytes), 22), "a peer may use the pointer itself");
    check(all(bytes_of(a, own.data(), kBytes), 22), "and the owner still may");
    FlatMemory flat = need(FlatMemory::reserve(b, 2, kBytes), "addresses");
    const DeviceMemory of_b = need(DeviceMemory::make(b, kBytes, true), "shared memory");
    need(flat.map_fd(0, fd.get(), kBytes), "map a peer's");
    need(flat.map(1, of_b), "map the own");
    fill(b, flat.data(), 23);
    fill(b, flat.data() + flat.stride(), 24);
    check(all(bytes_of(a, own.data(), kBytes), 23) && all(bytes_of(b, of_b.data(), kBytes), 24),
          "memories lie side by side");
  }
  const DeviceMemory plain = need(DeviceMemory::make(a, kBytes, false), "memory");
  need(plain.allow(*b), "peer access");
  fill(b, plain.data(), 25);
  check(all(bytes_of(a, plain.data(), kBytes), 25), "plain memory of a peer");
}

// In a process of its own: fills memory of the parent that it knows by name.
int fill_by_name(int in) {
  IpcName name;
  if (::read(in, &name, sizeof name) != ssize_t(sizeof name)) return 2;
  const int count = need(Device::count(), "GPUs");
  const DevicePointer device = need(Device::open(count - 1), "open");
  const DeviceMemory seen = need(DeviceMemory::import_ipc(device, name, kBytes), "open by name");
  fill(device, seen.data(), 31);
  return 0;
}

void test_names(const DevicePointer& device, int to_child, pid_t child) {
  const DeviceMemory memory = need(DeviceMemory::make(device, kBytes, false), "memory");
  const IpcName name = need(memory.export_ipc(), "a name");
  const bool sent = ::write(to_child, &name, sizeof name) == ssize_t(sizeof name);
  int status = 0;
  const Deadline deadline = Deadline::after_seconds(60);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (deadline.passed()) ::kill(child, SIGKILL);
    base::sleep_until(Deadline::after_ms(5));
  }
  check(sent && WIFEXITED(status) && WEXITSTATUS(status) == 0, "another process opens a name");
  check(all(bytes_of(device, memory.data(), kBytes), 31), "and it is the same memory");
}

}  // namespace

int main() {
  // The child is made before the driver is: a context does not survive a fork.
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    ::_exit(fill_by_name(ends[0]));
  }
  ::close(ends[0]);
  auto count = Device::count();
  if (!count || *count == 0) {
    ::close(ends[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    std::printf("skipped: %s\n", count ? "no GPU" : count.error().chain().c_str());
    return 77;
  }
  std::vector<DevicePointer> devices;
  for (int i = 0; i < *count; ++i) devices.push_back(need(Device::open(i), "open"));
  for (const DevicePointer& device : devices) test_one(device);
  test_streams(devices[0]);
  for (size_t i = 1; i < devices.size(); ++i) test_pair(devices[0], devices[i]);
  test_names(devices[0], ends[1], child);
  ::close(ends[1]);
  std::printf("%s\n", failures == 0 ? "passed" : "FAILED");
  return failures == 0 ? 0 : 1;
}
