#include "tests/fake_verbs/mover.h"

#include <algorithm>
#include <cstring>

#include "tests/fake_verbs/local.h"

namespace fake_verbs {
namespace {

enum State : uint32_t { kFree, kQueued, kDone, kFailed };
constexpr uint64_t kAtOnce = 1 << 20;
constexpr uint64_t kMostHeld = 256 << 20;

// A free job of the process, made out to it, or null.
Job* queue_job(int process, const GpuMemory& memory, uint64_t data, uint64_t bytes, bool read) {
  Process& row = process_row(process);
  Locked hold(row.job_lock);
  for (Job& job : row.jobs) {
    const bool left = job.state != kFree && job.state != kQueued && !process_lives(job.from);
    if (job.state != kFree && !left) continue;
    job.from = local().process();
    job.ticket = row.next_ticket++;
    job.read = read;
    job.gpu = memory.gpu;
    job.driver = memory.driver;
    job.address = memory.address;
    job.data = data;
    job.bytes = bytes;
    job.state = kQueued;
    return &job;
  }
  return nullptr;
}

bool wait_for(int process, Job& job) {
  while (job.state == kQueued) {
    if (!process_lives(process)) break;
    futex_wait(job.state, kQueued, 20'000'000);
  }
  const bool done = job.state == kDone;
  job.state = kFree;
  return done;
}

bool move_part(int process, const GpuMemory& memory, uint8_t* data, uint64_t bytes, bool read) {
  const uint64_t room = std::max<uint64_t>(bytes, 1);
  const uint64_t place = arena_take(room);
  if (place == 0) return violation("the arena is full"), false;
  (void)local().moved.load(
      std::memory_order_acquire);  // the place may have been another process's meanwhile
  if (!read && bytes > 0) std::memcpy(arena<uint8_t>(place), data, bytes);
  local().offered.fetch_add(1, std::memory_order_release);
  Job* job = nullptr;
  while ((job = queue_job(process, memory, place, bytes, read)) == nullptr &&
         process_lives(process))
    sched_yield();
  bool done = false;
  if (job != nullptr) {
    ring_word(process_row(process).job_bell);
    done = wait_for(process, *job);
  }
  if (done && read && bytes > 0) std::memcpy(data, arena<uint8_t>(place), bytes);
  arena_give(place, room);
  return done;
}

}  // namespace

bool move_by(int process, const GpuMemory& memory, void* data, uint64_t bytes, bool read) {
  uint64_t done = 0;
  do {
    const uint64_t now = std::min(kAtOnce, bytes - done);
    const GpuMemory part{memory.gpu, memory.driver, memory.address + done};
    if (!move_part(process, part, static_cast<uint8_t*>(data) + done, now, read)) return false;
    done += now;
  } while (done < bytes);
  return true;
}

Mover::Mover(int process, uint64_t hold_ns) : process_(process), hold_ns_(hold_ns) {
  for (Job& job : process_row(process).jobs) job.state = kFree;
  thread_ = std::thread([this] { run(); });
}

Mover::~Mover() {
  stop_ = true;
  ring_word(process_row(process_).job_bell);
  thread_.join();
}

Job* Mover::next_job() {
  Process& row = process_row(process_);
  Locked hold(row.job_lock);
  Job* first = nullptr;
  for (Job& job : row.jobs)
    if (job.state == kQueued && (first == nullptr || job.ticket < first->ticket)) first = &job;
  return first;
}

void Mover::run() {
  Process& row = process_row(process_);
  for (;;) {
    const uint32_t seen = row.job_bell;
    if (Job* job = next_job()) {
      if (job->from != process_) (void)local().offered.load(std::memory_order_acquire);
      const State state = carry_out(*job) ? kDone : kFailed;
      if (job->from != process_) local().moved.fetch_add(1, std::memory_order_release);
      job->state = state;
      wake_word(job->state);
      continue;
    }
    if (stop_) break;
    const uint64_t due = land_due(), now = now_ns();
    if (due > now) futex_wait(row.job_bell, seen, std::min<uint64_t>(due - now, 50'000'000));
  }
  while (!held_.empty()) land_first();
}

bool Mover::carry_out(Job& job) {
  const GpuMemory memory{job.gpu, job.driver, job.address};
  auto* data = arena<uint8_t>(job.data);
  if (job.read) return (memory.gpu < 0 || land(memory.gpu)) && read_memory(memory, data, job.bytes);
  if (memory.gpu < 0 || hold_ns_ == 0) return write_memory(memory, data, job.bytes);
  held_.push_back({now_ns() + hold_ns_, memory, std::vector<uint8_t>(data, data + job.bytes)});
  held_bytes_ += job.bytes;
  bool landed = true;
  while (held_bytes_ > kMostHeld) landed = land_first() && landed;
  return landed;
}

bool Mover::land_first() {
  const Held first = std::move(held_.front());
  held_.pop_front();
  held_bytes_ -= first.data.size();
  const bool landed = write_memory(first.to, first.data.data(), first.data.size());
  if (!landed) violation("a write into a GPU's memory was refused by its driver");
  return landed;
}

// Writes pass each other on the way to different GPUs, not to the same one; all go, in order.
bool Mover::land(int gpu) {
  const bool any =
      std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return held.to.gpu == gpu; });
  bool landed = true;
  while (any && !held_.empty()) landed = land_first() && landed;
  return landed;
}

uint64_t Mover::land_due() {
  const uint64_t now = now_ns();
  while (!held_.empty() && held_.front().due_ns <= now) land_first();
  return held_.empty() ? ~0ull : held_.front().due_ns;
}

}  // namespace fake_verbs
