#include "transport/net/ib/errors.h"

#include "base/drivers/verbs.h"
#include "base/format.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

struct Words {
  const char* name;  // rdma-core's
  const char* cause;
  const char* check;  // null: retry_check()
};

constexpr const char* kBug =
    "this is a bug in collctl or in the adapter: please report it with the log of "
    "COLLCTL_DEBUG=INFO on both hosts";
constexpr const char* kKeys =
    "did a process on the other end's host unmap or free memory while the job ran? see "
    "the "
    "first error of that rank, and dmesg there";

// In the order of the statuses' numbers.
constexpr Words kWords[] = {
    {"success", "nothing is wrong", ""},
    {"local length error", "a message was longer than the adapter or the receive allows", kBug},
    {"local QP operation error", "the adapter refused the request", kBug},
    {"local EE context operation error", "the adapter refused the request", kBug},
    {"local protection error", "the adapter may no longer access the memory of the message",
     "did this process unmap or free it? GPU memory: did the driver reclaim it (dmesg)?"},
    {"work request flushed", "the connection had failed before",
     "an earlier message, or the other end's, says why"},
    {"memory management operation error", "a memory window could not be bound", kBug},
    {"bad response error", "the other end sent an invalid response",
     "check firmware and driver of both adapters (ethtool -i, ibv_devinfo), and for cables or "
     "switches that "
     "corrupt packets"},
    {"local access error", "incoming data may not be written to its destination",
     "did this process unmap or free its buffers? see dmesg"},
    {"remote invalid request error", "the other end's adapter refused the request",
     "do both ends run the same collctl and settings? is the message larger than the other port "
     "supports (max_msg_sz in ibv_devinfo -v)?"},
    {"remote access error",
     "the other end's memory may not be written: its key is revoked or the range is wrong", kKeys},
    {"remote operation error", "the other end's adapter could not execute it",
     "dmesg on the other host"},
    {"transport retry counter exceeded", "no answer from the other end", nullptr},
    {"RNR retry counter exceeded", "the other end had no receive posted for the message", kBug},
    {"local RDD violation error", "the adapter refused the request", kBug},
    {"remote invalid RD request", "the other end refused the request", kBug},
    {"operation aborted by the other end", "the other end aborted the operation",
     "dmesg on the other host"},
    {"invalid EE context number", "the adapter refused the request", kBug},
    {"invalid EE context state", "the adapter refused the request", kBug},
    {"fatal error", "the adapter failed", "dmesg on this host; the adapter may need a reset"},
    {"response timeout", "the other end did not answer in time",
     "is the other host under heavy load, or paused?"},
    {"general error", "the adapter gives no reason", "dmesg on this host"},
    {"tag matching error", "the adapter refused the request", kBug},
    {"tag matching rendezvous incomplete", "the adapter refused the request", kBug}};
static_assert(sizeof kWords / sizeof kWords[0] == size_t(kWorkStatusCount));

const Words& words_of(int status) {
  static constexpr Words kElse = {"unknown status", "the adapter reports an unknown status", kBug};
  return status >= 0 && status < kWorkStatusCount ? kWords[status] : kElse;
}

constexpr int kRetryExceeded = 12;

// Retries are exceeded for reasons that only people can tell apart: all of them, in the order in
// which they are likely.
std::string retry_check(const IbLaneName& lane) {
  return format(
      "is {} of {} up (ibv_devinfo), and its process alive? do both ports have addresses that "
      "reach "
      "each other (show_gids; COLLCTL_IB_GID_INDEX) and the same MTU end to end (ping -M do -s)? "
      "on RoCE: are priority and flow control set as on the switch (COLLCTL_IB_TC)? counters: "
      "local_ack_timeout_err, packet_seq_err and symbol_error below /sys/class/infiniband/*/ports",
      lane.remote, lane.peer);
}

}  // namespace

std::string ib_status_name(int status) {
  return words_of(status).name;
}

std::string IbLaneName::text() const {
  return format("{} QP {} -> {} {} QP {}", local, qp, peer, remote, remote_qp);
}

Error ib_work_error(const IbLaneName& lane, const IbFailure& failure, const IbSettings& settings) {
  const Words& words = words_of(failure.status);
  std::string text =
      format("{}: {}: {} (status {}: {}{})", lane.text(), failure.work, words.cause, failure.status,
             words.name,
             failure.vendor_error == 0 ? std::string()
                                       : format(", vendor error {:#x}", failure.vendor_error));
  if (failure.status == kRetryExceeded)
    text += format(" after {}", ib_retry_text(settings.timeout, settings.retries));
  return Error(ErrorCode::lost, std::move(text),
               words.check != nullptr ? words.check : retry_check(lane));
}

std::string ib_event_text(int type) {
  switch (type) {
    case kEventCqError:
      return "a completion queue overflowed or failed";
    case kEventQpFatal:
      return "the adapter failed while a queue pair was at work";
    case kEventQpRequest:
      return "the other end sent a request that is invalid here";
    case kEventQpAccess:
      return "the other end accessed memory here without permission";
    case kEventDeviceFatal:
      return "the adapter failed";
    case kEventPortActive:
      return "is up again";
    case kEventPortError:
      return "went down";
    case kEventLid:
      return "has a new LID";
    case kEventKeys:
      return "has new partition keys";
    case kEventGids:
      return "has new addresses (GIDs)";
    default:
      return format("event {}", type);
  }
}

Error ib_qp_event_error(const IbLaneName& lane, int type) {
  const bool theirs = type == kEventQpRequest || type == kEventQpAccess;
  return Error(ErrorCode::lost, format("{}: {}", lane.text(), ib_event_text(type)),
               theirs ? "do both ends run the same collctl? dmesg on both hosts"
                      : "dmesg on this host; the adapter may need a reset");
}

Error ib_port_down_error(const IbLaneName& lane, double seconds) {
  return Error(
      ErrorCode::lost,
      format("{} of this host has been down for {:.1f} s (connection {})", lane.local, seconds,
             lane.text()),
      "check cable, switch port and link (ibstat, ip link); COLLCTL_IB_PORT_DOWN_TIMEOUT says "
      "how long a port may be down, COLLCTL_IB_PORT_FAILOVER=1 lets other ports take over");
}

}  // namespace collctl::transport
