// Streams of the fake driver: each runs its queue on a thread of its own, in order. Events mark
// places in them; a capture records what would have been queued, in an order in which it can run.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <thread>

#include "tests/fake_drivers/cuda_world.h"

namespace fake_cuda {
namespace {

using Work = std::function<void()>;
struct Stream;

struct Capture {
  std::vector<Work> works;
  const Stream* origin = nullptr;
  bool invalid = false;
  // Other streams that were drawn in, and whether the capture has waited for all they have.
  std::map<const Stream*, bool> joined;
};

// Shared with its thread, which ends when the stream was destroyed and its queue is empty.
struct Stream {
  int ordinal = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool running = false, destroyed = false;
  std::shared_ptr<Capture> capture;  // under captures_mutex()
};

struct Event {
  int ordinal = 0;
  bool timed = true;
  // Under events_mutex().
  uint64_t recorded = 0, completed = 0;
  std::chrono::steady_clock::time_point at;
  std::weak_ptr<Capture> capture;  // of the last record, when that was captured
  const Stream* captured_on = nullptr;
};

struct Graph {
  std::vector<Work> works;
};

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

struct Tables {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  int graphs = 0;  // and executables
};
Tables& tables() {
  static auto* instance = new Tables();
  return *instance;
}

std::shared_ptr<Stream> find_stream(void* stream) {
  const std::scoped_lock lock(tables().mutex);
  const auto found = tables().streams.find(stream);
  return found == tables().streams.end() ? nullptr : found->second;
}
std::shared_ptr<Event> find_event(void* event) {
  const std::scoped_lock lock(tables().mutex);
  const auto found = tables().events.find(event);
  return found == tables().events.end() ? nullptr : found->second;
}

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

void queue_now(Stream& stream, Work work) {
  const std::scoped_lock lock(stream.mutex);
  stream.queue.push_back(std::move(work));
  stream.changed.notify_all();
}

// Queues, or records while the stream captures.
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

void wait_until_idle(Stream& stream) {
  std::unique_lock lock(stream.mutex);
  stream.changed.wait(lock, [&] { return stream.queue.empty() && !stream.running; });
}

// The device's context, injected failures, the stream itself.
int stream_entry(const char* function, void* handle, std::shared_ptr<Stream>& stream) {
  if (const int code = entry(function); code != kOk) return code;
  stream = find_stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  const std::scoped_lock lock(world().mutex);
  return world().contexts[stream->ordinal].broken;
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

// What it does when its turn comes: memory that went away meanwhile is a fault of the device. Under
// the lock, so that none goes while it is at it.
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

void count_streams(Counts& counts) {
  const std::scoped_lock lock(tables().mutex);
  counts.streams = int(tables().streams.size());
  counts.events = int(tables().events.size());
  counts.graphs = tables().graphs;
}

int enqueue(void* handle, std::function<void()> work) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("enqueue", handle, stream); code != kOk) return code;
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

int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuMemcpyAsync", handle, stream); code != kOk) return code;
  const Range target = range(to, bytes), source = range(from, bytes);
  if (!usable(*stream, target) || !usable(*stream, source)) return kInvalidValue;
  const int code = submit(*stream, [=, ordinal = stream->ordinal] {
    touch(ordinal, {target, source}, [=] { std::memmove(target.get(), source.get(), bytes); });
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

// --- events ---

int cuEventCreate(void** handle, unsigned flags) {
  if (const int code = entry("cuEventCreate"); code != kOk) return code;
  auto event = std::make_shared<Event>();
  event->ordinal = current()->ordinal;
  event->timed = (flags & 2) == 0;
  *handle = event.get();
  const std::scoped_lock lock(tables().mutex);
  tables().events[event.get()] = event;
  return kOk;
}
int cuEventDestroy_v2(void* handle) {
  const std::scoped_lock lock(tables().mutex);
  return tables().events.erase(handle) == 1 ? kOk : kInvalidHandle;
}
int cuEventRecord(void* handle, void* on) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuEventRecord", on, stream); code != kOk) return code;
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr || event->ordinal != stream->ordinal) return kInvalidHandle;
  {
    const std::scoped_lock lock(captures_mutex(), events_mutex());
    event->capture = stream->capture;
    event->captured_on = stream.get();
    if (stream->capture != nullptr) return stream->capture->invalid ? kCaptureInvalidated : kOk;
  }
  uint64_t mark = 0;
  {
    const std::scoped_lock lock(events_mutex());
    mark = ++event->recorded;
  }
  return submit(*stream, [event, mark] {
    const std::scoped_lock lock(events_mutex());
    event->completed = std::max(event->completed, mark);
    event->at = std::chrono::steady_clock::now();
    events_changed().notify_all();
  });
}
int cuEventQuery(void* handle) {
  if (const int code = entry("cuEventQuery"); code != kOk) return code;
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr) return kInvalidHandle;
  const std::scoped_lock lock(events_mutex());
  if (event->capture.lock() != nullptr) return kCapturedEvent;
  return event->completed == event->recorded ? kOk : kNotReady;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  if (const int code = entry("cuEventElapsedTime"); code != kOk) return code;
  const std::shared_ptr<Event> a = find_event(from), b = find_event(to);
  if (a == nullptr || b == nullptr || !a->timed || !b->timed) return kInvalidHandle;
  const std::scoped_lock lock(events_mutex());
  if (a->recorded == 0 || b->recorded == 0) return kInvalidHandle;
  if (a->completed != a->recorded || b->completed != b->recorded) return kNotReady;
  *ms = std::chrono::duration<float, std::milli>(b->at - a->at).count();
  return kOk;
}
int cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuStreamWaitEvent", handle, stream); code != kOk) return code;
  const std::shared_ptr<Event> event = find_event(event_handle);
  if (event == nullptr) return kInvalidHandle;
  uint64_t mark = 0;
  {
    const std::scoped_lock lock(captures_mutex(), events_mutex());
    const std::shared_ptr<Capture> capture = event->capture.lock();
    if (capture != nullptr) {
      if (stream->capture == nullptr) {
        stream->capture = capture;
        capture->joined[stream.get()] = true;
      } else if (stream->capture != capture) {
        return kCaptureMerge;
      }
      if (const auto from = capture->joined.find(event->captured_on);
          from != capture->joined.end() && event->captured_on != stream.get())
        from->second = true;
      return kOk;
    }
    if (stream->capture != nullptr) {
      if (event->recorded == 0) return kOk;  // nothing to wait for
      stream->capture->invalid = true;
      return kCaptureIsolation;
    }
    mark = event->recorded;
  }
  return submit(*stream, [event, mark] {
    std::unique_lock lock(events_mutex());
    events_changed().wait(lock, [&] { return event->completed >= mark; });
  });
}

// --- graphs ---

int cuStreamBeginCapture_v2(void* handle, int) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuStreamBeginCapture_v2", handle, stream); code != kOk)
    return code;
  const std::scoped_lock lock(captures_mutex());
  if (stream->capture != nullptr) return kCaptureInvalidated;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream.get();
  return kOk;
}
int cuStreamEndCapture(void* handle, void** graph) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuStreamEndCapture", handle, stream); code != kOk) return code;
  const std::scoped_lock both(captures_mutex(), tables().mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return kInvalidValue;
  if (capture->origin != stream.get()) return kCaptureUnmatched;
  stream->capture.reset();
  bool unjoined = false;
  for (const auto& [other, clean] : capture->joined) {
    unjoined |= !clean;
    if (const auto found = tables().streams.find(const_cast<Stream*>(other));
        found != tables().streams.end())
      found->second->capture.reset();
  }
  if (capture->invalid) return kCaptureInvalidated;
  if (unjoined) return kCaptureUnjoined;
  ++tables().graphs;
  *graph = new Graph{std::move(capture->works)};
  return kOk;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const int code = entry("cuGraphInstantiateWithFlags"); code != kOk) return code;
  const std::scoped_lock lock(tables().mutex);
  ++tables().graphs;
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kOk;
}
int cuGraphLaunch(void* executable, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const int code = stream_entry("cuGraphLaunch", handle, stream); code != kOk) return code;
  if (capturing(*stream)) return kCaptureUnsupported;
  for (const Work& work : static_cast<Graph*>(executable)->works) queue_now(*stream, work);
  return kOk;
}
int cuGraphExecDestroy(void* executable) {
  const std::scoped_lock lock(tables().mutex);
  --tables().graphs;
  delete static_cast<Graph*>(executable);
  return kOk;
}
int cuGraphDestroy(void* graph) {
  return cuGraphExecDestroy(graph);
}
}
