// The user's settings for NET/IB: the knobs IB_* (base/knobs.inc), read once for each
// communicator and end. Threads: values.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace collctl::transport {

struct IbSettings {
  bool disabled = false;
  std::string hca;  // as given; IbFilter reads it
  int gid_index = -1;
  int roce_version = 2;
  int key_index = 0, service_level = 0, traffic_class = 0;
  int timeout = 20, retries = 7;
  int qps = 1;
  bool split = false;
  int adaptive_routing = -1;
  uint32_t large_bytes = 8192;  // above: write, then announce
  bool merge_ports = false;
  int relaxed_ordering = 2;
  double port_down_s = 5;
  bool failover = false;
  bool dmabuf = true;
  bool force_flush = false;
};
// Error: usage, naming the variable.
Result<IbSettings> read_ib_settings();

// Seconds that a queue pair waits for an answer before it tries again: 4.096 us x 2^timeout.
double ib_timeout_seconds(int timeout);
// "8 tries of 4.3 s each, 34 s in all (COLLCTL_IB_TIMEOUT=20, COLLCTL_IB_RETRY_CNT=7)". Adapters
// may wait up to four times as long.
std::string ib_retry_text(int timeout, int retries);

}  // namespace collctl::transport
