// How operations of GPU ranks are queued, and what becomes of what fails there.
#include <signal.h>
#include <unistd.h>

#include "base/format.h"
#include "runtime/communicator/stream_state.h"

namespace collctl::runtime {

// All ranks refuse what one GPU cannot calculate with.
Status Communicator::State::check_types(std::span<const Operation> operations) const {
  const transport::PeerInfo& peer = peers[size_t(weakest)];
  for (const Operation& op : operations) {
    const bool reduces = op.collective == Collective::all_reduce ||
                         op.collective == Collective::reduce_scatter ||
                         op.collective == Collective::reduce;
    if (!reduces || launcher->has_type(op.type, peer.compute_capability)) continue;
    return Error(ErrorCode::unavailable,
                 format("{} is not supported on the GPU of rank {} (host {}, compute capability "
                        "{}.{})",
                        kernels::name_of(op.type), peer.rank, peer.host,
                        peer.compute_capability / 10, peer.compute_capability % 10),
                 "float8 needs compute capability 8.9 or higher")
        .blame(peer.rank);
  }
  return {};
}

// From the watching thread, or one that waits.
void Communicator::State::note_gpu_failure(Error error) {
  // A kernel that only followed the abort word has its reason in the first error.
  const bool followed = error.code == ErrorCode::interrupted && error.message.empty();
  const int awaited = followed ? error.awaited : error.rank;
  if (followed && errors.failed()) return note_wait(awaited);
  if (followed) error = Error(ErrorCode::interrupted, format("rank {} was told to stop", rank));
  if (error.rank >= 0 && error.host.empty()) error.host = peers[size_t(error.rank)].host;
  const bool late = error.code == ErrorCode::deadline;
  if (late) blame->find(error, device_window != nullptr || pinned_window != nullptr);
  errors.fail(error, true);
  if (late) note_wait(awaited);
}

void Communicator::State::lost_once_running(Error& error, uint64_t first_op) const {
  if (device != nullptr && first_op > 0 && error.code == ErrorCode::unavailable)
    error.code = ErrorCode::lost;
}

Status Communicator::State::submit_to_gpu(CachedPlan& entry, uint64_t first_op,
                                          Stream::State& stream, bool blocking) {
  Status launched = stream.device_error ? Status(*stream.device_error) : Status();
  if (launched) {
    COLL_TRY(ready(entry.plan, first_op, entry.wired));
    const kernels::Fault& fault = settings.fault;
    if (fault.kind == kernels::FaultKind::stall && fault.rank == rank && first_op == fault.step)
      gpu->hang();  // and does not take part before the others have noticed
    launched = gpu->launch(entry, first_op, stream.device_stream);
    // An injected death, while the others' kernels wait for this rank's.
    if (fault.kind == kernels::FaultKind::exit && fault.rank == rank && first_op == fault.step)
      ::kill(::getpid(), SIGKILL);
  }
  // Something has failed meanwhile: that is the reason, and known when its report is.
  if (!launched && launched.error().code == ErrorCode::interrupted) {
    if (gpu->kernel_reported())
      COLL_TRY(gpu->settle());
    else  // raised by the thread that watches the GPU, which passes the reason on next
      errors.wait_for_notice(Deadline::after_seconds(5));
    COLL_TRY(errors.status());
  }
  if (!launched) {
    Error& e = launched.error();
    if (e.rank < 0) e.rank = rank;
    if (e.host.empty()) e.host = peers[size_t(e.rank)].host;
    lost_once_running(e, first_op);
    // Other ranks miss an operation that could not be queued here. Misuse is queued nowhere.
    if (launched.error().code != ErrorCode::usage) errors.fail(launched.error(), true);
    return launched;
  }
  return blocking ? stream.wait_for_gpu() : Status();
}

}  // namespace collctl::runtime
