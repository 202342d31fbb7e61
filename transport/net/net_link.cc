#include "transport/net/net_link.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/bell.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/edge.h"
#include "transport/memory/kept.h"
#include "transport/net/fifo_counters.h"
#include "transport/net/ll_lines.h"

namespace collctl::transport {

using kernels::Protocol;

namespace {

std::atomic_ref<uint32_t> record_of(const kernels::Fifo& fifo, uint32_t slot) {
  return std::atomic_ref(fifo.records[slot].bytes);
}

}  // namespace

// LL128's reader may free a slot before the network is done with it.
uint64_t NetLink::limit(const Stage& stage) const {
  return sending() ? load_counter(stage.fifo.tail)
                   : std::min(load_counter(stage.fifo.head), stage.done) + stage.fifo.slot_count;
}

NetLink::~NetLink() {
  if (connection_->let_go()) return;
  struct Slots {
    base::Mapping memory, staging;
    PinnedMemory pinned;
    DeviceMemory on_device;
    std::shared_ptr<RelayMemory> relay;
  };
  const auto slots = std::make_shared<Slots>();
  slots->memory = std::move(memory_);
  slots->staging = std::move(staging_);
  slots->pinned = std::move(pinned_);
  slots->on_device = std::move(device_memory_);
  slots->relay = std::move(spec_.relay);
  keep_for_ever(slots);
}

Status NetLink::prepare(const Services& services) {
  timed_ = services.timed && sending();
  if (spec_.relay != nullptr)
    COLL_TRY(register_relays_slots());
  else
    try_device_slots(services);
  FifoLayout layout;
  COLL_ASSIGN(void* const block, make_block(services, layout));
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    if (layout.parts[p].geometry.slot_bytes == 0) continue;
    if (Protocol(p) == Protocol::ll128 && !on_device_.has(Protocol::ll128)) continue;
    COLL_TRY(make_stage(Protocol(p), block, layout));
    used_.push_back(&stages_[p]);
  }
  if (!why_.empty()) COLL_INFO(net, "{} : {}: {}", via_, edge_text(spec_), why_);
  return {};
}

Result<void*> NetLink::make_block(const Services& services, FifoLayout& layout) {
  if (spec_.relay != nullptr) {
    layout = spec_.relay->layout();
    return spec_.relay->block();
  }
  COLL_ASSIGN(layout,
              fifo_layout(spec_.geometry, on_device_.protocols | protocol_bit(Protocol::ll128)));
  if (services.device != nullptr) {
    COLL_ASSIGN(pinned_, PinnedMemory::make(services.device, layout.total_bytes));
    return static_cast<void*>(pinned_.data());
  }
  COLL_ASSIGN(memory_, private_fifo_memory(layout));
  return memory_.get();
}

// The rank whose data it is writes there already: there is no other place for it.
Status NetLink::register_relays_slots() {
  if (device_memory().data() == nullptr) return {};
  on_device_ = spec_.relay->on_device();
  Status registered = register_simple();
  if (registered)
    if (auto lines = register_on_device(Protocol::ll128); !lines)
      registered = std::move(lines.error());
  if (registered) return {};
  Error error = std::move(registered.error()).within("send another GPU's data (PXN)");
  if (error.hint.empty()) error.hint = "NCCL_PXN_DISABLE=1 goes without";
  return error;
}

Status NetLink::register_simple() {
  COLL_ASSIGN(const std::string how, register_on_device(Protocol::simple));
  via_ += "/GDRDMA";
  why_ = "GPU memory by " + how;
  return {};
}

// By what means; nothing where the protocol has no slots there.
Result<std::string> NetLink::register_on_device(Protocol protocol) {
  std::string how;
  if (!on_device_.has(protocol)) return how;
  COLL_ASSIGN(stages_[size_t(protocol)].memory,
              connection_->register_device_memory(
                  device_memory().data() + on_device_.at[int(protocol)],
                  exported_bytes(spec_.geometry[int(protocol)]), protocol == Protocol::ll128, how));
  return how;
}

// Slots lie in the GPU's memory where the network reads and writes that, proven by its taking them.
// Else those of Simple lie with the host's, and there are none of LL128.
void NetLink::try_device_slots(const Services& services) {
  const DeviceSlots wanted = device_slots(spec_.geometry);
  if (services.device == nullptr || wanted.bytes == 0 || !connection_->may_reach_devices()) return;
  const auto stage_on_host = [&](const std::string& reason) {
    device_memory_ = {};
    on_device_ = {};
    why_ = "staged in host memory: " + reason;
  };
  const NicGdr& rule = spec_.nic.gdr;
  const std::string& forbidden = sending() ? rule.no_read : rule.no_write;
  if (!forbidden.empty()) return stage_on_host(forbidden);
  auto memory = DeviceMemory::make(services.device, wanted.bytes, false);
  if (!memory) return stage_on_host(memory.error().chain());
  device_memory_ = std::move(*memory);
  on_device_ = wanted;
  if (Status simple = register_simple(); !simple) return stage_on_host(simple.error().chain());
  const auto lines = register_on_device(Protocol::ll128);
  if (lines) return;
  on_device_.protocols &= ~protocol_bit(Protocol::ll128);
  why_ += "; no LL128: " + lines.error().chain();
}

Status NetLink::make_stage(Protocol protocol, void* block, const FifoLayout& layout) {
  const FifoGeometry& geometry = layout.parts[int(protocol)].geometry;
  Stage& stage = stages_[size_t(protocol)];
  stage.fifo = fifo_end(block, layout, protocol, spec_);
  stage.fifo.flags = sending() ? kernels::kFifoProxyReads : kernels::kFifoProxyWrites;
  // A host thread's; a GPU's kernel keeps something else where places would be (fifo.h).
  const bool any_memory = protocol == Protocol::simple && connection_->uses_any_memory() &&
                          spec_.self.kind == DeviceKind::cpu;
  if (any_memory && sending()) stage.fifo.flags |= kernels::kFifoSendsLent;
  if (any_memory && !sending()) {
    stage.fifo.flags |= kernels::kFifoPlaces;
    stage.places.resize(geometry.slot_count);
    stage.fifo.places = stage.places.data();
  }
  stage.requests.resize(geometry.slot_count, kNoRequest);
  // The rank whose data it is can wake this one's driver.
  if (spec_.relay != nullptr)
    stage.fifo.consumer_sleeps = &spec_.relay->counters(int(protocol)).consumer_sleeps;
  if (on_device_.has(protocol)) {
    stage.fifo.slots = device_memory().data() + on_device_.at[int(protocol)];
    return {};  // registered
  }
  if (stage.is_ll()) return make_staging(stage);
  COLL_ASSIGN(stage.memory,
              connection_->register_memory(stage.fifo.slots,
                                           size_t(geometry.slot_bytes) * geometry.slot_count));
  return {};
}

Status NetLink::make_staging(Stage& stage) {
  const size_t bytes = size_t(stage.fifo.slot_bytes) * stage.fifo.slot_count / 2;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable, "memory for packed data", errno);
  staging_ = base::Mapping(at, bytes);
  stage.staging = static_cast<uint8_t*>(at);
  COLL_ASSIGN(stage.memory, connection_->register_memory(at, bytes));
  return {};
}

Result<Progress> NetLink::progress(const kernels::Fifo* awaited) {
  const bool waited_for = awaited == nullptr ||
                          std::any_of(used_.begin(), used_.end(),
                                      [&](const Stage* stage) { return &stage->fifo == awaited; });
  return move_by(waited_for ? &NetConnection::progress : &NetConnection::progress_unawaited);
}

Result<Progress> NetLink::flush() {
  return move_by(&NetConnection::flush);
}

Result<Progress> NetLink::move_by(Result<bool> (NetConnection::*carry)()) {
  bool moved = false;
  if (Status done = move(carry, moved); !done)
    return edge_error(spec_, std::move(done.error())).within(via_);
  if (moved) return Progress::moved;
  return connection_->idle() ? Progress::idle : Progress::would_block;
}

Status NetLink::move(Result<bool> (NetConnection::*carry)(), bool& moved) {
  if (withdrawn()) return {};
  bool posted = false;
  for (Stage* stage : used_) {
    const uint64_t seen = limit(*stage);
    // A GPU's lines may come behind their tail, but soon: not the time to sleep.
    moved |= stage->is_ll() && sending() && seen != stage->seen;
    stage->seen = seen;
    if (stage->posted < stage->seen) {
      COLL_TRY(post(*stage, moved));
      posted = true;
    }
    if (!stage->places.empty()) pass_on_places(*stage);
  }
  COLL_ASSIGN(const bool carried, (connection_.get()->*carry)());
  moved |= carried;
  if (posted || carried || connection_->finishes_alone())
    for (Stage* stage : used_)
      if (stage->done < stage->posted) COLL_TRY(complete(*stage, moved));
  if (timed_) count_time();
  return {};
}

bool NetLink::withdrawn() {
  for (const Stage* stage : used_)
    for (uint64_t step = stage->done; step < stage->lent && !withdrawn_; ++step)
      withdrawn_ = record_of(stage->fifo, stage->index(step)).load() == kernels::kSlotTakenBack;
  return withdrawn_;
}

void NetLink::count_time() {
  const int64_t now = base::now_ns();
  if (carries_) carried_ns_.fetch_add(uint64_t(now - looked_ns_), std::memory_order_relaxed);
  looked_ns_ = now;
  carries_ = std::any_of(used_.begin(), used_.end(),
                         [&](const Stage* stage) { return limit(*stage) > stage->done; });
}

// A receive that is posted moves nothing yet: without news from the peer the driver may sleep.
Status NetLink::post(Stage& stage, bool& moved) {
  while (stage.posted < stage.seen) {
    COLL_ASSIGN(const NetRequest request, sending() ? post_send(stage) : post_recv(stage));
    if (request == kNoRequest) break;
    stage.requests[stage.index(stage.posted)] = request;
    ++stage.posted;
    moved |= sending();
  }
  return {};
}

Status NetLink::check_claim(const Stage& stage, uint32_t bytes) {
  if (bytes <= stage.fifo.slot_bytes && bytes % stage.line_bytes() == 0) return {};
  return Error(ErrorCode::defect, format("step {} claims {} bytes in a slot of {}", stage.posted,
                                         bytes, stage.fifo.slot_bytes));
}

Result<NetRequest> NetLink::post_send(Stage& stage) {
  if (stage.is_ll()) return post_lines(stage);
  const uint64_t step = stage.posted;
  uint32_t bytes = record_of(stage.fifo, stage.index(step)).load();
  const uint8_t* from = stage.slot(step);
  if (bytes == kernels::kSlotTakenBack) {
    withdrawn_ = true;
    return kNoRequest;
  }
  if (bytes == kernels::kSlotLends) {
    stage.lent = step + 1;
    kernels::Lent lent;
    std::memcpy(&lent, from, sizeof lent);
    from = reinterpret_cast<const uint8_t*>(lent.address);  // NOLINT(performance-no-int-to-ptr)
    bytes = uint32_t(std::min<uint64_t>(lent.bytes, UINT32_MAX));
  }
  COLL_TRY(check_claim(stage, bytes));
  return connection_->post_send(int(stage.fifo.protocol), from, bytes, stage.memory);
}

// A GPU's tail, record and lines come in any order (fifo.h).
Result<NetRequest> NetLink::post_lines(Stage& stage) {
  const uint64_t step = stage.posted;
  const auto flag = uint32_t(step + 1);
  kernels::SlotRecord& there = stage.fifo.records[stage.index(step)];
  const auto record = std::bit_cast<kernels::SlotRecord>(
      std::atomic_ref(reinterpret_cast<uint64_t&>(there)).load(std::memory_order_acquire));
  if (record.mark != flag) return kNoRequest;
  COLL_TRY(check_claim(stage, record.bytes));
  const uint32_t lines = record.bytes / stage.line_bytes();
  uint8_t* const packed = stage.packed_slot(step);
  stage.packed = pack_lines(stage.slot(step), stage.packed, lines, flag, packed);
  if (stage.packed < lines) return kNoRequest;
  COLL_ASSIGN(const NetRequest request, connection_->post_send(int(stage.fifo.protocol), packed,
                                                               record.bytes / 2, stage.memory));
  if (request != kNoRequest) stage.packed = 0;
  return request;
}

Result<NetRequest> NetLink::post_recv(Stage& stage) {
  const uint64_t step = stage.posted;
  const uint32_t capacity = stage.fifo.slot_bytes / (stage.is_ll() ? 2 : 1);
  uint8_t* const to = stage.is_ll() ? stage.packed_slot(step) : stage.slot(step);
  return connection_->post_recv(int(stage.fifo.protocol), to, capacity, stage.memory);
}

void NetLink::pass_on_places(Stage& stage) {
  if (taken_back_) return;
  stage.placed = std::max(stage.placed, stage.done);
  for (; stage.placed < stage.posted; ++stage.placed) {
    const uint32_t index = stage.index(stage.placed);
    kernels::Place& place = stage.places[index];
    // Pairs with the release of the block: the rest is written.
    if (std::atomic_ref(place.step).load(std::memory_order_acquire) != stage.placed + 1) return;
    if (place.bytes <= stage.fifo.slot_bytes)
      connection_->receive_at(
          stage.requests[index],
          reinterpret_cast<void*>(place.address),  // NOLINT(performance-no-int-to-ptr)
          uint32_t(place.bytes));
  }
}

void NetLink::join(Link& sends) {
  if (auto* const other = dynamic_cast<NetLink*>(&sends)) connection_->join(*other->connection_);
}

void NetLink::take_back() {
  for (Stage* stage : used_) {
    if (stage->places.empty()) continue;
    for (uint64_t step = stage->done; step < stage->posted; ++step)
      connection_->receive_at(stage->requests[stage->index(step)], nullptr, 0);
  }
  taken_back_ = true;
}

Status NetLink::complete(Stage& stage, bool& moved) {
  const uint64_t first = stage.done;
  while (stage.done < stage.posted) {
    COLL_ASSIGN(const NetDone result, connection_->test(stage.requests[stage.index(stage.done)]));
    if (!result.done) break;
    if (!sending()) COLL_TRY(announce(stage, result));
    ++stage.done;
  }
  if (stage.done == first) return {};
  if (sending()) publish(stage.fifo.head, stage.done, stage.fifo.producer_sleeps);
  moved = true;
  return {};
}

Status NetLink::announce(Stage& stage, const NetDone& arrived) {
  const uint64_t step = stage.done;
  const uint32_t bytes = arrived.bytes;
  const uint32_t line = stage.line_bytes() / (stage.is_ll() ? 2 : 1);
  if (bytes % line != 0)
    return Error(ErrorCode::lost, format("{} sent {} bytes, but whole {}-byte lines were expected",
                                         peer_text(spec_.peer), bytes, line));
  if (stage.is_ll()) {
    // Before the lines: whoever sees one of them may ask how many there are.
    std::atomic_ref<uint32_t>(stage.fifo.records[stage.index(step)].bytes)
        .store(bytes * 2, std::memory_order_relaxed);
    unpack_lines(stage.packed_slot(step), bytes / 8,
                 {stage.slot(step), stage.fifo.slot_bytes, stage.fifo.slot_count, step});
  } else {
    stage.fifo.records[stage.index(step)].bytes =
        arrived.placed ? bytes | kernels::kSlotPlaced : bytes;
  }
  publish(stage.fifo.tail, step + 1, stage.fifo.consumer_sleeps);
  return {};
}

void NetLink::add_interest(std::vector<pollfd>& fds) {
  if (withdrawn()) return;
  connection_->add_interest(fds);
  if (spec_.relay != nullptr) fds.push_back({spec_.relay->bell(), POLLIN, 0});
}

// A send end moves when the block publishes; a receive end when the block frees a slot that must
// be told to the peer. Credit and data from the peer come through the descriptors.
bool NetLink::arm() {
  bool quiet = true;
  for (Stage* stage : used_) {
    arm_word(sending() ? stage->fifo.consumer_sleeps : stage->fifo.producer_sleeps);
    quiet &= withdrawn_ || limit(*stage) == stage->seen;
  }
  return connection_->arm() && quiet;
}

void NetLink::disarm() {
  for (Stage* stage : used_)
    disarm_word(sending() ? stage->fifo.consumer_sleeps : stage->fifo.producer_sleeps);
  if (spec_.relay != nullptr) base::drain_bell(spec_.relay->bell());
  connection_->disarm();
}

bool NetLink::drained() const {
  if (!connection_->idle() || !connection_->delivered()) return false;
  if (!sending()) return true;
  return std::all_of(used_.begin(), used_.end(), [](const Stage* stage) {
    return stage->posted == stage->done && load_counter(stage->fifo.tail) == stage->posted;
  });
}

void NetLink::attach_bell(int fd) {
  for (Stage* stage : used_) stage->fifo.bell_fd = fd;
  connection_->attach_bell(fd);
}

}  // namespace collctl::transport
