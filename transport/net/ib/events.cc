// The thread that watches asynchronous events of RDMA devices (devices.h).
#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "transport/net/ib/devices.h"
#include "transport/net/ib/errors.h"

namespace collctl::transport {

using namespace base::drivers;

Status IbDevices::start_watch() {
  COLL_ASSIGN(stop_, base::make_bell());
  watcher_ = std::thread([this] { watch(); });
  return {};
}

IbDevices::~IbDevices() {
  stopping_.store(true, std::memory_order_release);
  if (watcher_.joinable()) {
    base::ring_bell(stop_.get());
    watcher_.join();
  }
}

void IbDevices::watch() {
  constexpr double kLookSeconds = 10;  // the bell ends it earlier
  // While a port is down its connections sleep, and rely on being woken when they may fail.
  constexpr double kDownSeconds = 0.05;
  std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}};
  for (const auto& device : devices_) fds.push_back({device->context()->async_fd, POLLIN, 0});
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool down = std::any_of(ports_.begin(), ports_.end(), [](const auto& port) {
      return port->down_ns.load(std::memory_order_acquire) != 0;
    });
    if (down) ring_bells();
    const auto ready =
        base::poll_fds(fds, Deadline::after_seconds(down ? kDownSeconds : kLookSeconds));
    if (!ready) {
      COLL_WARN("NET/IB : no longer watching the devices' events: {}", ready.error().chain());
      return;
    }
    for (size_t i = 0; i < devices_.size(); ++i) {
      if ((fds[i + 1].revents & POLLIN) == 0) {
        // A device that is gone would be ready for ever.
        if (fds[i + 1].revents != 0) fds[i + 1].fd = -1;
        continue;
      }
      VerbsEvent event{};
      while (verbs().get_event(devices_[i]->context(), &event) == 0) {
        handle(*devices_[i], event);
        verbs().ack_event(&event);
      }
    }
  }
}

// The object that an event names lives until the event is acknowledged.
void IbDevices::handle(IbDevice& device, const VerbsEvent& event) {
  switch (event.type) {
    case kEventCqError: {
      const std::scoped_lock lock(device.mutex_);
      device.cq_failures_.insert(event.cq);
      break;
    }
    case kEventQpFatal:
    case kEventQpRequest:
    case kEventQpAccess: {
      const std::scoped_lock lock(device.mutex_);
      device.qp_events_[event.qp->number] = event.type;
      break;
    }
    case kEventDeviceFatal:
      device.fatal_.store(event.type, std::memory_order_release);
      break;
    case kEventPortError:
    case kEventPortActive:
    case kEventLid:
    case kEventKeys:
    case kEventGids:
      port_event(device, event.port, event.type);
      break;
    default:
      COLL_INFO(net, "NET/IB : {}: {}", device.name(), ib_event_text(event.type));
      return;
  }
  events_.fetch_add(1, std::memory_order_acq_rel);
  ring_bells();
}

void IbDevices::ring_bells() {
  const std::scoped_lock lock(bells_mutex_);
  for (const int fd : bells_) base::ring_bell(fd);
}

void IbDevices::port_event(IbDevice& device, int number, int type) {
  for (const auto& port : ports_) {
    if (port->device != &device || port->number != number) continue;
    if (type == kEventPortError) {
      int64_t up = 0;
      port->down_ns.compare_exchange_strong(up, now_ns(), std::memory_order_acq_rel);
    }
    const bool was_down =
        type == kEventPortActive && port->down_ns.exchange(0, std::memory_order_acq_rel) != 0;
    if (type == kEventPortError || was_down) {
      COLL_WARN("NET/IB : {} {}", port->text(), ib_event_text(type));
    } else {
      COLL_INFO(net, "NET/IB : {} {}", port->text(), ib_event_text(type));
    }
  }
}

}  // namespace collctl::transport
