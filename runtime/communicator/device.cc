// What is different about GPU ranks: their shape, their window, their executor, and how operations
// go there.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "runtime/communicator/state.h"
#include "runtime/plan/gpu_shape.h"
#include "runtime/plan/reach.h"
#include "transport/net/ib/ib.h"

namespace collctl::runtime {

namespace {

// Of the verbs' window algorithms; which collectives they are the planner knows.
bool verbs_serve(Collective collective, kernels::AlgorithmId, kernels::Protocol protocol, DataType,
                 RedOp, int nranks, uint64_t) {
  return collective != Collective::send_recv && protocol == kernels::Protocol::simple && nranks > 1;
}

// The network devices that the search gave the channels on this rank's node, by name, and what
// holds for each and this rank's GPU; empty where the machine is not known or has none.
struct ChannelNics {
  std::vector<std::string> names;
  std::vector<transport::NicGdr> gdr;
};
ChannelNics channel_nics(int rank, const HostGroups& hosts, std::span<const Bytes> blobs) {
  for (const auto& host : hosts) {
    const auto place = std::find(host.begin(), host.end(), rank);
    if (place == host.end()) continue;
    const auto found = HostGpus::decode(blobs[size_t(host.front())], int(host.size()));
    if (!found || !found->why_not.empty()) return {};
    for (const HostGpus::Part& part : found->parts) {
      const auto local = std::find(part.ranks.begin(), part.ranks.end(), int(place - host.begin()));
      if (local == part.ranks.end()) continue;
      ChannelNics nics;
      for (const topology::NodeChannel& channel : part.node.ring_channels) {
        if (channel.out < 0) return {};
        const std::string& name = part.node.nets[size_t(channel.out)];  // "NET/0 mlx5_0"
        nics.names.push_back(name.substr(name.find(' ') + 1));
        nics.gdr.push_back(part.gdr[size_t(local - part.ranks.begin())][size_t(channel.out)]);
      }
      return nics;
    }
  }
  return {};
}

}  // namespace

bool Communicator::State::nic_reaches_gpu() const {
  if ((networks.kinds & (transport::kNetInfiniBand | transport::kNetRoce)) == 0) return false;
  const auto how = transport::ib_reaches_gpu(device);
  if (how) {
    COLL_INFO(net, "NET/IB : GPU memory of {} by {}", device->text(), *how);
  } else {
    COLL_INFO(net, "NET/IB : no GPU memory of {}: {}", device->text(), how.error().chain());
  }
  return how.ok();
}

// Rings and trees from what the machines say of themselves.
Status Communicator::State::shape_gpus(std::span<const RankCard> cards, Deadline deadline) {
  for (const RankCard& card : cards)
    if (card.info.compute_capability < peers[size_t(weakest)].compute_capability)
      weakest = card.info.rank;
  const Bytes mine = describe_gpus(rank, cards, hosts, settings);
  COLL_ASSIGN(const auto blobs, bootstrap->all_gather_blobs(mine, deadline));
  COLL_ASSIGN(shape, make_gpu_shape(rank, cards, hosts, blobs, settings));
  ChannelNics found = channel_nics(rank, hosts, blobs);
  nics = std::move(found.names);
  nic_gdr = std::move(found.gdr);
  shape.no_window = why_no_device_window(cards, hosts, settings, *launcher);
  shape.gpu_window = shape.no_window.empty();
  shape.window_serves = settings.window_verbs ? &verbs_serve : launcher->window_serves;
  shape.window_direct = settings.window_verbs ? nullptr : launcher->window_direct;
  // Links get no slots for what will not be used.
  if (shape.slot_bytes[int(kernels::Protocol::ll128)] == 0)
    settings.slot_bytes[int(kernels::Protocol::ll128)] = 0;
  constexpr int kSimple = int(kernels::Protocol::simple);
  settings.slot_bytes[kSimple] = shape.slot_bytes[kSimple];
  return {};
}

Status Communicator::State::make_device_window(Deadline deadline) {
  if (!shape.gpu_window) return {};
  DeviceWindow::Options o;
  o.rank = rank;
  o.nranks = size;
  o.part_bytes =
      settings.window_verbs ? DeviceWindow::kVerbsPartBytes : launcher->window_part_bytes(size);
  o.comm_hash = hash;
  o.device = device;
  o.peers = peers;
  o.bootstrap = bootstrap.get();
  COLL_ASSIGN(device_window, DeviceWindow::make(o, window_failure, deadline));
  return {};
}

Status Communicator::State::make_gpu_executor() {
  CudaExecutor::Options o;
  o.rank = rank;
  o.nranks = size;
  o.device = device;
  o.launcher = launcher;
  o.op_timeout_s = settings.op_timeout_s;
  o.proxy = proxy.get();
  o.flat = &flat;
  o.on_failure = [this](Error error) { note_gpu_failure(std::move(error)); };
  auto made = CudaExecutor::make(*wire, std::move(o));
  if (!made) return std::move(made.error()).blame(rank);
  gpu = std::move(*made);
  const std::lock_guard lock(abort_mutex);
  gpu_to_stop = gpu.get();
  // Raised before the executor was there to see it.
  if (std::atomic_ref<uint32_t>(abort_word).load() != 0) gpu->abort();
  return {};
}

// LL128 only where lines come whole, which is tested where all ranks map each other's memory.
Status Communicator::State::test_lines(Deadline deadline) {
  if (shape.slot_bytes[int(kernels::Protocol::ll128)] == 0) return {};  // no_ll128 says why
  if (!shape.gpu_window) {
    shape.no_ll128 = "the ranks share no mapped memory to test its lines in: " + shape.no_window;
    return {};
  }
  TornStoreOptions o;
  o.device = device;
  o.launcher = launcher;
  o.window = device_window->memory();
  o.part_bytes = device_window->part_bytes();
  o.bootstrap = bootstrap.get();
  COLL_ASSIGN(TornStoreVerdict verdict, why_lines_tear(o, deadline));
  shape.no_ll128 = verdict.why;
  torn_store_rest = std::move(verdict.rest);
  if (verdict.window_lost) {
    if (rank == 0)
      COLL_WARN("the memory that all ranks map is not used, links are used instead: {}",
                verdict.why);
    lost_window = std::move(device_window);
    drop_window(verdict.why);
  }
  shape.ll128_passed = shape.no_ll128.empty();
  if (rank == 0) COLL_INFO(init, "LL128 : {}", shape.ll128_passed ? "in use" : shape.no_ll128);
  return {};
}

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
  if (followed && failed.load(std::memory_order_acquire)) return;
  if (followed) error.message = format("rank {} was told to stop", rank);
  if (error.rank >= 0 && error.host.empty()) error.host = peers[size_t(error.rank)].host;
  if (error.code == ErrorCode::deadline) leave_blame_to_the_nearest(error);
  fail(error, true);
}

void Communicator::State::note_short(Error& error, uint64_t first_op) const {
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
      gpu->stand_still();  // and does not take part before the others have noticed
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
      wait_until_told(Deadline::after_seconds(5));
    COLL_TRY(error());
  }
  if (!launched) {
    Error& e = launched.error();
    if (e.rank < 0) e.rank = rank;
    if (e.host.empty()) e.host = peers[size_t(e.rank)].host;
    note_short(e, first_op);
    // What could not be queued here is missed by the other ranks. Misuse is queued nowhere.
    if (launched.error().code != ErrorCode::usage) fail(launched.error(), true);
    return launched;
  }
  return blocking ? stream.wait_for_gpu() : Status();
}

uint64_t Communicator::device_bytes() const {
  const State& s = *state_;
  uint64_t bytes = s.gpu != nullptr ? s.gpu->device_bytes() : 0;
  if (s.device_window != nullptr) bytes += s.device_window->held_bytes();
  return bytes + s.wire->device_bytes();
}

}  // namespace collctl::runtime
