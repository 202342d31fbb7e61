#include "transport/net/ib/settings.h"

#include <cmath>

#include "base/env.h"
#include "base/format.h"

namespace collctl::transport {

namespace {

using base::KnobId;

template <class T>
Status read(KnobId id, T& to) {
  COLL_ASSIGN(const int64_t value, base::knob_int(id));
  to = T(value);
  return {};
}

}  // namespace

Result<IbSettings> read_ib_settings() {
  IbSettings s;
  s.hca = base::knob_text(KnobId::ib_hca);
  COLL_TRY(read(KnobId::ib_disable, s.disabled));
  COLL_TRY(read(KnobId::ib_gid_index, s.gid_index));
  COLL_TRY(read(KnobId::ib_roce_version, s.roce_version));
  COLL_TRY(read(KnobId::ib_pkey, s.key_index));
  COLL_TRY(read(KnobId::ib_sl, s.service_level));
  COLL_TRY(read(KnobId::ib_tc, s.traffic_class));
  COLL_TRY(read(KnobId::ib_timeout, s.timeout));
  COLL_TRY(read(KnobId::ib_retry_cnt, s.retries));
  COLL_TRY(read(KnobId::ib_qps, s.qps));
  COLL_TRY(read(KnobId::ib_split, s.split));
  COLL_TRY(read(KnobId::ib_adaptive_routing, s.adaptive_routing));
  COLL_TRY(read(KnobId::ib_ar_threshold, s.large_bytes));
  COLL_TRY(read(KnobId::ib_merge_nics, s.merge_ports));
  COLL_TRY(read(KnobId::ib_relaxed_ordering, s.relaxed_ordering));
  COLL_TRY(read(KnobId::ib_failover, s.failover));
  COLL_TRY(read(KnobId::dmabuf_enable, s.dmabuf));
  COLL_TRY(read(KnobId::net_force_flush, s.force_flush));
  COLL_ASSIGN(s.port_down_s, base::knob_seconds(KnobId::ib_port_down_timeout));
  return s;
}

double ib_timeout_seconds(int timeout) {
  return std::ldexp(4.096e-6, timeout);
}

std::string ib_retry_text(int timeout, int retries) {
  const double once = ib_timeout_seconds(timeout);
  return format(
      "{} tries of {:.3g} s each, {:.3g} s in all (COLLCTL_IB_TIMEOUT={}, "
      "COLLCTL_IB_RETRY_CNT={})",
      retries + 1, once, once * (retries + 1), timeout, retries);
}

}  // namespace collctl::transport
