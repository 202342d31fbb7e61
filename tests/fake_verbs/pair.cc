// Making, changing and ending queue pairs: which change of state takes which attributes.
#include "tests/fake_verbs/pair.h"

#include <cerrno>
#include <cstring>

#include "tests/fake_verbs/acks.h"
#include "tests/fake_verbs/refusals.h"

namespace fake_verbs {
namespace {

struct Step {
  ibv_qp_state from, to;
  int needed, allowed;
};
// InfiniBand specification, table "QP state transition properties", reliable connections.
constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER},
};

bool step_allowed(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return mask == 0;
  for (const Step& step : kSteps)
    if (step.from == from && step.to == to)
      return (mask & step.needed) == step.needed && (mask & ~(step.needed | step.allowed)) == 0;
  return false;
}

bool values_fit(const Device& device, const Port& port, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_PKEY_INDEX) != 0 &&
      (attr.pkey_index >= kPkeys || port.pkeys[attr.pkey_index] == 0))
    return false;
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > port.active_mtu))
    return false;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attr.max_dest_rd_atomic > device.max_reads)
    return false;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr.max_rd_atomic > device.max_reads) return false;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr.min_rnr_timer > 31) return false;
  if ((mask & IBV_QP_TIMEOUT) != 0 && attr.timeout > 31) return false;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && attr.retry_cnt > 7) return false;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && attr.rnr_retry > 7) return false;
  if ((mask & IBV_QP_DEST_QPN) != 0 && attr.dest_qp_num >= 1u << 24) return false;
  constexpr unsigned kRights =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && (attr.qp_access_flags & ~kRights) != 0) return false;
  return (mask & IBV_QP_PORT) == 0 || (attr.port_num >= 1 && attr.port_num <= device.ports);
}

bool gid_exists(const ibv_gid& gid) {
  for (const Device& device : world().devices)
    for (int p = 0; device.used && p < device.ports; ++p)
      for (const Gid& row : device.port[p].gids)
        if (row.used && std::memcmp(row.raw, gid.raw, 16) == 0) return true;
  return false;
}

// The address of the peer: 0, or what the kernel says of it.
int check_address(const Port& port, const ibv_ah_attr& to) {
  if (to.sl > 15 || to.port_num == 0) return EINVAL;
  const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (ethernet && to.is_global == 0) return EINVAL;
  if (!ethernet && to.is_global == 0 && to.dlid == 0) return EINVAL;
  if (to.is_global == 0) return 0;
  if (to.grh.sgid_index >= kGids || !port.gids[to.grh.sgid_index].used) return EINVAL;
  // On Ethernet the kernel resolves the address to one of layer 2.
  return ethernet && !gid_exists(to.grh.dgid) ? ETIMEDOUT : 0;
}

void apply(Pair& shared, const Port& port, const ibv_qp_attr& attr, int mask) {
  ibv_qp_attr& kept = shared.attr;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) kept.pkey_index = attr.pkey_index;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) kept.qp_access_flags = attr.qp_access_flags;
  if ((mask & IBV_QP_PORT) != 0) kept.port_num = attr.port_num, shared.port = attr.port_num - 1;
  if ((mask & IBV_QP_PATH_MTU) != 0) kept.path_mtu = attr.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) kept.dest_qp_num = attr.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0)
    kept.rq_psn = attr.rq_psn & 0xffffff, shared.expected_psn = kept.rq_psn;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) kept.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) kept.min_rnr_timer = attr.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) kept.timeout = attr.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) kept.retry_cnt = attr.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) kept.rnr_retry = attr.rnr_retry;
  if ((mask & IBV_QP_SQ_PSN) != 0) kept.sq_psn = attr.sq_psn & 0xffffff;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) kept.max_rd_atomic = attr.max_rd_atomic;
  if ((mask & IBV_QP_AV) == 0) return;
  kept.ah_attr = attr.ah_attr;
  shared.source = Gid{};
  if (attr.ah_attr.is_global != 0) shared.source = port.gids[attr.ah_attr.grh.sgid_index];
}

// All requests and receives go, and so do their completions. Holding both locks.
void reset(QueuePair& pair) {
  Pair& shared = pair.shared();
  const auto object = reinterpret_cast<uint64_t>(&pair);
  forget(shared.send_queue, object);
  forget(shared.receive_queue, object);
  pair.posted = pair.next = pair.reported = 0;
  pair.retired = pair.receives_retired = 0;
  pair.engine_due = ~0ull;
  Locked hold(shared.receive_lock);
  shared.posted = shared.taken = 0;
  shared.flush_sends = false;
  shared.attr = {};
}

bool fits(const Device& device, const ibv_qp_init_attr& init) {
  return init.qp_type == IBV_QPT_RC && init.srq == nullptr && init.send_cq != nullptr &&
         init.recv_cq != nullptr && init.cap.max_send_wr <= uint32_t(device.max_depth) &&
         init.cap.max_recv_wr <= uint32_t(device.max_depth) &&
         init.cap.max_send_sge <= kMaxPieces && init.cap.max_recv_sge <= kMaxPieces &&
         init.cap.max_inline_data <= device.max_inline;
}

// The row of a new pair, or -1.
int take_row(int device, uint32_t capacity) {
  World& w = world();
  const uint64_t ring = arena_take((capacity + 1) * sizeof(Receive));
  if (ring == 0) return -1;
  Locked hold(w.lock);
  int held = 0;
  for (const Pair& pair : w.pairs) held += pair.used && pair.device == device;
  for (int i = 0; i < kPairs && held < w.devices[device].max_pairs; ++i) {
    Pair& pair = w.pairs[i];
    if (pair.used) continue;
    pair.serial = w.next_serial.fetch_add(1);
    // No number comes back soon: who sends to an old one must miss.
    pair.number = (pair.serial << 12 | uint32_t(i)) & 0xffffff;
    pair.state = IBV_QPS_RESET;
    pair.process = local().process();
    pair.device = device;
    pair.port = 0;
    pair.attr = {};
    pair.ring = ring;
    pair.capacity = capacity;
    pair.posted = pair.taken = 0;
    pair.flush_sends = false;
    pair.used = true;
    return i;
  }
  arena_give(ring, (capacity + 1) * sizeof(Receive));
  return -1;
}

void fill_shared(QueuePair& pair, const ibv_qp_init_attr& init) {
  Pair& shared = pair.shared();
  shared.object = reinterpret_cast<uint64_t>(&pair);
  shared.domain = reinterpret_cast<Domain*>(pair.base.pd)->number;
  shared.send_queue = reinterpret_cast<Queue*>(init.send_cq)->index;
  shared.receive_queue = reinterpret_cast<Queue*>(init.recv_cq)->index;
  shared.max_pieces = init.cap.max_recv_sge;
}

QueuePair* make_pair_object(ibv_pd* pd, const ibv_qp_init_attr& init, int index) {
  auto* pair = new QueuePair{};
  pair->index = index;
  pair->base.context = pd->context;
  pair->base.qp_context = init.qp_context;
  pair->base.pd = pd;
  pair->base.send_cq = init.send_cq;
  pair->base.recv_cq = init.recv_cq;
  pair->base.handle = uint32_t(index);
  pair->base.qp_num = world().pairs[index].number;
  pair->base.state = IBV_QPS_RESET;
  pair->base.qp_type = init.qp_type;
  pthread_mutex_init(&pair->base.mutex, nullptr);
  pthread_cond_init(&pair->base.cond, nullptr);
  pair->serial = world().pairs[index].serial;
  pair->capacity = init.cap;
  pair->all_signaled = init.sq_sig_all != 0;
  pair->requests.resize(init.cap.max_send_wr);
  pair->inline_data.resize(size_t(init.cap.max_send_wr) * init.cap.max_inline_data);
  return pair;
}

}  // namespace
}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  if (const int error = refused("ibv_create_qp"); error != 0) return errno = error, nullptr;
  if (!ours(pd->context, "ibv_create_qp")) return errno = EPERM, nullptr;
  const int device = context_of(pd->context)->device;
  if (world().devices[device].broken) return errno = EIO, nullptr;
  if (!fits(world().devices[device], *init)) return errno = EINVAL, nullptr;
  if (init->send_cq->context != pd->context || init->recv_cq->context != pd->context)
    return errno = EINVAL, nullptr;
  const int index = take_row(device, init->cap.max_recv_wr);
  if (index < 0) return errno = ENOMEM, nullptr;
  QueuePair* pair = make_pair_object(pd, *init, index);
  fill_shared(*pair, *init);
  reinterpret_cast<Domain*>(pd)->users.fetch_add(1);
  reinterpret_cast<Queue*>(init->send_cq)->users.fetch_add(1);
  reinterpret_cast<Queue*>(init->recv_cq)->users.fetch_add(1);
  local().engine().add(pair);
  return &pair->base;
}

int ibv_destroy_qp(ibv_qp* base) {
  if (!ours(base->context, "ibv_destroy_qp")) return EPERM;
  QueuePair* pair = pair_of(base);
  local().engine().remove(pair);
  wait_for_acks(base->mutex, base->cond, "ibv_destroy_qp",
                [&] { return base->events_completed == pair->events_got; });
  Pair& shared = pair->shared();
  {
    std::lock_guard hold(pair->lock);
    Locked against_peer(shared.lock);
    reset(*pair);
    shared.used = false;
    arena_give(shared.ring, (shared.capacity + 1) * sizeof(Receive));
  }
  reinterpret_cast<Domain*>(base->pd)->users.fetch_sub(1);
  reinterpret_cast<Queue*>(base->send_cq)->users.fetch_sub(1);
  reinterpret_cast<Queue*>(base->recv_cq)->users.fetch_sub(1);
  delete pair;
  return 0;
}

int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  if (const int error = refused("ibv_modify_qp"); error != 0) return error;
  if (!ours(base->context, "ibv_modify_qp")) return EPERM;
  QueuePair* pair = pair_of(base);
  Pair& shared = pair->shared();
  Device& device = world().devices[shared.device];
  if (device.broken) return EIO;
  std::lock_guard hold(pair->lock);
  Locked against_peer(shared.lock);
  const ibv_qp_state from = pair->state();
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from) return EINVAL;
  if (!step_allowed(from, to, mask)) return EINVAL;
  const int port_index = (mask & IBV_QP_PORT) != 0 ? attr->port_num - 1 : shared.port;
  if (port_index < 0 || port_index >= device.ports) return EINVAL;
  const Port& port = device.port[port_index];
  if (!values_fit(device, port, *attr, mask)) return EINVAL;
  if ((mask & IBV_QP_AV) != 0) {
    if (attr->ah_attr.port_num != port_index + 1) return EINVAL;
    if (const int wrong = check_address(port, attr->ah_attr)) return wrong;
  }
  apply(shared, port, *attr, mask);
  if (to == IBV_QPS_RESET) reset(*pair);
  shared.state = to;
  base->state = to;
  if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
    pair->psn = shared.attr.sq_psn;
    pair->retries_left = shared.attr.retry_cnt;
    pair->rnr_left = shared.attr.rnr_retry;
  }
  if (to == IBV_QPS_ERR) {
    flush_receives(shared);
    pair->flush();
  }
  return 0;
}

int ibv_query_qp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  if (!ours(base->context, "ibv_query_qp")) return EPERM;
  QueuePair* pair = pair_of(base);
  std::lock_guard hold(pair->lock);
  Locked against_peer(pair->shared().lock);
  *attr = pair->shared().attr;
  attr->qp_state = attr->cur_qp_state = base->state = pair->state();
  attr->cap = pair->capacity;
  *init = {base->qp_context,
           base->send_cq,
           base->recv_cq,
           nullptr,
           pair->capacity,
           base->qp_type,
           pair->all_signaled ? 1 : 0};
  return 0;
}

}  // extern "C"
