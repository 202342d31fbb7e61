// The requester's part: requests in order, retries, what ends them, and flushing.
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/fake_verbs/pair.h"

namespace fake_verbs {
namespace {

constexpr uint64_t kForever = ~0ull;

// 4.096 us times 2^t; 0 is for ever.
uint64_t timeout_ns(const Pair& shared) {
  if (shared.attr.timeout == 0) return kForever;
  return uint64_t(4096.0 * double(1ull << shared.attr.timeout) * world().time_scale);
}

ibv_wc_opcode completed_opcode(ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM) return IBV_WC_SEND;
  return opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

}  // namespace

void QueuePair::wait_until(uint64_t due_ns) {
  engine_due = due_ns;
  ring(local().process());
}

uint64_t QueuePair::advance_from_engine() {
  std::lock_guard hold(lock);
  engine_due = ~0ull;
  advance(true);
  return engine_due;
}

void QueuePair::complete(Request& done, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && (done.flags & IBV_SEND_SIGNALED) == 0) return;
  Completion completion{};
  completion.wc = completion_of(done.id, status, base.qp_num);
  if (status == IBV_WC_SUCCESS) completion.wc.opcode = completed_opcode(done.opcode);
  if (status == IBV_WC_SUCCESS && done.opcode == IBV_WR_RDMA_READ)
    completion.wc.byte_len = uint32_t(done.bytes);
  completion.pair = reinterpret_cast<uint64_t>(this);
  // A slot is free again when a completion of its request, or of a later one, was polled.
  completion.retires = uint32_t(next + 1 - reported);
  reported = next + 1;
  push(shared().send_queue, completion);
}

void QueuePair::flush() {
  while (next < posted) {
    complete(request(next), IBV_WC_WR_FLUSH_ERR);
    ++next;
  }
  shared().flush_sends = false;
  engine_due = ~0ull;
}

void QueuePair::fail() {
  Pair& mine = shared();
  {
    Locked against_peer(mine.lock);
    mine.state = IBV_QPS_ERR;
    flush_receives(mine);
  }
  flush();
}

void QueuePair::advance(bool engine) {
  if (shared().flush_sends) flush();
  while (next < posted) {
    if (state() == IBV_QPS_ERR) return flush();
    if (state() != IBV_QPS_RTS) return;
    Request& current = request(next);
    if (!current.judged) judge(*this, current);
    if (current.due_ns != 0 && current.due_ns > now_ns()) return wait_until(current.due_ns);
    const bool any_order = current.reorder_ns > 0 && current.opcode == IBV_WR_RDMA_WRITE;
    if (any_order && !engine) return wait_until(0);
    if (!(any_order ? carry_out_in_any_order() : carry_out(current))) return;
  }
}

// False: it waits, or the pair failed.
bool QueuePair::carry_out(Request& current) {
  if (current.awaits_ack) {  // and its time is over
    current.awaits_ack = false;
    if (retries_left == 0) return end_with(current, IBV_WC_RETRY_EXC_ERR);
    --retries_left;
  }
  const Verdict verdict = current.forced_status >= 0
                              ? Verdict{Arrival::kRefused, ibv_wc_status(current.forced_status)}
                              : transmit(current);
  switch (verdict.arrival) {
    case Arrival::kDone:
      done_with(current);
      return true;
    case Arrival::kLost:
    case Arrival::kGap: {
      const uint64_t wait = timeout_ns(shared());
      current.awaits_ack = true;
      current.due_ns = wait == kForever ? kForever : now_ns() + wait;
      wait_until(current.due_ns);
      return false;
    }
    case Arrival::kNotReady:
      if (rnr_left == 0) return end_with(current, IBV_WC_RNR_RETRY_EXC_ERR);
      if (rnr_left != 7) --rnr_left;  // 7 is for ever
      current.due_ns = now_ns() + verdict.rnr_ns;
      wait_until(current.due_ns);
      return false;
    case Arrival::kRefused:
      return end_with(current, verdict.status);
  }
  return false;
}

Verdict QueuePair::transmit(Request& current) {
  if (current.losses > 0) {
    if (current.losses != ~0u) --current.losses;
    return {Arrival::kLost};
  }
  const uint32_t count = packets(current.bytes, shared().attr.path_mtu);
  const Verdict verdict = deliver(*this, current, next, {0, current.bytes, count});
  if (verdict.arrival != Arrival::kDone || current.ack_losses == 0) return verdict;
  if (current.ack_losses != ~0u) --current.ack_losses;
  return {Arrival::kLost};
}

void QueuePair::done_with(Request& current) {
  retries_left = shared().attr.retry_cnt;
  rnr_left = shared().attr.rnr_retry;
  psn += packets(current.bytes, shared().attr.path_mtu);
  complete(current, IBV_WC_SUCCESS);
  ++next;
}

// The requests from `next` on whose packets may pass each other: plain writes with nothing else
// wrong.
uint64_t QueuePair::end_of_plain_writes() {
  uint64_t end = next;
  for (; end < posted; ++end) {
    Request& r = request(end);
    if (!r.judged) judge(*this, r);
    if (r.opcode != IBV_WR_RDMA_WRITE || r.reorder_ns == 0 || r.due_ns > now_ns() || r.losses > 0 ||
        r.ack_losses > 0 || r.forced_status >= 0 || r.corrupt || r.tear_ns > 0 || r.revoke)
      break;
  }
  return end;
}

// The packets of requests [next, end), in any order; the last to arrive moves the peer's number on.
std::vector<QueuePair::Packet> QueuePair::shuffled_packets(uint64_t end) {
  std::vector<Packet> out;
  uint32_t count = 0;
  const uint64_t mtu = mtu_bytes(shared().attr.path_mtu);
  for (uint64_t i = next; i < end; ++i) {
    const uint64_t bytes = request(i).bytes;
    for (uint64_t first = 0; first == 0 || first < bytes; first += mtu)
      out.push_back({i, {first, std::min(mtu, bytes - first), 0}});
    count += packets(bytes, shared().attr.path_mtu);
  }
  std::shuffle(out.begin(), out.end(), std::minstd_rand{uint32_t(now_ns())});
  out.back().range.packets = count;
  return out;
}

// As adaptive routing does. A loss sends all of them again, in order.
bool QueuePair::carry_out_in_any_order() {
  const uint64_t end = end_of_plain_writes();
  if (end == next) {
    request(next).reorder_ns = 0;
    return true;
  }
  // More may come behind that these could pass.
  const uint64_t within = request(next).reorder_ns, until = request(next).posted_ns + within;
  if (end == posted && now_ns() < until) return wait_until(until), false;
  const std::vector<Packet> on_the_way = shuffled_packets(end);
  const std::chrono::nanoseconds pause(std::min<uint64_t>(within / on_the_way.size(), 100'000));
  for (const Packet& packet : on_the_way) {
    const Verdict verdict = deliver(*this, request(packet.number), packet.number, packet.range);
    if (verdict.arrival == Arrival::kRefused) return end_with(request(next), verdict.status);
    if (verdict.arrival != Arrival::kDone) {
      for (uint64_t i = next; i < end; ++i) request(i).reorder_ns = 0;
      return true;
    }
    if (pause > std::chrono::microseconds(1)) std::this_thread::sleep_for(pause);
  }
  while (next < end) done_with(request(next));
  return true;
}

bool QueuePair::end_with(Request& current, ibv_wc_status status) {
  complete(current, status);
  ++next;
  fail();
  return false;
}

}  // namespace fake_verbs
