#include "kernels/cpu/shared_cpu.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/fault.h"
#include "kernels/cpu/stage_copy.h"

namespace collctl::kernels {
namespace {

// The part that is summed or copied at once, so that it is still in the first-level cache for the
// next destination.
constexpr uint64_t kPartBytes = 8192;
// Data that all ranks' caches do not hold goes to memory anyway: stored past the caches it is not
// read first (two ranks, 8 MiB: 2400 us at best in place of 3000).
constexpr uint64_t kBeyondCaches = 6 << 20;

// A rank's description of its operation in its line. Offsets from the begin of its slot in the flat
// range; ~0 for a buffer that it has not.
struct Call {
  uint64_t input, output;
  uint64_t bytes;  // of the part that this channel handles
  uint32_t what;   // collective, type, reduction
  int32_t root;
};
static_assert(sizeof(Call) <= kWindowLineBytes);
constexpr uint64_t kNone = ~uint64_t{0};

uint32_t what_of(const Work& work) {
  return 1u << 24 | uint32_t(work.collective) << 16 | uint32_t(work.type) << 8 | uint32_t(work.op);
}

}  // namespace

CpuShared::CpuShared(CpuWork& work)
    : work_(work),
      window_(work, {work.work.input, work.work.output}),
      rank_(work.work.rank),
      nranks_(work.work.nranks) {
  const FlatRange* flat = work.context.flat;
  COLL_CHECK_NOTE(flat != nullptr && flat->base != nullptr, "no address range mapped by all ranks");
  const uint8_t* slot = flat->base + uint64_t(rank_) * flat->stride;
  const auto offset = [&](const void* buffer) {
    const auto distance = uint64_t(static_cast<const uint8_t*>(buffer) - slot);
    return buffer == nullptr ? kNone : distance;
  };
  window_.next_call();
  const Call call{.input = offset(work.work.input),
                  .output = offset(work.work.output),
                  .bytes = work.work.part_count * work.element_bytes,
                  .what = what_of(work.work),
                  .root = work.work.root};
  std::memcpy(window_.line(rank_).data, &call, sizeof call);
}

void CpuShared::arrive_and_wait() {
  window_.arrive_and_wait();
  if (same_call_ || work_.failed()) return;
  same_call_ = wait_for_peers();
}

// False, with the report written, when a peer runs another operation.
bool CpuShared::wait_for_peers() {
  const FlatRange& flat = *work_.context.flat;
  for (int r = 0; r < nranks_; ++r) {
    Call call;
    std::memcpy(&call, window_.line(r).data, sizeof call);
    const uint64_t own_bytes = work_.work.part_count * work_.element_bytes;
    const bool same = call.what == what_of(work_.work) && call.root == work_.work.root;
    if (!same || call.bytes != own_bytes) {
      Report report = work_.report(same ? ReportCode::wrong_size : ReportCode::bad_data);
      report.side = WaitSide::recv;
      report.peer = r;
      report.seen = same ? call.bytes : call.what;
      report.wanted = same ? own_bytes : what_of(work_.work);
      work_.fail(report);
      return false;
    }
    uint8_t* slot = flat.base + uint64_t(r) * flat.stride;
    inputs_[r] = call.input == kNone ? nullptr : slot + call.input;
    outputs_[r] = call.output == kNone ? nullptr : slot + call.output;
  }
  return true;
}

int CpuShared::destinations(int to, uint64_t out, void** list) const {
  if (to != kEverybody) {
    list[0] = output(to, out);
    return 1;
  }
  for (int k = 0; k < nranks_; ++k) {
    const int r = rank_ + k < nranks_ ? rank_ + k : rank_ + k - nranks_;
    list[k] = output(r, out);
  }
  return nranks_;
}

void CpuShared::reduce(int to, uint64_t in, uint64_t out, uint64_t n, bool post) {
  if (n == 0 || work_.failed()) return;
  const FaultKind fault = work_.fault_armed ? apply_fault(work_) : FaultKind::none;
  if (work_.failed()) return;
  const uint32_t divisor = post ? work_.post_divisor : 1;
  if (fault == FaultKind::none && n * work_.element_bytes >= kStreamedBytes)
    return reduce_in_parts(to, in, out, n, divisor);
  const void* sources[kMaxWindowRanks];
  for (int r = 0; r < nranks_; ++r) sources[r] = input(r, in);
  void* list[kMaxWindowRanks];
  const int count = destinations(to, out, list);
  if (fault == FaultKind::none)
    work_.reduce(sources, nranks_, list, count, n, divisor);
  else
    reduce_with_fault(work_, fault, sources, list, count, n, divisor);
}

// The sum goes into the first destination and from there, while it is in the cache, to the others.
void CpuShared::reduce_in_parts(int to, uint64_t in, uint64_t out, uint64_t n, uint32_t divisor) {
  const uint64_t each = kPartBytes / work_.element_bytes;
  const bool large = n * work_.element_bytes * uint64_t(nranks_) >= kBeyondCaches;
  alignas(64) uint8_t scratch[kPartBytes];
  for (uint64_t done = 0; done < n; done += each) {
    const uint64_t part = std::min(each, n - done), bytes = part * work_.element_bytes;
    const void* sources[kMaxWindowRanks];
    for (int r = 0; r < nranks_; ++r) sources[r] = input(r, in + done);
    void* list[kMaxWindowRanks];
    const int count = destinations(to, out + done, list);
    void* sum = large ? scratch : list[0];
    work_.reduce(sources, nranks_, &sum, 1, part, divisor);
    for (int i = 0; i < count && large; ++i) stage_copy(list[i], sum, bytes, true);
    for (int i = 1; i < count && !large; ++i) work_.context.pace.copy(list[i], sum, bytes);
  }
}

void CpuShared::copy(int from, uint64_t in, int to, uint64_t out, uint64_t n) {
  if (n == 0 || work_.failed()) return;
  // Data that a rank keeps for itself came from nobody.
  const bool moves = from != to;
  const FaultKind fault = work_.fault_armed && moves ? apply_fault(work_) : FaultKind::none;
  if (work_.failed()) return;
  void* list[kMaxWindowRanks];
  const int count = destinations(to, out, list);
  const uint8_t* source = input(from, in);
  const uint64_t all = n * work_.element_bytes;
  if (fault != FaultKind::none) {
    for (int i = 0; i < count; ++i)
      if (list[i] != source) copy_with_fault(work_, fault, source, list[i], n);
    return;
  }
  for (uint64_t done = 0; done < all; done += kPartBytes) {
    const uint64_t bytes = std::min(kPartBytes, all - done);
    for (int i = 0; i < count; ++i) {
      auto* target = static_cast<uint8_t*>(list[i]) + done;
      if (target != source + done) work_.context.pace.copy(target, source + done, bytes);
    }
  }
}

}  // namespace collctl::kernels
