#include "runtime/communicator/communicator.h"

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/peer_closed.h"
#include "kernels/algo/ids.h"
#include "runtime/communicator/agreement.h"
#include "runtime/communicator/collnet.h"
#include "runtime/communicator/group_state.h"
#include "runtime/links/edges.h"

namespace collctl::runtime {

Communicator::Communicator(int rank, int size) : state_(std::make_unique<State>(rank, size)) {}
Communicator::~Communicator() {
  // Memory that a GPU may still write to is left to the end of the process.
  if (state_ != nullptr && !state_->stop()) (void)state_.release();
}

bool Communicator::State::stop() {
  if (!finalized) {
    errors.raise_abort();
    if (bootstrap != nullptr) bootstrap->cancel();  // a worker may be waiting for a peer's links
  }
  for (auto& weak : streams)
    if (auto stream = weak.lock()) (void)stream->stop();
  if (unended_test != nullptr && !unended_test->ended()) gpu_hangs = true;
  return !gpu_hangs;
}

Status Communicator::State::drain(Deadline deadline) {
  return gpu != nullptr ? gpu->drain(deadline) : turns.drain(deadline);
}

std::vector<Edge> Communicator::State::collective_edges() const {
  return runtime::collective_edges(rank, shape, choices, device != nullptr, wire->has_reducers());
}

Status Communicator::State::make_reducers(Deadline deadline) {
  if (shape.network.chains.empty() || !choices.allows(kernels::AlgorithmId::collnet) ||
      wire->has_reducers())
    return {};
  const bool alone = choices.algorithms == 1u << int(kernels::AlgorithmId::collnet);
  return connect_collnet({.rank = rank,
                          .peers = peers,
                          .settings = settings,
                          .bootstrap = *bootstrap,
                          .wire = *wire,
                          .errors = errors,
                          .nics = shape.nics.get()},
                         shape.network, alone, deadline);
}

Status Communicator::State::agree_on(Status mine, Deadline deadline) {
  COLL_ASSIGN(const Agreement agreed, agree(*bootstrap, errors, peers,
                                            {.status = std::move(mine),
                                             .fell_back = !wire->fallback().empty(),
                                             .no_window = !window_failure.empty()},
                                            deadline));
  wire->settled();
  // Once for the whole job: by the lowest rank that has something to tell.
  if (agreed.fell_back == rank) COLL_WARN("{}", wire->fallback());
  if (agreed.no_window == rank)
    COLL_WARN("no memory that all ranks map, links are used instead: rank {}: {}", rank,
              window_failure);
  if (agreed.no_window >= 0)
    drop_window(format("rank {} could not do its part of it", agreed.no_window));
  return {};
}

void Communicator::State::drop_window(const std::string& why) {
  window.reset();
  device_window.reset();
  pinned_window.reset();
  window_failure.clear();
  shape.gpu_window = shape.pinned_window = false;
  shape.window_bytes = 0;
  shape.window_channels = 0;
  shape.no_window = why;
}

int Communicator::rank() const {
  return state_->rank;
}
int Communicator::size() const {
  return state_->size;
}
const std::vector<transport::PeerInfo>& Communicator::peers() const {
  return state_->peers;
}
std::vector<LinkInfo> Communicator::links() const {
  return state_->wire->infos();
}
const InitTimes& Communicator::init_times() const {
  return state_->times;
}
uint64_t Communicator::hash() const {
  return state_->hash;
}
const TunerPlugin& Communicator::tuner() const {
  return state_->tuner_plugin;
}
transport::DevicePointer Communicator::device() const {
  return state_->device;
}

uint64_t Communicator::device_bytes() const {
  const State& s = *state_;
  uint64_t bytes = s.gpu != nullptr ? s.gpu->device_bytes() : 0;
  if (s.device_window != nullptr) bytes += s.device_window->held_bytes();
  return bytes + s.wire->device_bytes();
}

Activity Communicator::activity() const {
  const State& s = *state_;
  Activity now{.calls = s.calls.noted() + s.calls.messages(),
               .last = s.calls.last(),
               .busy = !s.turns.idle(),
               .waits = {},
               .window = {}};
  if (s.waits) now.waits = s.waits->now();
  if (s.gpu != nullptr && s.gpu->in_flight()) {
    now.busy = true;
    now.waits = s.gpu->waits();
    if (now.waits.empty()) now.window = s.gpu->window_wait();
  }
  return now;
}

Result<WaitSums> Communicator::wait_sums() const {
  const State& s = *state_;
  WaitSums sums;
  if (s.waits) {
    sums.away_ns = s.waits->away_ns();
    sums.channels = s.waits->channels();
  }
  std::vector<kernels::PeerWait> on_gpu;
  if (s.gpu != nullptr) {
    COLL_ASSIGN(on_gpu, s.gpu->wait_times());
    sums.channels = 1;
  }
  for (int peer = 0; peer < s.size; ++peer) {
    WaitSums::Peer one;
    kernels::PeerWait& waited = one;
    if (s.waits && s.waits->sums()) waited = s.waits->of(peer);
    if (!on_gpu.empty()) waited = on_gpu[size_t(peer)];
    one.peer = peer;
    one.carrying_ns = s.wire->carrying_ns(peer);
    if (one.waits > 0 || one.carrying_ns > 0) sums.peers.push_back(one);
  }
  return sums;
}

Status Communicator::start(const Operation& operation, Stream& stream, Launch launch) {
  if (launch == Launch::blocking && stream.state_->communicator == state_.get() &&
      !Group::Collected::mine().open())
    if (CachedPlan* const entry = state_->repeats(operation); entry != nullptr)
      return state_->repeat(operation, *entry);
  return start_all({&operation, 1}, stream, launch);
}

Status Communicator::start_all(std::span<const Operation> operations, Stream& stream,
                               Launch launch) {
  COLL_CHECK_NOTE(stream.state_->communicator == state_.get(),
                  "a stream belongs to one communicator");
  const bool blocking = launch == Launch::blocking;
  Group::Collected& group = Group::Collected::mine();
  if (group.open()) return group.add(*state_, stream.state_, operations, blocking);
  if (operations.empty()) return async_error();
  return state_->submit(operations, stream.state_, blocking);
}

Result<Plan> Communicator::plan_for(std::span<const Operation> operations) const {
  return state_->plan_only(operations);
}

Status Communicator::set_choices(const std::string& algo, const std::string& proto, int channels) {
  State& s = *state_;
  COLL_TRY(s.errors.status());
  const Choices& usual = s.settings.choices;
  COLL_ASSIGN(s.choices,
              parse_choices(algo.empty() ? usual.algo : algo, proto.empty() ? usual.proto : proto,
                            channels == 0 ? usual.channels : channels));
  const Deadline deadline = Deadline::after_seconds(s.settings.start_timeout_s);
  COLL_TRY(s.drain(deadline));
  s.plans.clear();
  s.tuned_alike.clear();  // nothing is in flight
  if (s.tuner != nullptr) s.tuner->forget();
  if (Status made = s.make_reducers(deadline); !made) {
    s.errors.fail(made.error(), true);
    return made;
  }
  if (s.gpu != nullptr) {
    // More channels than were found repeat the same routes. Links are made at the first use.
    for (size_t i = 0; int(s.shape.channels.size()) < s.choices.channels; ++i)
      s.shape.channels.push_back(ChannelShape(s.shape.channels[i]));
    return {};
  }
  if (s.choices.channels > int(s.shape.channels.size()))
    s.shape.channels = make_channels(s.hosts, s.rank, s.choices.channels, LocalTree::binary);
  if (s.size == 1) return {};
  // Also a rank that has all of its links, because messages have made them, comes to the agreement:
  // the others may have to connect among themselves.
  Status agreed =
      s.agree_on(s.wire->connect(s.collective_edges(), kCollectiveLinks, deadline), deadline);
  if (!agreed) s.errors.fail(agreed.error(), true);
  return agreed;
}

Status Communicator::async_error() const {
  // Kernels may have reported an error just now, before the watching thread has seen it.
  if (state_->gpu != nullptr && state_->gpu->kernel_reported()) COLL_TRY(state_->gpu->settle());
  return state_->errors.status();
}

std::shared_ptr<base::Cancel> Communicator::failure() const {
  return state_->errors.failure();
}

void Communicator::abort(const Error& why) {
  state_->errors.fail(why, true);
}

Status Communicator::barrier(Deadline deadline) {
  COLL_ASSIGN([[maybe_unused]] const auto blobs, gather_blobs({}, deadline));
  return {};
}

Result<std::vector<Bytes>> Communicator::gather_blobs(ByteView mine, Deadline deadline) {
  State& s = *state_;
  COLL_TRY(s.errors.status());
  COLL_TRY(s.turns.wait_until_connected(deadline));
  const std::lock_guard lock(s.bootstrap_mutex);
  auto blobs = s.bootstrap->all_gather_blobs(mine, deadline);
  if (blobs) return blobs;
  const Error& own = blobs.error();
  if (base::says_cannot_reach(own)) s.errors.fail(own, true);
  if (own.code == ErrorCode::deadline || own.awaited >= 0)
    s.errors.note_awaited(own.awaited < 0 ? own.rank : own.awaited);
  if (Status known = s.errors.status(); !known) return std::move(known.error());
  return blobs;
}

Status Communicator::finalize(Deadline deadline) {
  State& s = *state_;
  if (s.finalized) return {};
  COLL_TRY_IN(s.drain(deadline), "finalize");
  // Others may still wait for what this rank has in flight: if that fails, they must know.
  if (s.proxy != nullptr) COLL_TRY_IN(s.proxy->flush(deadline), "finalize");
  COLL_TRY(async_error());
  if (s.proxy != nullptr) s.proxy->expect_close();
  COLL_TRY_IN(s.bootstrap->barrier(deadline), "finalize");
  for (auto& weak : s.streams)
    if (auto stream = weak.lock()) stream->stop();
  s.finalized = true;
  if (s.proxy != nullptr) COLL_TRY_IN(s.proxy->stop(deadline), "finalize");
  s.executor.reset();
  return s.bootstrap->finish(deadline);
}

}  // namespace collctl::runtime
