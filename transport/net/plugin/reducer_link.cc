// The link: slots into the network's all-reduces and out of them.
#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/edge.h"
#include "transport/memory/kept.h"
#include "transport/nccl_numbers.h"
#include "transport/net/fifo_counters.h"
#include "transport/net/plugin/reducer.h"

namespace collctl::transport {

using kernels::DataType;
using kernels::Protocol;
using kernels::RedOp;

namespace {

constexpr int64_t kCloseMs = 200;  // what is in flight after a failure may end

uint8_t* slot_of(const kernels::Fifo& fifo, uint64_t step) {
  return fifo.slots + size_t(step % fifo.slot_count) * fifo.slot_bytes;
}

}  // namespace

ReducerLink::ReducerLink(const ReducerSpec& spec, std::shared_ptr<NetPlugin> plugin, int device,
                         void* group, PluginTimer timer)
    : spec_(spec),
      plugin_(std::move(plugin)),
      via_(format("COLLNET/{}/{}", plugin_->reducer()->entry().name, device)),
      group_(group),
      timer_(std::move(timer)) {}

const CollNetPluginCalls& ReducerLink::calls() const {
  return collective_calls(plugin_->reducer()->entry());
}

Error ReducerLink::broken(const char* call, int code) const {
  return net_plugin_error(plugin_->reducer()->entry(), call, code, ErrorCode::lost)
      .within(format("{} of {}, channel {}", via_, peer_text(spec_.self), spec_.channel));
}

// Memory for both ways, known to the plugin.
Status ReducerLink::prepare(const Services& services) {
  LinkSpec both{.channel = spec_.channel, .self = spec_.self, .peer = spec_.self};
  both.geometry[int(Protocol::simple)] = spec_.geometry;
  COLL_ASSIGN(const FifoLayout layout, fifo_layout(both.geometry));
  kernels::Fifo* const fifos[] = {&inputs_, &sums_};
  for (int way = 0; way < 2; ++way) {
    void* block = nullptr;
    if (services.device != nullptr) {
      COLL_ASSIGN(memory_->pinned[way], PinnedMemory::make(services.device, layout.total_bytes));
      block = memory_->pinned[way].data();
    } else {
      COLL_ASSIGN(memory_->plain[way], private_fifo_memory(layout));
      block = memory_->plain[way].get();
    }
    *fifos[way] = fifo_end(block, layout, Protocol::simple, both);
    const NetPluginCode code = calls().register_memory(
        group_, fifos[way]->slots, size_t(fifos[way]->slot_bytes) * fifos[way]->slot_count,
        kNetPluginHost, &handles_[way]);
    if (code != kNetPluginOk)
      return net_plugin_error(plugin_->reducer()->entry(), "regMr", code, ErrorCode::unavailable);
    ++registered_;
  }
  inputs_.flags = kernels::kFifoProxyReads | kernels::kFifoReduces;
  sums_.flags = kernels::kFifoProxyWrites;
  steps_.resize(inputs_.slot_count);
  return {};
}

ReducerLink::~ReducerLink() {
  const Deadline deadline = Deadline::after_ms(kCloseMs);
  while (done_ < posted_ && !deadline.passed()) {
    const auto done = oldest_is_done();
    if (done && !*done) {
      base::sleep_until(Deadline::after_ms(1));
      continue;
    }
    ++done_;  // over, either way
    oldest_done_ = false;
  }
  const auto note = [&](const char* call, NetPluginCode code) {
    if (code != kNetPluginOk) COLL_INFO(net, "{}", broken(call, code).message);
    return code == kNetPluginOk;
  };
  bool given_back = done_ == posted_;
  if (given_back)
    for (int way = 0; way < registered_; ++way)
      given_back &= note("deregMr", calls().deregister(group_, handles_[way]));
  given_back &= note("closeColl", calls().close_group(group_));
  if (!given_back) keep_for_ever(std::shared_ptr<Memory>(std::move(memory_)));
}

kernels::Fifo* ReducerLink::fifo(Protocol protocol) {
  return protocol == Protocol::simple ? &inputs_ : nullptr;
}

// Steps that may be posted: the block has filled the slot and freed the one for its sum.
uint64_t ReducerLink::limit() {
  return std::min(load_counter(inputs_.tail), load_counter(sums_.head) + sums_.slot_count);
}

Result<ReducerLink::Step> ReducerLink::step_of(uint64_t number) const {
  const kernels::SlotRecord& record = inputs_.records[number % inputs_.slot_count];
  const uint32_t code = record.mark - 1;
  const uint32_t type = code >> 8, op = code & 0xff;
  if (record.mark == 0 || type >= uint32_t(kernels::kDataTypeCount) ||
      op >= uint32_t(kernels::kRedOpCount) || record.bytes > inputs_.slot_bytes ||
      record.bytes % kernels::element_size(DataType(type)) != 0)
    return Error(ErrorCode::defect,
                 format("step {} for the network claims {} bytes, reduction {:#x}", number,
                        record.bytes, record.mark));
  return Step{.bytes = record.bytes, .type = DataType(type), .op = RedOp(op)};
}

Result<bool> ReducerLink::post() {
  const uint64_t first = posted_, end = seen_ = limit();
  while (posted_ < end && posted_ - done_ < uint64_t(calls().most_requests())) {
    COLL_ASSIGN(Step step, step_of(posted_));
    // An average is a sum, divided here.
    const RedOp op = step.op == RedOp::avg ? RedOp::sum : step.op;
    const NetPluginCode code =
        calls().all_reduce(group_, slot_of(inputs_, posted_), slot_of(sums_, posted_),
                           step.bytes / kernels::element_size(step.type), nccl_type(step.type),
                           nccl_op(op), handles_[0], handles_[1], &step.request);
    if (code != kNetPluginOk) return broken("iallreduce", code);
    if (step.request == nullptr) break;  // not now
    steps_[posted_ % steps_.size()] = step;
    ++posted_;
  }
  return posted_ != first;
}

Result<bool> ReducerLink::oldest_is_done() {
  if (oldest_done_ || done_ == posted_) return oldest_done_;
  int done = 0, bytes = 0;
  const NetPluginCode code = calls().test(steps_[done_ % steps_.size()].request, &done, &bytes);
  if (code != kNetPluginOk) return broken("test", code);
  if (done != 0) timer_.moved();
  return oldest_done_ = done != 0;
}

// Sums that have arrived: what is an average is divided, the block may have it.
Result<bool> ReducerLink::take() {
  const uint64_t first = done_;
  while (done_ < posted_) {
    COLL_ASSIGN(const bool done, oldest_is_done());
    if (!done) break;
    oldest_done_ = false;
    const Step& step = steps_[done_ % steps_.size()];
    const uint64_t count = step.bytes / kernels::element_size(step.type);
    if (step.op == RedOp::avg) spec_.divide(step.type, slot_of(sums_, done_), count, spec_.ranks);
    sums_.records[done_ % sums_.slot_count].bytes = step.bytes;
    ++done_;
    publish(inputs_.head, done_, inputs_.producer_sleeps);
    publish(sums_.tail, done_, sums_.consumer_sleeps);
  }
  return done_ != first;
}

Result<Progress> ReducerLink::progress(const kernels::Fifo*) {
  if (error_) return *error_;
  const auto posted = post();
  if (!posted) return *(error_ = posted.error());
  const auto taken = take();
  if (!taken) return *(error_ = taken.error());
  if (*taken || *posted) return Progress::moved;
  return done_ == posted_ ? Progress::idle : Progress::would_block;
}

void ReducerLink::add_interest(std::vector<pollfd>& fds) {
  fds.push_back({timer_.fd(), POLLIN, 0});
}

bool ReducerLink::arm() {
  arm_word(inputs_.consumer_sleeps);
  arm_word(sums_.producer_sleeps);
  if (error_ || limit() != seen_) return false;
  auto done = oldest_is_done();
  if (!done) error_ = std::move(done.error());
  if (error_ || *done) return false;
  // Nothing else tells when the network is done, or takes what it refused.
  if (done_ != posted_ || posted_ != seen_) timer_.set();
  return true;
}

void ReducerLink::disarm() {
  disarm_word(inputs_.consumer_sleeps);
  disarm_word(sums_.producer_sleeps);
  timer_.drain();
}

bool ReducerLink::drained() const {
  return done_ == posted_ && load_counter(inputs_.tail) == posted_;
}

void ReducerLink::attach_bell(int fd) {
  inputs_.bell_fd = sums_.bell_fd = fd;
}

}  // namespace collctl::transport
