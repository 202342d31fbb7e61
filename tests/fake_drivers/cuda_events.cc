// Events mark places in streams; a capture records what would have been queued, in an order in
// which it can run, and graphs queue it again.
#include <algorithm>

#include "tests/fake_drivers/cuda_queue.h"

using namespace fake_cuda;

namespace {

thread_local double said_us = 0;  // of a stream's thread

std::shared_ptr<Event> find_event(void* event) {
  const std::scoped_lock lock(tables().mutex);
  const auto found = tables().events.find(event);
  return found == tables().events.end() ? nullptr : found->second;
}

}  // namespace

void fake_cuda::take_us(double us) {
  said_us += us;
}

extern "C" {

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
    event->gpu_us = said_us;
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
  const double said = b->gpu_us - a->gpu_us;
  *ms = said > 0 ? float(said / 1e3)
                 : std::chrono::duration<float, std::milli>(b->at - a->at).count();
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
