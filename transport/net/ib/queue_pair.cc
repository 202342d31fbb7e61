#include "transport/net/ib/queue_pair.h"

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/socket.h"
#include "base/wait.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kRnrTimer = 12;   // 0.64 ms
constexpr int kRnrRetries = 7;  // for ever: there is always a receive
constexpr int kHopLimit = 255;
constexpr uint32_t kReceiveChain = 8;
constexpr int kResolveTries = 34;    // of a change of state, while addresses are resolved
constexpr int64_t kResolveMs = 100;  // longer each time

Error failed(const IbPort& port, const std::string& what, int code) {
  return base::errno_error(ErrorCode::unavailable, format("{}: {}", port.text(), what), code);
}

bool may_pass(int code) {
  return code == ETIMEDOUT || code == EAGAIN || code == EHOSTUNREACH || code == ENETUNREACH;
}

}  // namespace

Result<IbCompletions> IbCompletions::make(IbDevice& device, uint32_t entries) {
  if (int64_t(entries) > device.facts().max_cq_entries)
    return Error(ErrorCode::unavailable,
                 format("{} has completion queues of at most {} entries, a connection needs {}",
                        device.name(), device.facts().max_cq_entries, entries),
                 "use fewer steps (COLLCTL_STEPS) or queue pairs "
                 "(COLLCTL_IB_QPS_PER_CONNECTION)");
  IbCompletions made;
  made.channel_ = verbs().make_channel(device.context());
  if (made.channel_ == nullptr)
    return base::errno_error(ErrorCode::unavailable,
                             format("{}: create a completion channel", device.name()), errno);
  COLL_TRY(base::set_non_blocking(made.channel_->fd));
  made.cq_ = verbs().make_cq(device.context(), int(entries), nullptr, made.channel_, 0);
  if (made.cq_ == nullptr) {
    Error error = base::errno_error(
        ErrorCode::unavailable,
        format("{}: create a completion queue of {} entries", device.name(), entries), errno);
    error.hint = "ulimit -l must be unlimited for RDMA (limits.conf, or --ulimit memlock=-1)";
    return error;
  }
  return made;
}

IbCompletions::IbCompletions(IbCompletions&& other) noexcept {
  *this = std::move(other);
}

IbCompletions& IbCompletions::operator=(IbCompletions&& other) noexcept {
  std::swap(channel_, other.channel_);
  std::swap(cq_, other.cq_);
  return *this;
}

IbCompletions::~IbCompletions() {
  if (cq_ != nullptr) verbs().destroy_cq(cq_);
  if (channel_ != nullptr) verbs().destroy_channel(channel_);
}

Error IbCompletions::gone() {
  return Error(ErrorCode::lost, "the adapter no longer responds",
               "dmesg on this host; the adapter may need a reset");
}

Status IbCompletions::arm() {
  const int code = cq_->context->notify(cq_, 0);
  if (code == 0) return {};
  return base::errno_error(ErrorCode::lost, "wait for completions", code < 0 ? errno : code);
}

void IbCompletions::take_events() {
  VerbsCq* cq = nullptr;
  void* user = nullptr;
  while (verbs().get_cq_event(channel_, &cq, &user) == 0) verbs().ack_cq_events(cq, 1);
}

Result<IbQueuePair> IbQueuePair::make(const IbPort& port, IbCompletions& completions,
                                      const IbQueueSizes& sizes, int access,
                                      const IbSettings& settings, IbCompletions* receives) {
  VerbsQpWanted wanted{};
  wanted.send_cq = completions.get();
  wanted.recv_cq = (receives != nullptr ? receives : &completions)->get();
  wanted.sizes = {.send_work = sizes.sends,
                  .recv_work = sizes.receives,
                  .send_pieces = 1,
                  .recv_pieces = 1,
                  .inline_bytes = sizes.inline_bytes};
  wanted.type = kReliableConnection;
  IbQueuePair made;
  made.qp_ = verbs().make_qp(port.device->domain(), &wanted);
  if (made.qp_ == nullptr && sizes.inline_bytes != 0) {  // not every adapter can
    wanted.sizes.inline_bytes = 0;
    made.qp_ = verbs().make_qp(port.device->domain(), &wanted);
  }
  if (made.qp_ == nullptr) {
    Error error = failed(port,
                         format("create a queue pair for {} sends and {} receives (the device: {} "
                                "queue pairs of {} requests)",
                                sizes.sends, sizes.receives, port.device->facts().max_qp,
                                port.device->facts().max_qp_work),
                         errno);
    error.hint =
        "ulimit -l must be unlimited for RDMA; fewer channels (COLLCTL_MAX_NCHANNELS) need "
        "fewer queue pairs";
    return error;
  }
  made.inline_bytes_ = wanted.sizes.inline_bytes;
  made.port_ = port.text();
  VerbsQpFacts facts{};
  facts.state = kQpInit;
  facts.key_index = uint16_t(settings.key_index);
  facts.port = port.number;
  facts.access = uint32_t(access);
  const int code =
      verbs().modify_qp(made.qp_, &facts, kQpState | kQpKeyIndex | kQpPort | kQpAccess);
  if (code != 0) {
    Error error = failed(port, "prepare a queue pair", code);
    if (settings.key_index != 0)
      error.hint =
          format("is there a partition key with index {} (COLLCTL_IB_PKEY)?", settings.key_index);
    return error;
  }
  return made;
}

IbQueuePair::IbQueuePair(IbQueuePair&& other) noexcept {
  *this = std::move(other);
}

IbQueuePair& IbQueuePair::operator=(IbQueuePair&& other) noexcept {
  std::swap(qp_, other.qp_);
  std::swap(inline_bytes_, other.inline_bytes_);
  std::swap(port_, other.port_);
  return *this;
}

IbQueuePair::~IbQueuePair() {
  if (qp_ != nullptr) verbs().destroy_qp(qp_);
}

Status IbQueuePair::connect(const IbPort& port, const IbPath& path, const IbSettings& settings,
                            Deadline deadline) {
  VerbsQpFacts facts{};
  facts.state = kQpReadyToReceive;
  facts.path_mtu = path.mtu;
  facts.peer_qp = path.peer_qp;
  facts.reads_in = path.reads_in;
  facts.rnr_timer = kRnrTimer;
  facts.route.lid = path.lid;
  facts.route.service_level = uint8_t(settings.service_level);
  facts.route.port = port.number;
  if (path.global) {
    facts.route.is_global = 1;
    facts.route.gid = path.gid;
    facts.route.gid_index = path.gid_index;
    facts.route.hop_limit = kHopLimit;
    facts.route.traffic_class = uint8_t(settings.traffic_class);
  }
  const int ready =
      kQpState | kQpRoute | kQpPathMtu | kQpPeer | kQpReceivePsn | kQpReadsIn | kQpRnrTimer;
  int code = verbs().modify_qp(qp_, &facts, ready);
  for (int tries = 1; may_pass(code) && tries < kResolveTries && !deadline.passed(); ++tries) {
    base::sleep_until(deadline.earlier(Deadline::after_ns(kResolveMs * 1'000'000 * tries)));
    code = verbs().modify_qp(qp_, &facts, ready);
  }
  if (code != 0) {
    Error error = failed(port,
                         path.global ? format("find the path to {}", gid_text(path.gid))
                                     : format("find the path to LID {}", path.lid),
                         code);
    error.code = may_pass(code) ? ErrorCode::lost : ErrorCode::unavailable;
    error.hint =
        "do the two ports reach each other (ping between their addresses, or ibping)? "
        "COLLCTL_IB_HCA and COLLCTL_IB_GID_INDEX choose others";
    return error;
  }
  facts = {};
  facts.state = kQpReadyToSend;
  facts.timeout = uint8_t(settings.timeout);
  facts.retries = uint8_t(settings.retries);
  facts.rnr_retries = kRnrRetries;
  facts.reads_out = path.reads_out;
  code = verbs().modify_qp(
      qp_, &facts, kQpState | kQpTimeout | kQpRetries | kQpRnrRetries | kQpSendPsn | kQpReadsOut);
  if (code != 0) return failed(port, "make a queue pair ready to send", code);
  return {};
}

Status IbQueuePair::post_send(VerbsSendWork* first) {
  VerbsSendWork* bad = nullptr;
  const int code = qp_->context->post_send(qp_, first, &bad);
  if (code == 0) return {};
  return base::errno_error(ErrorCode::lost, format("post to QP {} of {}", number(), port_),
                           code < 0 ? -code : code);
}

Status IbQueuePair::post_receives(uint64_t id, uint32_t count) {
  VerbsRecvWork chain[kReceiveChain];
  while (count != 0) {
    const uint32_t now = std::min(count, kReceiveChain);
    for (uint32_t i = 0; i < now; ++i)
      chain[i] = {.id = id,
                  .next = i + 1 < now ? &chain[i + 1] : nullptr,
                  .pieces = nullptr,
                  .piece_count = 0};
    VerbsRecvWork* bad = nullptr;
    if (const int code = qp_->context->post_recv(qp_, chain, &bad); code != 0)
      return base::errno_error(ErrorCode::lost,
                               format("post a receive to QP {} of {}", number(), port_),
                               code < 0 ? -code : code);
    count -= now;
  }
  return {};
}

Status IbQueuePair::retire() {
  VerbsQpFacts facts{};
  facts.state = kQpError;
  const int code = verbs().modify_qp(qp_, &facts, kQpState);
  if (code == 0) return {};
  return base::errno_error(ErrorCode::lost, format("stop QP {}", number()), code);
}

}  // namespace collctl::transport
