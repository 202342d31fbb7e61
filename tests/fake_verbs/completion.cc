// Completion queues and channels.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tests/fake_verbs/acks.h"
#include "tests/fake_verbs/pair.h"
#include "tests/fake_verbs/refusals.h"

namespace fake_verbs {
namespace {

CompletionQueue& row(int index) {
  return world().queues[index];
}
Completion& entry(CompletionQueue& queue, uint64_t number) {
  return arena<Completion>(queue.ring)[number % queue.capacity];
}

// The row of a new queue, or -1.
int take_row(uint32_t capacity, int device) {
  World& w = world();
  const uint64_t ring = arena_take(capacity * sizeof(Completion));
  if (ring == 0) return -1;
  Locked hold(w.lock);
  int held = 0;
  for (const CompletionQueue& queue : w.queues) held += queue.used && queue.device == device;
  for (int i = 0; i < kQueues && held < w.devices[device].max_queues; ++i) {
    CompletionQueue& queue = w.queues[i];
    if (queue.used) continue;
    queue.serial = w.next_serial.fetch_add(1);
    queue.process = local().process();
    queue.device = device;
    queue.ring = ring;
    queue.capacity = capacity;
    queue.head = queue.tail = 0;
    queue.armed = 0;
    queue.overrun = false;
    queue.notified = 0;
    queue.used = true;
    return i;
  }
  arena_give(ring, capacity * sizeof(Completion));
  return -1;
}

int poll(ibv_cq* base, int wanted, ibv_wc* out) {
  if (!ours(base->context, "ibv_poll_cq")) return -1;
  CompletionQueue& queue = row(reinterpret_cast<Queue*>(base)->index);
  if (queue.head == queue.tail) return world().devices[queue.device].broken ? -1 : 0;
  (void)local().moved.load(std::memory_order_acquire);
  Locked hold(queue.lock);
  int count = 0;
  for (; count < wanted && queue.head != queue.tail; ++count) {
    const Completion& done = entry(queue, queue.head);
    out[count] = done.wc;
    auto* pair = reinterpret_cast<QueuePair*>(done.pair);
    (done.receive ? pair->receives_retired : pair->retired).fetch_add(done.retires);
    queue.head.fetch_add(1);
  }
  return count;
}

// With completions waiting no event comes for them: the caller has to poll once more.
int request_notify(ibv_cq* base, int solicited_only) {
  if (const int error = refused("ibv_req_notify_cq"); error != 0) return error;
  if (!ours(base->context, "ibv_req_notify_cq")) return EPERM;
  CompletionQueue& queue = row(reinterpret_cast<Queue*>(base)->index);
  Locked hold(queue.lock);
  if (!queue.has_channel) return EINVAL;
  const int wanted = solicited_only != 0 ? 2 : 1;
  if (queue.armed != 1) queue.armed = wanted;
  return 0;
}

bool make_pipe(int (&ends)[2]) {
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  return ::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

void push(int index, const Completion& completion) {
  CompletionQueue& queue = row(index);
  bool wake = false, failed = false;
  {
    Locked hold(queue.lock);
    if (!queue.used || queue.overrun) return;
    if (queue.tail - queue.head == queue.capacity) {
      queue.overrun = failed = true;
    } else {
      entry(queue, queue.tail) = completion;
      queue.tail.fetch_add(1);
      const bool counts = completion.solicited || completion.wc.status != IBV_WC_SUCCESS;
      wake = queue.armed == 1 || (queue.armed == 2 && counts);
      if (wake) {
        queue.armed = 0;
        queue.notified.fetch_add(1);
      }
    }
  }
  if (failed) tell(queue.process, {IBV_EVENT_CQ_ERR, queue.device, 0, queue.object, queue.serial});
  if (wake) ring(queue.process);
}

void forget(int index, uint64_t pair) {
  CompletionQueue& queue = row(index);
  Locked hold(queue.lock);
  uint64_t kept = queue.head;
  for (uint64_t i = queue.head; i != queue.tail; ++i)
    if (entry(queue, i).pair != pair) {
      const Completion completion = entry(queue, i);
      entry(queue, kept++) = completion;
    }
  queue.tail = kept;
}

// The table of functions behind the header's inline ones.
void set_queue_operations(ibv_context_ops& ops) {
  ops.poll_cq = poll;
  ops.req_notify_cq = request_notify;
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (const int error = refused("ibv_create_comp_channel"); error != 0)
    return errno = error, nullptr;
  if (!ours(context, "ibv_create_comp_channel")) return errno = EPERM, nullptr;
  int ends[2];
  if (!make_pipe(ends)) return nullptr;
  auto* channel = new Channel{};
  channel->base.context = context;
  channel->base.fd = ends[0];
  channel->write_fd = ends[1];
  context_of(context)->users.fetch_add(1);
  my_row().channels.fetch_add(1);
  return &channel->base;
}

int ibv_destroy_comp_channel(ibv_comp_channel* base) {
  if (!ours(base->context, "ibv_destroy_comp_channel")) return EPERM;
  if (base->refcnt != 0) return EBUSY;
  auto* channel = reinterpret_cast<Channel*>(base);
  ::close(base->fd);
  ::close(channel->write_fd);
  context_of(base->context)->users.fetch_sub(1);
  my_row().channels.fetch_sub(1);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  if (const int error = refused("ibv_create_cq"); error != 0) return errno = error, nullptr;
  if (!ours(context, "ibv_create_cq")) return errno = EPERM, nullptr;
  const Device& device = world().devices[context_of(context)->device];
  if (entries < 1 || entries > device.max_entries || vector < 0 ||
      vector >= context->num_comp_vectors)
    return errno = EINVAL, nullptr;
  if (device.broken) return errno = EIO, nullptr;
  // Exactly as many as were asked for: real devices give more, who relies on that is wrong.
  const int index = take_row(uint32_t(entries), context_of(context)->device);
  if (index < 0) return errno = ENOMEM, nullptr;
  auto* queue = new Queue{};
  queue->base.context = context;
  queue->base.channel = channel;
  queue->base.cq_context = cq_context;
  queue->base.cqe = entries;
  queue->base.handle = uint32_t(index);
  pthread_mutex_init(&queue->base.mutex, nullptr);
  pthread_cond_init(&queue->base.cond, nullptr);
  queue->index = index;
  queue->serial = row(index).serial;
  row(index).object = reinterpret_cast<uint64_t>(queue);
  row(index).has_channel = channel != nullptr;
  if (channel != nullptr) ++channel->refcnt;
  context_of(context)->users.fetch_add(1);
  local().engine().add(queue);
  return &queue->base;
}

int ibv_destroy_cq(ibv_cq* base) {
  if (!ours(base->context, "ibv_destroy_cq")) return EPERM;
  auto* queue = reinterpret_cast<Queue*>(base);
  if (queue->users != 0) return EBUSY;
  local().engine().remove(queue);
  wait_for_acks(base->mutex, base->cond, "ibv_destroy_cq", [&] {
    return base->comp_events_completed == queue->comp_got &&
           base->async_events_completed == queue->async_got;
  });
  CompletionQueue& shared = row(queue->index);
  {
    Locked hold(shared.lock);
    shared.used = false;
    arena_give(shared.ring, shared.capacity * sizeof(Completion));
  }
  if (base->channel != nullptr) --base->channel->refcnt;
  context_of(base->context)->users.fetch_sub(1);
  delete queue;
  return 0;
}

}  // extern "C"
