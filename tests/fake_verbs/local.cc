#include "tests/fake_verbs/local.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

#include "tests/fake_verbs/setup.h"

namespace fake_verbs {
namespace {

// Everything that a process left behind that was killed, or never gave back.
void clean_up_after(int process) {
  World& w = world();
  for (Pair& pair : w.pairs)
    if (pair.used && pair.process == process) {
      arena_give(pair.ring, pair.capacity * sizeof(Receive));
      pair.used = false;
    }
  for (CompletionQueue& queue : w.queues)
    if (queue.used && queue.process == process) {
      arena_give(queue.ring, queue.capacity * sizeof(Completion));
      queue.used = false;
    }
  for (Region& region : w.regions)
    if (region.held && region.process == process) region.used = region.held = false;
}

}  // namespace

Local& local() {
  static Local instance;
  return instance;
}

Local::Local() : setup_(setup_of_environment()) {
  pthread_atfork([] { local().mutex_.lock(); }, [] { local().mutex_.unlock(); },
                 [] { local().forked(); });
}

Local::~Local() {
  if (engine_ != nullptr) process_row(process_).used = false;
}

void Local::forked() {
  fork_serial_.fetch_add(1);
  contexts_ = 0;
  process_ = -1;
  // Their threads stayed with the parent.
  (void)engine_.release();
  (void)mover_.release();
  mutex_.unlock();
}

int Local::enter() {
  World& w = world();
  std::lock_guard hold(mutex_);
  if (contexts_.fetch_add(1) > 0) return process_;
  Locked rows(w.lock);
  for (int i = 0; i < kProcesses; ++i)
    if (w.processes[i].used && !w.processes[i].alive.held_by_other()) {  // was killed
      clean_up_after(i);
      w.processes[i].used = false;
    }
  for (int i = 0; i < kProcesses; ++i) {
    Process& row = w.processes[i];
    if (row.used) continue;
    row.used = true;
    row.pid = ::getpid();
    row.host = setup_.host;
    row.event_count = 0;
    row.contexts = row.domains = row.channels = 0;
    process_ = i;
    // Others of the world copy into this process's memory; where siblings may not unless told so.
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    engine_ = std::make_unique<Engine>(i);
    return i;
  }
  contexts_.fetch_sub(1);
  return -1;
}

void Local::leave() {
  std::lock_guard hold(mutex_);
  if (contexts_.fetch_sub(1) > 1) return;
  engine_.reset();
  mover_.reset();
  clean_up_after(process_);
  process_row(process_).used = false;
  process_ = -1;
}

void Local::need_mover() {
  std::lock_guard hold(mutex_);
  if (mover_ == nullptr)
    mover_ = std::make_unique<Mover>(process_, uint64_t(setup_.hold_us) * 1000);
}

bool ours(const ibv_context* context, const char* call) {
  const auto* mine = reinterpret_cast<const Context*>(context);
  if (mine->fork_serial == local().fork_serial()) return true;
  violation("%s by the child of a fork, on its parent's context", call);
  return false;
}

}  // namespace fake_verbs
