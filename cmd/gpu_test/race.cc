#include "cmd/gpu_test/race.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"

namespace collctl::cmd {
namespace {

using transport::DeviceEvent;

constexpr int kMostCopies = 1000;
constexpr size_t kLanesOfCopy = 8;  // so many are queued while one copy holds them back

struct LaneTimes {
  std::vector<DeviceEvent> begin, end;
};

// Microseconds of each lane.
Result<std::vector<double>> timed_lanes(const std::vector<Lane>& lanes, const LaneTimes& times,
                                        int count) {
  const Lane& first = lanes[0];
  for (size_t i = 0; i < 1 + lanes.size() / kLanesOfCopy; ++i) COLL_TRY(first.copy());
  COLL_ASSIGN(const DeviceEvent gate, DeviceEvent::make(*first.device, false));
  COLL_TRY(gate.record(first.stream->get()));
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (i > 0) COLL_TRY(lanes[i].stream->wait_for(gate));
    COLL_TRY(times.begin[i].record(lanes[i].stream->get()));
  }
  for (int c = 0; c < count; ++c)
    for (const Lane& lane : lanes) COLL_TRY(lane.copy());
  for (size_t i = 0; i < lanes.size(); ++i) COLL_TRY(times.end[i].record(lanes[i].stream->get()));
  const auto until = base::Deadline::after_seconds(kGpuTimeout);
  for (const Lane& lane : lanes) COLL_TRY(lane.stream->synchronize(until));
  std::vector<double> us;
  for (size_t i = 0; i < lanes.size(); ++i) {
    COLL_ASSIGN(const double took, times.end[i].us_since(times.begin[i]));
    if (took <= 0)
      return Error(ErrorCode::unavailable,
                   format("{}: its clock did not move during a copy", (*lanes[i].device)->text()));
    us.push_back(took);
  }
  return us;
}

}  // namespace

Result<std::vector<double>> race(const std::vector<Lane>& lanes, uint64_t bytes, double seconds) {
  LaneTimes times;
  for (const Lane& lane : lanes)
    for (auto* list : {&times.begin, &times.end}) {
      COLL_ASSIGN(DeviceEvent event, DeviceEvent::make(*lane.device, true));
      list->push_back(std::move(event));
    }
  COLL_ASSIGN(const std::vector<double> once, timed_lanes(lanes, times, 1));
  const double slowest_us = *std::ranges::max_element(once);
  const int count = int(std::clamp(seconds * 1e6 / slowest_us, 2.0, double(kMostCopies)));
  COLL_ASSIGN(std::vector<double> figures, timed_lanes(lanes, times, count));
  for (double& us : figures) us = double(bytes) * count / us / 1e3;
  return figures;
}

}  // namespace collctl::cmd
