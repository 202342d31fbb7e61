#include "runtime/executor/cuda.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/format.h"
#include "base/wait.h"
#include "kernels/algo/algorithms.h"
#include "kernels/algo/one_shot.h"
#include "kernels/shared_block.h"

namespace collctl::runtime {
namespace {

using kernels::PairStep;
using kernels::Protocol;
using kernels::Report;
using kernels::Work;
using kernels::cuda::DirectPath;
using kernels::cuda::Launcher;
using transport::DeviceStream;

constexpr uint64_t kReportBytes =
    (sizeof(Report) * kernels::kMaxChannels + 127) / 128 * 128;  // before the abort word
constexpr uint64_t kEpochBytes = 640;  // of a window's part: where its kernels count (64 blocks)

int threads_of(const CudaPlan::Launch& launch) {
  if (launch.threads > 0) return launch.threads;
  return launch.protocol == Protocol::ll128 ? 640 : 512;
}

}  // namespace

CudaPlan::~CudaPlan() {
  for (const DevicePieces::Piece& piece : pairs) owner->give_back(piece);
}

CudaExecutor::CudaExecutor(Wire& wire, Options options)
    : wire_(wire), options_(std::move(options)) {}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::make(Wire& wire, Options options) {
  std::unique_ptr<CudaExecutor> made(new CudaExecutor(wire, std::move(options)));
  COLL_TRY(made->set_up());
  return made;
}

Status CudaExecutor::set_up() {
  const transport::DevicePointer& device = options_.device;
  constexpr uint64_t kNoteBytes = sizeof(kernels::WaitNote) * kernels::kMaxChannels;
  COLL_ASSIGN(shared_memory_,
              transport::PinnedMemory::make(device, kReportBytes + 128 + kNoteBytes));
  reports_ = reinterpret_cast<Report*>(shared_memory_.data());
  abort_word_ = reinterpret_cast<uint32_t*>(shared_memory_.data() + kReportBytes);
  notes_ = reinterpret_cast<kernels::WaitNote*>(shared_memory_.data() + kReportBytes + 128);
  pieces_ = std::make_shared<DevicePieces>(device);
  if (options_.count_waits) {
    const uint64_t bytes = sizeof(kernels::PeerWait) * uint64_t(options_.nranks);
    COLL_ASSIGN(wait_times_, pieces_->take(bytes));
    COLL_ASSIGN(read_wait_times_, transport::PinnedMemory::make(device, bytes));
  }
  COLL_ASSIGN(barrier_cell_, pieces_->take(2 * sizeof(int32_t)));
  COLL_ASSIGN(uploads_, Uploads::make(device));
  COLL_ASSIGN(pulse_, DevicePulse::make(device));
  COLL_ASSIGN(window_look_, WindowLook::make(device));
  COLL_ASSIGN(queue_, LaunchQueue::make(device));
  COLL_ASSIGN(links_, LinkTables::make(*pieces_, options_.nranks));
  COLL_ASSIGN(setup_stream_, DeviceStream::make(device));
  COLL_ASSIGN(turn_event_, transport::DeviceEvent::make(device, false));
  COLL_ASSIGN(marker_, transport::DeviceEvent::make(device, false));
  watcher_ = std::thread([this] { watch(); });
  return {};
}

CudaExecutor::~CudaExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  tell_proxy(false);
}

void CudaExecutor::use_window(const kernels::cuda::PeerMemory& window) {
  window_ = window;
  pulse_->add(window.base + uint64_t(window.rank) * window.stride, kEpochBytes);
}

bool CudaExecutor::aborted() const {
  return std::atomic_ref<uint32_t>(*abort_word_).load(std::memory_order_acquire) != 0;
}

void CudaExecutor::abort() {
  std::atomic_ref<uint32_t>(*abort_word_).store(1, std::memory_order_release);
}

Error CudaExecutor::device_error(Error error) const {
  if (error.rank < 0) error.rank = options_.rank;
  return std::move(error).within(format("rank {}", options_.rank));
}

// An error of a device that has worked: it is lost, whatever the driver calls it.
Error CudaExecutor::broken(Error error) const {
  if (error.code == ErrorCode::unavailable) error.code = ErrorCode::lost;
  return device_error(std::move(error));
}

// --- what kernels read ---

// Uploads go without the mutex, so that the watching thread looks on while they wait for a place
// behind what is queued.

// Copies wait as long as the GPU gets on with what is before them.
Uploads::Aborted CudaExecutor::no_progress() const {
  return [this, start = now_ns()] {
    const int64_t since = std::max(start, sign_ns_.load(std::memory_order_acquire));
    return aborted() || now_ns() - since > 2 * patience_ns();
  };
}

Status CudaExecutor::uploaded(Status status) const {
  if (status || !aborted()) return status ? Status() : device_error(std::move(status.error()));
  return Error(ErrorCode::interrupted, format("rank {} was told to stop", options_.rank));
}

Status CudaExecutor::upload(const DeviceStream& stream, void* to, const void* from,
                            uint64_t bytes) {
  // A capture would repeat the copy. Nothing else is in flight meanwhile.
  const bool apart = capturing_ != nullptr;
  Status status = uploads_->upload(apart ? setup_stream_ : stream, to, from, bytes, no_progress());
  if (status && apart) status = setup_stream_.synchronize(Deadline::after_ns(patience_ns()));
  return uploaded(std::move(status));
}

Status CudaExecutor::update_links(const DeviceStream& stream) {
  const bool apart = capturing_ != nullptr;
  Status status = links_.update(wire_, *pieces_, *uploads_, *pulse_, apart ? setup_stream_ : stream,
                                no_progress());
  if (status && apart) status = setup_stream_.synchronize(Deadline::after_ns(patience_ns()));
  return uploaded(std::move(status));
}

Result<CudaExecutor::Order> CudaExecutor::placed_order(const int32_t* order,
                                                       const DeviceStream& stream) {
  if (order == nullptr) return Order{};
  const std::vector<int32_t> ranks(order, order + options_.nranks);
  if (const auto known = orders_.find(ranks); known != orders_.end())
    return Order{known->first.data(), known->second};
  const uint64_t bytes = ranks.size() * sizeof(int32_t);
  COLL_ASSIGN(const auto piece, pieces_->take(bytes));
  COLL_TRY(upload(stream, piece.data, ranks.data(), bytes));
  const auto* placed = reinterpret_cast<const int32_t*>(piece.data);
  const auto kept = orders_.emplace(ranks, placed).first;
  return Order{kept->first.data(), placed};
}

// The pair steps of all works go in one piece.
Status CudaExecutor::put_sendrecv(const Plan& plan, CudaPlan& made, const DeviceStream& stream) {
  std::vector<kernels::PairStep>& steps = made.steps;
  for (const PlannedOp& op : plan.ops)
    for (const Work& work : op.works)
      steps.insert(steps.end(), work.pairs, work.pairs + work.pair_count);
  if (steps.empty()) return {};
  const uint64_t bytes = steps.size() * sizeof(kernels::PairStep);
  COLL_ASSIGN(const auto piece, pieces_->take(bytes));
  made.pairs.push_back(piece);
  COLL_TRY(upload(stream, piece.data, steps.data(), bytes));
  const auto* next = reinterpret_cast<const kernels::PairStep*>(piece.data);
  for (Work& work : made.works) {
    if (work.pair_count > 0) work.pairs = next;
    next += work.pair_count;
  }
  for (const kernels::PairStep& step : steps)  // they are in bytes or in elements; a bound will do
    made.bytes += 8 * (step.send_count + step.recv_count);
  return {};
}

// A piece fills a bank: with one block or slice for each rank where it has such.
uint64_t CudaExecutor::verbs_chunk(const Work& work) const {
  const bool shared = work.algorithm == kernels::AlgorithmId::two_shot ||
                      kernels::one_shot_by_blocks(work.collective);
  const uint64_t bytes = verbs_bank_bytes_ / (shared ? uint64_t(work.nranks) : 1) / 16 * 16;
  return bytes / kernels::element_size(work.type);
}

// Operations run one after the other, so a channel's works share it. A piece that became too small
// stays where kernels and graphs have it: all such pieces together are less than the largest.
Result<void*> CudaExecutor::scratch(uint16_t channel, uint64_t bytes) {
  DevicePieces::Piece& piece = scratch_[channel];
  if (piece.bytes < bytes) {
    COLL_ASSIGN(piece, pieces_->take(bytes));
  }
  return static_cast<void*>(piece.data);
}

Status CudaExecutor::prepare(CachedPlan& entry, const DeviceStream& stream) {
  auto made = std::make_shared<CudaPlan>();
  made->owner = pieces_;
  const Launcher& launcher = *options_.launcher;
  size_t steps = 0;
  for (const PlannedOp& op : entry.plan.ops)
    for (const Work& work : op.works) {
      const bool window = op.by_window_kernel && verbs_bank_bytes_ == 0;
      auto& launches = made->launches;
      const bool alone = options_.nranks == 1 && op.collective != kernels::Collective::send_recv;
      const bool copy = alone || op.by_copies;
      const bool joins = !window && !copy && !launches.empty() && !launches.back().window &&
                         !launches.back().copy && launches.back().protocol == work.protocol &&
                         launches.back().count < launcher.most_works;
      const bool further =
          alone && &work != &op.works.front();  // the first copies for all channels
      if (!joins && !further)
        launches.push_back({window, copy, work.protocol, int(made->works.size()), 0, 0, steps});
      ++launches.back().count;
      steps += work.pair_count;
      launches.back().threads = std::max(launches.back().threads, op.threads);
      Work placed = work;
      if (op.by_window_kernel && !window) placed.chunk_count = verbs_chunk(work);
      COLL_ASSIGN(const Order order, placed_order(work.ring.order, stream));
      placed.ring.order = order.device;
      made->orders.push_back(order.host);
      if (const uint64_t bytes = kernels::scratch_bytes(work); bytes > 0) {
        COLL_ASSIGN(placed.scratch, scratch(work.channel, bytes));
      }
      made->bytes += work.part_count * kernels::element_size(work.type) * uint64_t(work.nranks);
      made->works.push_back(placed);
    }
  COLL_TRY(put_sendrecv(entry.plan, *made, stream));
  entry.on_device = std::move(made);
  return {};
}

// --- launches ---

Status CudaExecutor::may_launch(const DeviceStream& stream) const {
  if (capturing_ != nullptr && capturing_ != &stream)
    return Error(ErrorCode::usage,
                 "another stream of the communicator records a graph: this one must stay idle");
  return {};
}

Status CudaExecutor::await_room(uint64_t kernels) {
  if (queue_.has_room(kernels)) return {};
  Status room = queue_.await_room(kernels, no_progress());
  return room ? Status() : broken(std::move(room.error()));
}

// Work queued on `stream` from now on follows all that was launched before.
Status CudaExecutor::take_turn(const DeviceStream& stream) {
  if (last_ == &stream) return {};
  if (last_ != nullptr) {
    COLL_TRY(turn_event_.record(last_->get()));
    COLL_TRY(stream.wait_for(turn_event_));
  }
  last_ = &stream;
  return {};
}

void CudaExecutor::under_way(uint64_t bytes, uint64_t launches) {
  ++launched_;
  largest_bytes_ = std::max(largest_bytes_, bytes);
  queued_launches_ += launches;
  if (wire_.proxied() && !proxy_busy_) tell_proxy(true);
  if (busy_) return;
  busy_ = true;
  idle_since_ns_ = 0;
  sign_ns_.store(now_ns(), std::memory_order_release);
  changed_.notify_all();
}

void CudaExecutor::tell_proxy(bool begins) {
  if (proxy_busy_ == begins || options_.proxy == nullptr) return;
  proxy_busy_ = begins;
  options_.proxy->busy(begins);
}

Status CudaExecutor::start_all(const CudaPlan& plan, const DeviceStream& stream) {
  const Launcher& launcher = *options_.launcher;
  const kernels::cuda::DeviceShared shared{
      .reports = reports_,
      .abort_word = abort_word_,
      .timeout_ns = int64_t(options_.op_timeout_s * 1e9),
      .links = links_.table(),
      .notes = notes_,
      .waits = reinterpret_cast<kernels::PeerWait*>(wait_times_.data)};
  for (const CudaPlan::Launch& launch : plan.launches) {
    const Work& first = plan.works[size_t(launch.first)];
    int error = 0;
    if (launch.window && first.count == 0) continue;
    const bool messages = first.collective == kernels::Collective::send_recv;
    const PairStep* const rounds = messages ? &plan.steps[launch.first_step] : nullptr;
    // A kernel or a copy for each round, at most.
    const uint64_t kernels = messages ? std::max(1u, first.pair_count) : 1;
    if (capturing_ == nullptr) COLL_TRY(await_room(kernels));
    if (launch.copy) {
      const uint64_t element = kernels::element_size(first.type);
      const auto copy = [&](void* to, const void* from, uint64_t count) {
        return to == from || count == 0 ? Status() : stream.copy(to, from, count * element);
      };
      if (!messages) COLL_TRY(copy(first.output, first.input, first.count));
      for (uint32_t i = 0; messages && i < first.pair_count; ++i)
        COLL_TRY(copy(rounds[i].recv, rounds[i].send, rounds[i].send_count));
      if (capturing_ == nullptr) COLL_TRY(queue_.queued(kernels, stream));
      continue;
    }
    if (launch.window) {
      const bool direct = kernels::shares_buffers(first);
      error = launcher.launch_window({.work = first,
                                      .memory = window_,
                                      .rounds = rounds,
                                      .direct = direct ? DirectPath::best : DirectPath::none,
                                      .flat = direct ? *options_.flat : kernels::FlatRange{},
                                      .blocks = 0,
                                      .shared = shared,
                                      .stream = stream.get()});
    } else {
      error = launcher.launch_works({.works = &first,
                                     .work_count = launch.count,
                                     .protocol = launch.protocol,
                                     .threads = threads_of(launch),
                                     .host_pairs = plan.steps.data() + launch.first_step,
                                     .host_links = links_.host_table(),
                                     .host_orders = &plan.orders[size_t(launch.first)],
                                     .slot_bytes = links_.least_slot_bytes(launch.protocol),
                                     .shared = shared,
                                     .stream = stream.get()});
    }
    if (error != 0)
      return device_error(
          Error(ErrorCode::lost, format("{} cannot start {} #{}: {} ({})", options_.device->text(),
                                        kernels::name_of(first.collective), first.op_count,
                                        launcher.error_text(error), error)));
    if (capturing_ == nullptr) COLL_TRY(queue_.queued(kernels, stream));
  }
  return {};
}

Status CudaExecutor::launch(CachedPlan& entry, uint64_t first_op_count,
                            const DeviceStream& stream) {
  const bool capturing = capturing_ != nullptr;  // set by this thread
  COLL_TRY(may_launch(stream));
  COLL_TRY(options_.device->use());
  if (!links_.current(wire_) || entry.on_device == nullptr) {
    if (!capturing) {
      const std::lock_guard lock(mutex_);
      COLL_TRY(take_turn(stream));
    }
    if (!links_.current(wire_)) COLL_TRY(update_links(stream));
    if (entry.on_device == nullptr) COLL_TRY(prepare(entry, stream));
  }
  CudaPlan& plan = *entry.on_device;
  Work* placed = plan.works.data();
  for (const PlannedOp& op : entry.plan.ops) {
    for (const Work& work : op.works) {
      placed->input = work.input;
      placed->output = work.output;
      placed->op_count = first_op_count;
      ++placed;
    }
    ++first_op_count;
  }
  if (capturing) {
    capture_bytes_ = std::max(capture_bytes_, plan.bytes);
    capture_launches_ += plan.launches.size();
    if (captured_.empty() || captured_.back() != entry.on_device)
      captured_.push_back(entry.on_device);
    return start_all(plan, stream);
  }
  {
    const std::lock_guard lock(mutex_);
    COLL_TRY(take_turn(stream));
    under_way(plan.bytes, plan.launches.size());
    launching_.store(true, std::memory_order_release);
  }
  Status started = start_all(plan, stream);
  launching_.store(false, std::memory_order_release);
  return started;
}

Status CudaExecutor::capture_begin(const DeviceStream& stream) {
  const Uploads::Aborted over = no_progress();
  Status idle = drain(Deadline::after_ns(patience_ns()));
  while (!idle && idle.error().code == ErrorCode::deadline && !over())  // a long queue
    idle = drain(Deadline::after_ns(patience_ns()));
  COLL_TRY(std::move(idle));
  const std::lock_guard lock(mutex_);
  if (capturing_ != nullptr)
    return Error(ErrorCode::usage, "a stream of this communicator already records a graph");
  COLL_TRY(transport::DeviceGraph::begin(options_.device, stream.get()));
  capturing_ = &stream;
  capture_bytes_ = capture_launches_ = 0;
  return {};
}

Result<transport::DeviceGraph> CudaExecutor::capture_end(const DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  if (capturing_ != &stream) return Error(ErrorCode::usage, "this stream records no graph");
  capturing_ = nullptr;
  graph_bytes_ = std::max(graph_bytes_, capture_bytes_);
  graph_launches_ = std::max(graph_launches_, capture_launches_);
  return transport::DeviceGraph::end(options_.device, stream.get());
}

bool CudaExecutor::capturing(const DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  return capturing_ == &stream;
}

Status CudaExecutor::replay(const transport::DeviceGraph& graph, const DeviceStream& stream) {
  if (capturing_ != nullptr)
    return Error(ErrorCode::usage, "a stream of this communicator records a graph: end it first");
  COLL_TRY(await_room(graph_launches_));
  {
    const std::lock_guard lock(mutex_);
    COLL_TRY(take_turn(stream));
    under_way(graph_bytes_, graph_launches_);
    launching_.store(true, std::memory_order_release);
  }
  Status launched = graph.launch(stream.get());
  if (launched) launched = queue_.queued(graph_launches_, stream);
  launching_.store(false, std::memory_order_release);
  return launched ? Status() : broken(std::move(launched.error()));
}

void CudaExecutor::forget(const DeviceStream& stream) {
  const std::lock_guard lock(mutex_);
  if (last_ == &stream) last_ = nullptr;
  if (capturing_ == &stream) capturing_ = nullptr;
}

}  // namespace collctl::runtime
