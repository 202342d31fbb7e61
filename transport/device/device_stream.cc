// Streams, events and graphs.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/wait.h"
#include "transport/device/device.h"
#include "transport/device/driver.h"
#include "transport/device/wait.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

// A look costs about a microsecond; small operations end within the first ones.
constexpr int64_t kSpinNs = 50'000;
constexpr int64_t kFirstSleepNs = 10'000, kLongestSleepNs = 500'000;

// Ready, not ready, or an error.
Result<bool> readiness(const Device& device, std::string_view what, int code) {
  if (code == kCudaSuccess) return true;
  if (code == kCudaNotReady) return false;
  return driver_error(device.text(), what, code);
}

}  // namespace

Status wait_for_stream(const Device& device, void* stream, Deadline deadline) {
  const int64_t began = now_ns();
  int64_t sleep_ns = kFirstSleepNs;
  while (true) {
    COLL_ASSIGN(const bool idle,
                readiness(device, "wait for its stream", cuda().stream_query(stream)));
    if (idle) return {};
    if (deadline.passed())
      return Error(ErrorCode::deadline,
                   format("waits for {}: the work queued there has not finished", device.text()),
                   "see nvidia-smi: is it busy with something else, or not responding?");
    if (now_ns() - began < kSpinNs) continue;
    base::sleep_until(deadline.earlier(Deadline::after_ns(sleep_ns)));
    sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs);
  }
}

// --- streams ---

Result<DeviceStream> DeviceStream::make(DevicePointer device) {
  COLL_TRY(device->use());
  DeviceStream stream;
  COLL_TRY(driver_status(*device, "create a stream",
                         cuda().stream_create(&stream.stream_, kCudaStreamNonBlocking)));
  stream.device_ = std::move(device);
  return stream;
}

DeviceStream::DeviceStream(DeviceStream&& other) noexcept
    : device_(std::move(other.device_)), stream_(std::exchange(other.stream_, nullptr)) {}

DeviceStream& DeviceStream::operator=(DeviceStream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  return *this;
}

DeviceStream::~DeviceStream() {
  if (stream_ != nullptr && device_->use()) cuda().stream_destroy(stream_);
}

Result<bool> DeviceStream::idle() const {
  COLL_TRY(device_->use());
  return readiness(*device_, "query its stream", cuda().stream_query(stream_));
}

Status DeviceStream::synchronize(Deadline deadline) const {
  COLL_TRY(device_->use());
  return wait_for_stream(*device_, stream_, deadline);
}

Status DeviceStream::copy(void* to, const void* from, uint64_t bytes) const {
  if (bytes == 0) return {};
  COLL_TRY(device_->use());
  return driver_status(*device_, format("copy {} bytes", bytes),
                       cuda().copy(address_of(to), address_of(from), bytes, stream_));
}

Status DeviceStream::fill(void* to, uint8_t value, uint64_t bytes) const {
  if (bytes == 0) return {};
  COLL_TRY(device_->use());
  return driver_status(*device_, format("fill {} bytes", bytes),
                       cuda().fill(address_of(to), value, bytes, stream_));
}

Status DeviceStream::wait_for(const DeviceEvent& event) const {
  COLL_TRY(device_->use());
  return driver_status(*device_, "wait for an event",
                       cuda().stream_wait_event(stream_, event.get(), 0));
}

// --- events ---

Result<DeviceEvent> DeviceEvent::make(DevicePointer device, bool timed) {
  COLL_TRY(device->use());
  DeviceEvent event;
  COLL_TRY(driver_status(*device, "create an event",
                         cuda().event_create(&event.event_, timed ? 0 : kCudaEventUntimed)));
  event.device_ = std::move(device);
  return event;
}

DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept
    : device_(std::move(other.device_)), event_(std::exchange(other.event_, nullptr)) {}

DeviceEvent& DeviceEvent::operator=(DeviceEvent&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  return *this;
}

DeviceEvent::~DeviceEvent() {
  if (event_ != nullptr && device_->use()) cuda().event_destroy(event_);
}

Status DeviceEvent::record(void* stream) const {
  COLL_TRY(device_->use());
  return driver_status(*device_, "record an event", cuda().event_record(event_, stream));
}

Result<bool> DeviceEvent::done() const {
  COLL_TRY(device_->use());
  return readiness(*device_, "query an event", cuda().event_query(event_));
}

Result<double> DeviceEvent::us_since(const DeviceEvent& earlier) const {
  COLL_TRY(device_->use());
  float ms = 0;
  COLL_TRY(driver_status(*device_, "read the time between events",
                         cuda().event_elapsed(&ms, earlier.event_, event_)));
  return double(ms) * 1e3;
}

// --- graphs ---

// Relaxed: what else this thread does meanwhile (the memory of a link that is used first) is meant
// and not part of the graph.
Status DeviceGraph::begin(const DevicePointer& device, void* stream) {
  COLL_TRY(device->use());
  return driver_status(*device, "begin to capture a graph",
                       cuda().begin_capture(stream, kCudaCaptureRelaxed));
}

Result<DeviceGraph> DeviceGraph::end(const DevicePointer& device, void* stream) {
  COLL_TRY(device->use());
  const Cuda& api = cuda();
  CudaGraph graph = nullptr;
  COLL_TRY(driver_status(*device, "capture a graph", api.end_capture(stream, &graph)));
  DeviceGraph made;
  const int code = api.instantiate(&made.executable_, graph, 0);
  api.graph_destroy(graph);
  COLL_TRY(driver_status(*device, "instantiate a graph", code));
  made.device_ = device;
  return made;
}

DeviceGraph::DeviceGraph(DeviceGraph&& other) noexcept
    : device_(std::move(other.device_)), executable_(std::exchange(other.executable_, nullptr)) {}

DeviceGraph& DeviceGraph::operator=(DeviceGraph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(executable_, other.executable_);
  return *this;
}

DeviceGraph::~DeviceGraph() {
  if (executable_ != nullptr && device_->use()) cuda().executable_destroy(executable_);
}

Status DeviceGraph::launch(void* stream) const {
  COLL_TRY(device_->use());
  return driver_status(*device_, "launch a graph", cuda().graph_launch(executable_, stream));
}

}  // namespace collctl::transport
