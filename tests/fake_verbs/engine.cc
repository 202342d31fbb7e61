#include <algorithm>

#include "tests/fake_verbs/local.h"
#include "tests/fake_verbs/pair.h"

namespace fake_verbs {
namespace {

constexpr uint64_t kLongest = 50'000'000;  // between two looks

}  // namespace

Process& process_row(int index) {
  return world().processes[index];
}

bool process_lives(int index) {
  Process& row = process_row(index);
  if (!row.used) return false;
  return index == local().process() || row.alive.held_by_other();
}

void ring(int process) {
  ring_word(process_row(process).doorbell);
}

Engine::Engine(int process) : process_(process) {
  std::atomic<bool> started{false};
  thread_ = std::thread([this, &started] {
    process_row(process_).alive.lock();
    started = true;
    started.notify_one();
    run();
    process_row(process_).alive.unlock();
  });
  started.wait(false);
}

Engine::~Engine() {
  stop_ = true;
  ring(process_);
  thread_.join();
}

void Engine::run() {
  while (!stop_) {
    const uint32_t seen = process_row(process_).doorbell;
    pass_events();
    notify_channels();
    const uint64_t due = advance_pairs();
    const uint64_t now = now_ns();
    if (due > now && !stop_)
      futex_wait(process_row(process_).doorbell, seen, std::min(kLongest, due - now));
  }
  pass_events();
}

uint64_t Engine::advance_pairs() {
  std::unique_lock hold(mutex_);
  uint64_t next = ~0ull;
  std::vector<QueuePair*> ready;
  const uint64_t now = now_ns();
  for (QueuePair* pair : pairs_) {
    const uint64_t due = pair->wants_engine_at();
    if (due <= now)
      ready.push_back(pair);
    else
      next = std::min(next, due);
  }
  for (QueuePair* pair : ready) {
    if (pairs_.count(pair) == 0) continue;  // destroyed meanwhile
    busy_ = pair;
    hold.unlock();
    const uint64_t due = pair->advance_from_engine();
    hold.lock();
    busy_ = nullptr;
    hands_off_.notify_all();
    next = std::min(next, due);
  }
  return next;
}

void Engine::add(QueuePair* pair) {
  std::lock_guard hold(mutex_);
  pairs_.insert(pair);
}

void Engine::remove(QueuePair* pair) {
  std::unique_lock hold(mutex_);
  pairs_.erase(pair);
  hands_off_.wait(hold, [&] { return busy_ != pair; });
}

void Engine::add(Queue* queue) {
  std::lock_guard hold(mutex_);
  queues_.insert(queue);
}

void Engine::remove(Queue* queue) {
  std::lock_guard hold(mutex_);
  queues_.erase(queue);
}

void Engine::add(Context* context) {
  std::lock_guard hold(mutex_);
  contexts_.insert(context);
}

void Engine::remove(Context* context) {
  std::lock_guard hold(mutex_);
  contexts_.erase(context);
}

}  // namespace fake_verbs
