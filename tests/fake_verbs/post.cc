// Posting: what is refused at once, and with which error number.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/fake_verbs/pair.h"
#include "tests/fake_verbs/refusals.h"

namespace fake_verbs {
namespace {

constexpr unsigned kFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

bool known(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
         opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

int refuse(QueuePair& pair, const ibv_send_wr& wr) {
  const ibv_qp_state state = pair.state();
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR) return EINVAL;
  if (!known(wr.opcode) || (wr.send_flags & ~kFlags) != 0) return EINVAL;
  if (wr.num_sge < 0 || uint32_t(wr.num_sge) > pair.capacity.max_send_sge) return EINVAL;
  if (pair.posted - pair.retired >= pair.capacity.max_send_wr) return ENOMEM;
  uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  const bool inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (inlined && (wr.opcode == IBV_WR_RDMA_READ || bytes > pair.capacity.max_inline_data))
    return EINVAL;
  return 0;
}

// The data of an inline request is taken now; its keys are not looked at.
void take_inline(QueuePair& pair, Request& request, const ibv_send_wr& wr) {
  uint8_t* to = pair.inline_of(pair.posted);
  for (int i = 0; i < wr.num_sge; ++i) {
    if (wr.sg_list[i].length == 0) continue;
    std::memcpy(to, reinterpret_cast<const void*>(wr.sg_list[i].addr), wr.sg_list[i].length);
    to += wr.sg_list[i].length;
  }
  request.pieces = 0;
}

void take(QueuePair& pair, const ibv_send_wr& wr) {
  Request& request = pair.request(pair.posted);
  request.id = wr.wr_id;
  request.opcode = wr.opcode;
  request.flags = wr.send_flags | (pair.all_signaled ? unsigned(IBV_SEND_SIGNALED) : 0u);
  request.immediate = request.has_immediate() ? wr.imm_data : 0;
  request.remote_address = request.is_send() ? 0 : wr.wr.rdma.remote_addr;
  request.remote_key = request.is_send() ? 0 : wr.wr.rdma.rkey;
  request.posted_ns = now_ns();
  request.bytes = 0;
  request.pieces = wr.num_sge;
  for (int i = 0; i < wr.num_sge; ++i) {
    request.piece[i] = wr.sg_list[i];
    request.bytes += wr.sg_list[i].length;
  }
  request.judged = request.corrupt = request.revoke = request.awaits_ack = false;
  request.losses = request.ack_losses = 0;
  request.forced_status = -1;
  request.due_ns = request.reorder_ns = request.tear_ns = 0;
  log_request(pair, request, uint8_t(wr.opcode), uint8_t(wr.num_sge));
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) take_inline(pair, request, wr);
  ++pair.posted;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad) {
  *bad = wr;
  if (!ours(base->context, "ibv_post_send")) return EPERM;
  if (const int error = refused("ibv_post_send"); error != 0) return error;
  local().offered.fetch_add(1, std::memory_order_release);
  QueuePair& pair = *pair_of(base);
  std::lock_guard hold(pair.lock);
  if (world().devices[pair.shared().device].broken) return EIO;
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (const int error = refuse(pair, *wr)) return error;
    take(pair, *wr);
    if (pair.state() == IBV_QPS_ERR)
      pair.flush();
    else if (local().setup().late)
      pair.wait_until(0);
    else
      pair.advance();
  }
  return 0;
}

int refuse(const QueuePair& pair, const Pair& shared, const ibv_recv_wr& wr) {
  if (shared.state == IBV_QPS_RESET) return EINVAL;
  if (wr.num_sge < 0 || uint32_t(wr.num_sge) > pair.capacity.max_recv_sge) return EINVAL;
  if (shared.posted - pair.receives_retired >= pair.capacity.max_recv_wr) return ENOMEM;
  return 0;
}

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  *bad = wr;
  if (!ours(base->context, "ibv_post_recv")) return EPERM;
  if (const int error = refused("ibv_post_recv"); error != 0) return error;
  local().offered.fetch_add(1, std::memory_order_release);
  QueuePair& pair = *pair_of(base);
  Pair& shared = pair.shared();
  if (world().devices[shared.device].broken) return EIO;
  {
    Locked hold(shared.receive_lock);
    for (; wr != nullptr; wr = wr->next) {
      *bad = wr;
      if (const int error = refuse(pair, shared, *wr)) return error;
      Receive& receive = arena<Receive>(shared.ring)[shared.posted % shared.capacity];
      receive.id = wr->wr_id;
      receive.pieces = wr->num_sge;
      std::copy_n(wr->sg_list, wr->num_sge, receive.piece);
      log_receive(pair, *wr);
      ++shared.posted;
    }
  }
  if (shared.state != IBV_QPS_ERR) return 0;
  Locked hold(shared.lock);
  flush_receives(shared);
  return 0;
}

}  // namespace

void set_post_operations(ibv_context_ops& ops) {
  ops.post_send = post_send;
  ops.post_recv = post_recv;
}

}  // namespace fake_verbs
