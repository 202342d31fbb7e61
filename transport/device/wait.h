// Waiting for a stream without the driver's own unbounded waits.
#pragma once
#include "base/clock.h"
#include "transport/device/device.h"

namespace collctl::transport {

// Until all that was queued on the stream is done: polls at once, repeatedly for a short
// while, then between short sleeps. The device's context is the calling thread's.
Status wait_for_stream(const Device& device, void* stream, Deadline deadline);

}  // namespace collctl::transport
