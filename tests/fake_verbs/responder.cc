// The responder's part of a request, carried out by the requester's process: it finds the peer,
// looks at states, addresses, keys and receives as the peer's adapter would, copies, and completes
// there.
#include <algorithm>
#include <cstring>

#include "tests/fake_verbs/pair.h"
#include "tests/fake_verbs/transfer.h"

namespace fake_verbs {
namespace {

TransferFaults faults_of(const Request& request) {
  return {request.corrupt, request.tear_ns};
}

// 12 means 0.64 ms: the table of the InfiniBand specification, in units of 10 us.
uint64_t rnr_ns(int code) {
  constexpr uint32_t kTens[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                  16,    24,   32,   48,    64,    96,    128,   192,
                                  256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                  4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t(double(kTens[code & 31]) * 10000 * world().time_scale);
}

bool add_piece(Memory& to, const Pair& owner, const ibv_sge& sge, uint32_t rights) {
  if (sge.length == 0) return true;
  Pinned& pinned = to.pinned[size_t(to.pieces)];
  if (!pinned.pin(sge.lkey, false, owner, sge.addr, sge.length, rights)) return false;
  to.piece[size_t(to.pieces++)] = piece_of(pinned, sge.addr, sge.length);
  to.bytes += sge.length;
  return true;
}

// The memory that the requester sends or reads into. False: a key does not fit.
bool local_memory(QueuePair& from, const Request& request, uint64_t number, Memory& out) {
  out.process = from.shared().process;
  if ((request.flags & IBV_SEND_INLINE) != 0) {
    const Memory plain = plain_memory(from.inline_of(number), request.bytes);
    out.piece = plain.piece;
    out.pieces = request.bytes > 0 ? 1 : 0;
    out.bytes = request.bytes;
    return true;
  }
  const uint32_t rights = request.opcode == IBV_WR_RDMA_READ ? uint32_t(IBV_ACCESS_LOCAL_WRITE) : 0;
  for (int i = 0; i < request.pieces; ++i)
    if (!add_piece(out, from.shared(), request.piece[i], rights)) return false;
  return true;
}

Pair* find(uint32_t number) {
  Pair& pair = world().pairs[number & 0xfff];
  return pair.used && pair.number == number ? &pair : nullptr;
}

bool same_gid(const uint8_t* a, const uint8_t* b) {
  return std::memcmp(a, b, 16) == 0;
}

// Whether packets from the one carry addresses that the other answers to.
bool addressed(const Pair& from, const Port& source, const Pair& to, const Port& target) {
  const ibv_ah_attr& there = from.attr.ah_attr;
  const ibv_ah_attr& back = to.attr.ah_attr;
  if ((there.is_global != 0) != (back.is_global != 0)) return false;
  if (source.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    if (there.dlid != 0 && there.dlid != target.lid) return false;
    if (back.dlid != 0 && back.dlid != source.lid) return false;
  }
  if (there.is_global == 0) return true;
  // RoCE: the header's form is that of the sender's GID, and it has to be the receiver's too.
  return from.source.type == to.source.type && same_gid(there.grh.dgid.raw, to.source.raw) &&
         same_gid(back.grh.dgid.raw, from.source.raw);
}

bool same_partition(uint16_t a, uint16_t b) {
  return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000) != 0;
}

Verdict refuse(Pair& to, ibv_wc_status status, ibv_event_type event) {
  fail_responder(to, event);
  return {Arrival::kRefused, status};
}

void complete_receive(Pair& to, const Receive& receive, const Request& request,
                      ibv_wc_status status) {
  Completion completion{};
  ibv_wc& wc = completion.wc = completion_of(receive.id, status, to.number);
  if (status == IBV_WC_SUCCESS) {
    wc.opcode = request.is_send() ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    wc.byte_len = uint32_t(request.bytes);
    wc.wc_flags = request.has_immediate() ? IBV_WC_WITH_IMM : 0;
    wc.imm_data = request.has_immediate() ? request.immediate : wc.imm_data;
  }
  completion.pair = to.object;
  completion.retires = 1;
  completion.receive = true;
  completion.solicited = (request.flags & IBV_SEND_SOLICITED) != 0;
  push(to.receive_queue, completion);
}

// The next posted receive; false: none.
bool next_receive(Pair& to, Receive& out) {
  Locked hold(to.receive_lock);
  if (to.taken == to.posted) return false;
  out = arena<Receive>(to.ring)[to.taken % to.capacity];
  return true;
}

void take_receive(Pair& to) {
  Locked hold(to.receive_lock);
  ++to.taken;
}

// A remote key of a write or read.
bool remote_memory(const Pair& to, const Request& request, uint32_t rights, Memory& out) {
  out.process = to.process;
  out.bytes = request.bytes;
  if (request.bytes == 0) return true;  // the key is not looked at
  if (!out.pinned[0].pin(request.remote_key, true, to, request.remote_address, request.bytes,
                         rights))
    return false;
  out.piece[0] = piece_of(out.pinned[0], request.remote_address, request.bytes);
  out.pieces = 1;
  return true;
}

Verdict deliver_send(Pair& to, const Request& request, const Memory& source) {
  Receive receive;
  if (!next_receive(to, receive)) return {Arrival::kNotReady, {}, rnr_ns(to.attr.min_rnr_timer)};
  Memory target;
  target.process = to.process;
  bool keys = true;
  for (int i = 0; i < receive.pieces && keys; ++i)
    keys = add_piece(target, to, receive.piece[i], IBV_ACCESS_LOCAL_WRITE);
  take_receive(to);
  if (!keys) {
    complete_receive(to, receive, request, IBV_WC_LOC_PROT_ERR);
    return refuse(to, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
  }
  if (target.bytes < request.bytes) {
    complete_receive(to, receive, request, IBV_WC_LOC_LEN_ERR);
    return refuse(to, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  }
  if (!transfer(source, target, request.bytes, faults_of(request))) return {Arrival::kLost};
  complete_receive(to, receive, request, IBV_WC_SUCCESS);
  return {Arrival::kDone};
}

Verdict deliver_write(Pair& to, const Request& request, const Memory& source) {
  if ((to.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0)
    return refuse(to, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  Memory target;
  if (!remote_memory(to, request, IBV_ACCESS_REMOTE_WRITE, target))
    return refuse(to, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  if (!transfer(source, target, request.bytes, faults_of(request))) return {Arrival::kLost};
  if (!request.has_immediate()) return {Arrival::kDone};
  // The data lies there by then: only the last packet needs the receive.
  Receive receive;
  if (!next_receive(to, receive)) return {Arrival::kNotReady, {}, rnr_ns(to.attr.min_rnr_timer)};
  take_receive(to);
  complete_receive(to, receive, request, IBV_WC_SUCCESS);
  return {Arrival::kDone};
}

Verdict deliver_read(Pair& to, int reads_out, const Request& request, const Memory& into) {
  // A peer with more reads under way than are taken here is refused, though one alone would do.
  if ((to.attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) == 0 || to.attr.max_dest_rd_atomic == 0 ||
      reads_out > to.attr.max_dest_rd_atomic)
    return refuse(to, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  Memory source;
  if (!remote_memory(to, request, IBV_ACCESS_REMOTE_READ, source))
    return refuse(to, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  if (!transfer(source, into, request.bytes, faults_of(request))) return {Arrival::kLost};
  return {Arrival::kDone};
}

Verdict carry_out(const Pair& from, Pair& to, const Request& request, const Memory& here) {
  if (request.is_send()) return deliver_send(to, request, here);
  return request.opcode == IBV_WR_RDMA_READ
             ? deliver_read(to, from.attr.max_rd_atomic, request, here)
             : deliver_write(to, request, here);
}

Request cut(const Request& whole, const Range& range) {
  Request out = whole;
  out.remote_address += range.first;
  out.bytes = range.bytes;
  return out;
}

}  // namespace

ibv_wc completion_of(uint64_t id, ibv_wc_status status, uint32_t number) {
  ibv_wc wc;
  std::memset(&wc, 0xbd, sizeof wc);
  wc.opcode = ibv_wc_opcode(0xbd);  // within the type
  wc.wr_id = id;
  wc.status = status;
  wc.qp_num = number;
  wc.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x80u | uint32_t(status);
  wc.wc_flags = 0;
  return wc;
}

uint32_t mtu_bytes(int code) {
  return uint32_t(128) << code;
}

uint32_t packets(uint64_t bytes, int mtu) {
  const uint64_t size = mtu_bytes(mtu);
  return bytes == 0 ? 1 : uint32_t((bytes + size - 1) / size);
}

bool reaches(const Pair& from, const Pair& to) {
  const Device& here = world().devices[from.device];
  const Device& there = world().devices[to.device];
  const Port& source = here.port[from.port];
  const Port& target = there.port[to.port];
  const bool itself = &from == &to || &source == &target;
  if (here.broken || there.broken) return false;
  if (!source.up || !target.up) return false;
  if (!itself && (!source.plugged || !target.plugged)) return false;
  return source.link_layer == target.link_layer && source.rail == target.rail &&
         to.attr.dest_qp_num == from.number && addressed(from, source, to, target) &&
         same_partition(source.pkeys[from.attr.pkey_index], target.pkeys[to.attr.pkey_index]);
}

void flush_receives(Pair& pair) {
  Request nothing;
  nothing.opcode = IBV_WR_SEND;
  Receive receive;
  while (next_receive(pair, receive)) {
    take_receive(pair);
    complete_receive(pair, receive, nothing, IBV_WC_WR_FLUSH_ERR);
  }
}

void fail_responder(Pair& pair, ibv_event_type event) {
  pair.state = IBV_QPS_ERR;
  pair.flush_sends = true;
  flush_receives(pair);
  tell(pair.process, {event, pair.device, pair.port + 1, pair.object, pair.serial});
}

Verdict deliver(QueuePair& from, const Request& request, uint64_t number, const Range& range) {
  const Pair& mine = from.shared();
  if (request.bytes > world().devices[mine.device].port[mine.port].max_message)
    return {Arrival::kRefused, IBV_WC_LOC_LEN_ERR};
  if (request.opcode == IBV_WR_RDMA_READ && mine.attr.max_rd_atomic == 0)
    return {Arrival::kRefused, IBV_WC_LOC_QP_OP_ERR};
  Memory here;
  if (!local_memory(from, request, number, here)) return {Arrival::kRefused, IBV_WC_LOC_PROT_ERR};
  Pair* to = find(mine.attr.dest_qp_num);
  if (to == nullptr || !process_lives(to->process)) return {Arrival::kLost};
  Locked hold(to->lock);
  const int state = to->state;
  if (!to->used || to->number != mine.attr.dest_qp_num ||
      (state != IBV_QPS_RTR && state != IBV_QPS_RTS))
    return {Arrival::kLost};
  if (!reaches(mine, *to)) return {Arrival::kLost};
  // Packets longer than the other side's, or of a length that is not its path's, are thrown away.
  const int mtu = std::min(mine.attr.path_mtu, to->attr.path_mtu);
  if (mine.attr.path_mtu != to->attr.path_mtu && request.bytes > mtu_bytes(mtu))
    return {Arrival::kLost};
  const uint32_t ahead = (from.psn - uint32_t(to->expected_psn)) & 0xffffff;
  if (ahead != 0 && ahead < 1u << 23) return {Arrival::kGap};
  if (ahead != 0) return {Arrival::kDone};  // a packet that was seen: acknowledged, and thrown away
  if (request.revoke) revoke_key(request.remote_key);
  const Verdict verdict =
      range.bytes == request.bytes
          ? carry_out(mine, *to, request, here)
          : carry_out(mine, *to, cut(request, range), part(here, range.first, range.bytes));
  if (verdict.arrival == Arrival::kDone)
    to->expected_psn = (to->expected_psn + range.packets) & 0xffffff;
  return verdict;
}

}  // namespace fake_verbs
