// NET/IB's failures in words: what a work completion's status or an asynchronous event means, which
// end of which connection it is about, and what to check. Pure.
#pragma once
#include <string>

#include "base/result.h"
#include "transport/net/ib/settings.h"
#include "transport/net/ib/wire_blob.h"

namespace collctl::transport {

// One queue pair and the one that it is connected to, for messages.
struct IbLaneName {
  std::string local, remote;  // "mlx5_0:1"
  std::string peer;           // "rank 3 (host b1)"
  uint32_t qp = 0, remote_qp = 0;
  // "mlx5_0:1 QP 77 -> rank 3 (host b1) mlx5_1:1 QP 78"
  std::string text() const;
};

struct IbFailure {
  int status = 0;             // of the completion
  uint32_t vendor_error = 0;  // the adapter's own code
  std::string work;           // "send message 12 of 65536 bytes"
};
// Code lost.
Error ib_work_error(const IbLaneName& lane, const IbFailure& failure, const IbSettings& settings);

// "goes down": an asynchronous event, as what happens to a port, queue pair or device.
std::string ib_event_text(int type);
Error ib_qp_event_error(const IbLaneName& lane, int type);
Error ib_port_down_error(const IbLaneName& lane, double seconds);

// The status's name as the standard and other tools have it ("transport retry counter exceeded").
std::string ib_status_name(int status);

}  // namespace collctl::transport
