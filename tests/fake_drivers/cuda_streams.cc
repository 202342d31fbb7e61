// Streams of the fake driver: each runs its queue on a thread of its own, in order.
#include "tests/fake_drivers/cuda_queue.h"

#include <cstring>
#include <initializer_list>
#include <thread>

namespace fake_cuda {
namespace {

void run(const std::shared_ptr<Stream>& stream) {
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(lock, [&] { return !stream->queue.empty() || stream->destroyed; });
    if (stream->queue.empty()) return;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->running = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    stream->running = false;
    stream->changed.notify_all();
  }
}

void wait_until_idle(Stream& stream) {
  std::unique_lock lock(stream.mutex);
  stream.changed.wait(lock, [&] { return stream.queue.empty() && !stream.running; });
}

// A range that a copy engine is told to use, as it was when it was told.
struct Range {
  unsigned long long at;
  size_t bytes;
  bool of_device;
  void* get() const { return reinterpret_cast<void*>(at); }
};
Range range(unsigned long long at, size_t bytes) {
  const std::scoped_lock lock(world().mutex);
  return {at, bytes, is_of_device(reinterpret_cast<void*>(at))};
}

// An operation's work when its turn comes: memory that went away meanwhile is a fault of the
// device. Under the lock, so that none goes while it is at it.
template <class Move>
void touch(int ordinal, std::initializer_list<Range> ranges, Move move) {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  for (const Range& r : ranges)
    if (r.of_device && !(is_of_device(r.get()) && may_use(ordinal, r.get(), r.bytes))) {
      w.contexts[ordinal].broken = kIllegalAddress;
      return;
    }
  move();
}

bool usable(const Stream& stream, const Range& r) {
  const std::scoped_lock lock(world().mutex);
  return may_use(stream.ordinal, r.get(), r.bytes);
}
bool pageable(unsigned long long at) {
  const std::scoped_lock lock(world().mutex);
  return is_pageable(reinterpret_cast<void*>(at));
}

}  // namespace

std::mutex& events_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}
std::condition_variable& events_changed() {
  static auto* changed = new std::condition_variable();
  return *changed;
}
std::mutex& captures_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

Tables& tables() {
  static auto* instance = new Tables();
  return *instance;
}

std::shared_ptr<Stream> find_stream(void* stream) {
  const std::scoped_lock lock(tables().mutex);
  const auto found = tables().streams.find(stream);
  return found == tables().streams.end() ? nullptr : found->second;
}

void queue_now(Stream& stream, Work work) {
  const std::scoped_lock lock(stream.mutex);
  stream.queue.push_back(std::move(work));
  stream.changed.notify_all();
}

int submit(Stream& stream, Work work) {
  {
    const std::scoped_lock lock(captures_mutex());
    if (stream.capture != nullptr) {
      if (stream.capture->invalid) return kCaptureInvalidated;
      stream.capture->works.push_back(std::move(work));
      if (const auto own = stream.capture->joined.find(&stream);
          own != stream.capture->joined.end())
        own->second = false;
      return kOk;
    }
  }
  queue_now(stream, std::move(work));
  return kOk;
}

bool capturing(Stream& stream) {
  const std::scoped_lock lock(captures_mutex());
  return stream.capture != nullptr;
}

int stream_entry(const char* function, void* handle, std::shared_ptr<Stream>& stream) {
  if (const int code = entry(function); code != kOk) return code;
  stream = find_stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  const std::scoped_lock lock(world().mutex);
  return world().contexts[stream->ordinal].broken;
}

void count_streams(Counts& counts) {
  const std::scoped_lock lock(tables().mutex);
  counts.streams = int(tables().streams.size());
  counts.events = int(tables().events.size());
  counts.graphs = tables().graphs;
}

int enqueue(void* handle, std::function<void()> work) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("enqueue", handle, stream); code != kOk) return code;
  const std::scoped_lock kept(full_queue());
  {
    std::unique_lock lock(stream->mutex);
    stream->changed.wait(lock, [&] { return stream->queue.size() < kQueueDepth; });
  }
  return submit(*stream, std::move(work));
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

int cuStreamCreate(void** handle, unsigned) {
  if (const int code = entry("cuStreamCreate"); code != kOk) return code;
  auto stream = std::make_shared<Stream>();
  stream->ordinal = current()->ordinal;
  *handle = stream.get();
  const std::scoped_lock lock(tables().mutex);
  tables().streams[stream.get()] = stream;
  std::thread([stream] { run(stream); }).detach();
  return kOk;
}
int cuStreamDestroy_v2(void* handle) {
  std::shared_ptr<Stream> stream = find_stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  {
    const std::scoped_lock lock(tables().mutex);
    tables().streams.erase(handle);
  }
  // Nothing runs on a device that has broken; here what runs is a thread, which ends by itself.
  bool broken = false;
  {
    const std::scoped_lock lock(world().mutex);
    broken = world().contexts[stream->ordinal].broken != kOk;
  }
  if (broken) wait_until_idle(*stream);
  const std::scoped_lock lock(stream->mutex);
  stream->destroyed = true;
  stream->changed.notify_all();
  return kOk;
}
int cuStreamQuery(void* handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuStreamQuery", handle, stream); code != kOk) return code;
  {
    const std::scoped_lock lock(captures_mutex());
    if (stream->capture != nullptr) {
      stream->capture->invalid = true;
      return kCaptureUnsupported;
    }
  }
  const std::scoped_lock lock(stream->mutex);
  return stream->queue.empty() && !stream->running ? kOk : kNotReady;
}

namespace {

// Small pieces are read as a copy engine does, while kernels write there: who asks for that must
// cope with what it gets, and the thread sanitizer is not to take it for a mistake of threads.
constexpr size_t kMostWatched = 4096;
[[gnu::noinline, gnu::no_sanitize("thread")]] void copy_as_engine(void* to, const void* from,
                                                                  size_t bytes) {
  auto* out = static_cast<volatile uint8_t*>(to);
  const auto* in = static_cast<const volatile uint8_t*>(from);
  for (size_t i = 0; i < bytes; ++i) out[i] = in[i];
}

}  // namespace

int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuMemcpyAsync", handle, stream); code != kOk) return code;
  const Range target = range(to, bytes), source = range(from, bytes);
  if (!usable(*stream, target) || !usable(*stream, source)) return kInvalidValue;
  const int code = submit(*stream, [=, ordinal = stream->ordinal] {
    touch(ordinal, {target, source}, [=] {
      if (source.of_device && !target.of_device && bytes <= kMostWatched)
        copy_as_engine(target.get(), source.get(), bytes);
      else
        std::memmove(target.get(), source.get(), bytes);
    });
  });
  // Pageable memory is the caller's again when the call returns.
  if (code == kOk && (pageable(to) || pageable(from)) && !capturing(*stream))
    wait_until_idle(*stream);
  return code;
}
int cuMemsetD8Async(unsigned long long at, unsigned char value, size_t bytes, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuMemsetD8Async", handle, stream); code != kOk) return code;
  const Range target = range(at, bytes);
  if (!usable(*stream, target) || pageable(at)) return kInvalidValue;
  return submit(*stream, [=, ordinal = stream->ordinal] {
    touch(ordinal, {target}, [=] { std::memset(target.get(), value, bytes); });
  });
}
}
