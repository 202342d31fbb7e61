// A block's record when it must abort: plain numbers in memory the host can read (pinned memory for
// a GPU). The host turns it into an Error that names rank, peer, channel and step.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels {

// wrong_size: a slice of `seen` bytes where `wanted` were due. unreadable: what the peer lends, for
// the errno `seen`; ECANCELED: it was taken back.
enum class ReportCode : uint32_t { none, timeout, aborted, bad_data, wrong_size, unreadable };
enum class WaitSide : uint32_t {
  recv,
  send
};  // waiting for data from the peer, or for the peer to free a slot

struct Report {
  ReportCode code;
  WaitSide side;
  int32_t rank;
  int32_t peer;
  int32_t channel;
  Protocol protocol;
  AlgorithmId algorithm;
  Collective collective;
  uint8_t reserved;
  uint64_t step;    // this end's step
  uint64_t seen;    // the counter (or flag) it saw
  uint64_t wanted;  // what it waited for
  uint64_t op_count;
};
static_assert(sizeof(Report) == 56);

}  // namespace collctl::kernels
