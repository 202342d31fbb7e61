// Asynchronous events and completion channels: from whoever causes them to the pipes that
// applications read, and out of these only while their objects are still there.
#include <unistd.h>

#include <cerrno>

#include "tests/fake_verbs/local.h"
#include "tests/fake_verbs/pair.h"

namespace fake_verbs {
namespace {

template <class T>
bool write_whole(int fd, const T& value) {
  return ::write(fd, &value, sizeof value) == ssize_t(sizeof value);
}
template <class T>
bool read_whole(int fd, T& value) {
  return ::read(fd, &value, sizeof value) == ssize_t(sizeof value);
}

bool about_pair(const Event& event) {
  return event.object != 0 && event.type != IBV_EVENT_CQ_ERR;
}

}  // namespace

void tell(int process, const Event& event) {
  Process& row = process_row(process);
  {
    Locked hold(row.lock);
    const uint32_t count = row.event_count;
    if (count == kEvents) return violation("a process does not take its events");
    row.events[count] = event;
    row.event_count = count + 1;
  }
  ring(process);
}

void Engine::pass_events() {
  Process& row = process_row(process_);
  if (row.event_count == 0) return;
  std::vector<Event> events;
  {
    Locked hold(row.lock);
    events.assign(row.events, row.events + row.event_count);
    row.event_count = 0;
  }
  std::lock_guard hold(mutex_);
  for (const Event& event : events)
    for (Context* context : contexts_)
      if (concerns(event, *context) && !write_whole(context->event_fd, event))
        violation("nobody reads the events of a context");
}

// An object's events go to its own context, a port's to every context of the device.
bool Engine::concerns(const Event& event, const Context& context) const {
  if (context.device != event.device) return false;
  if (event.object == 0) return true;
  if (about_pair(event)) {
    auto* pair = reinterpret_cast<QueuePair*>(event.object);
    return pairs_.count(pair) != 0 && pair->serial == event.serial &&
           pair->base.context == &context.base;
  }
  auto* queue = reinterpret_cast<Queue*>(event.object);
  return queues_.count(queue) != 0 && queue->serial == event.serial &&
         queue->base.context == &context.base;
}

bool Engine::claim(const Event& event, const Context& context) {
  std::lock_guard hold(mutex_);
  if (!concerns(event, context)) return false;
  if (event.object == 0) return true;
  auto* pair = reinterpret_cast<QueuePair*>(event.object);
  auto* queue = reinterpret_cast<Queue*>(event.object);
  pthread_mutex_t& mutex = about_pair(event) ? pair->base.mutex : queue->base.mutex;
  pthread_mutex_lock(&mutex);
  ++(about_pair(event) ? pair->events_got : queue->async_got);
  pthread_mutex_unlock(&mutex);
  return true;
}

Queue* Engine::claim(const ChannelNotice& notice) {
  std::lock_guard hold(mutex_);
  auto* queue = reinterpret_cast<Queue*>(notice.queue);
  if (queues_.count(queue) == 0 || queue->serial != notice.serial) return nullptr;
  pthread_mutex_lock(&queue->base.mutex);
  ++queue->comp_got;
  pthread_mutex_unlock(&queue->base.mutex);
  return queue;
}

void Engine::notify_channels() {
  std::lock_guard hold(mutex_);
  for (Queue* queue : queues_)
    for (uint32_t n = world().queues[queue->index].notified.exchange(0); n > 0; --n) {
      const auto* channel = reinterpret_cast<Channel*>(queue->base.channel);
      const ChannelNotice notice{reinterpret_cast<uint64_t>(queue), queue->serial};
      if (!write_whole(channel->write_fd, notice)) violation("nobody reads a completion channel");
    }
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  if (!ours(context, "ibv_get_async_event")) return -1;
  Event event{};
  do {
    if (!read_whole(context->async_fd, event)) return -1;
  } while (!local().engine().claim(event, *context_of(context)));
  *out = {};
  out->event_type = ibv_event_type(event.type);
  if (event.object == 0)
    out->element.port_num = event.port;
  else if (about_pair(event))
    out->element.qp = &reinterpret_cast<QueuePair*>(event.object)->base;
  else
    out->element.cq = &reinterpret_cast<Queue*>(event.object)->base;
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  if (event->event_type == IBV_EVENT_CQ_ERR) {
    ibv_cq* cq = event->element.cq;
    pthread_mutex_lock(&cq->mutex);
    ++cq->async_events_completed;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
  } else if (event->event_type < IBV_EVENT_DEVICE_FATAL) {
    ibv_qp* qp = event->element.qp;
    pthread_mutex_lock(&qp->mutex);
    ++qp->events_completed;
    pthread_cond_signal(&qp->cond);
    pthread_mutex_unlock(&qp->mutex);
  }
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  ChannelNotice notice{};
  Queue* queue = nullptr;
  do {
    if (!read_whole(channel->fd, notice)) return -1;
  } while ((queue = local().engine().claim(notice)) == nullptr);
  *cq = &queue->base;
  *cq_context = queue->base.cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
