#include "transport/net/ib/trouble.h"

#include "base/clock.h"

namespace collctl::transport {

std::optional<Error> port_trouble(const IbPort& port, const IbLaneName& lane,
                                  const IbSettings& settings, bool& down) {
  if (const int event = port.device->fatal_event(); event >= 0)
    return ib_qp_event_error(lane, event);
  const int64_t since = port.down_ns.load(std::memory_order_acquire);
  if (since == 0) return std::nullopt;
  down = true;
  const double seconds = double(base::now_ns() - since) * 1e-9;
  if (seconds < settings.port_down_s) return std::nullopt;
  return ib_port_down_error(lane, seconds);
}

// The status is all that is valid besides the id. A flush is an echo: an event may know more.
Error completion_error(const IbPort& port, const IbLaneName& lane, const IbFailure& failure,
                       const IbSettings& settings) {
  const int event = port.device->event_of(lane.qp);
  return failure.status == base::drivers::kWorkFlushed && event >= 0
             ? ib_qp_event_error(lane, event)
             : ib_work_error(lane, failure, settings);
}

}  // namespace collctl::transport
