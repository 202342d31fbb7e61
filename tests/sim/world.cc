#include "tests/sim/world.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>

#include "base/format.h"
#include "base/wait.h"
#include "launcher/ssh/prompt.h"

namespace collctl::sim {
namespace {

// In one moment; more is somebody who does not wait.
constexpr int kMostSteps = 20'000;
World* g_world = nullptr;

}  // namespace

World::World(uint64_t seed, bool keeps_trace) : draw_(seed), keeps_trace_(keeps_trace) {
  if (g_world != nullptr) std::abort();
  g_world = this;
  base::other_clock = [] {
    const World& w = *g_world;
    return w.now_ - (w.running_ != nullptr ? w.running_->away_ns_ : 0);
  };
  base::test_wait = wait;
}

World::~World() {
  end();
  actors_.clear();
  base::other_clock = nullptr;
  base::test_wait = nullptr;
  g_world = nullptr;
}

World& World::here() {
  return *g_world;
}

Actor& World::spawn(std::string name, std::function<void()> body) {
  auto actor = std::make_unique<Actor>();
  actor->name_ = std::move(name);
  actor->until_ = now_;
  actor->fiber_ = std::make_unique<Fiber>([raw = actor.get(), work = std::move(body)] {
    if (!raw->dying_) work();
  });
  actors_.push_back(std::move(actor));
  return *actors_.back();
}

// All waits of one that is killed fail, by which it comes to its end at once.
int World::wait(std::span<pollfd> fds, Deadline deadline) {
  World& w = *g_world;
  Actor* me = w.running_;
  if (me == nullptr) std::abort();  // an event waits
  if (me->dying_) {
    errno = EBADF;
    return -1;
  }
  me->fds_ = fds;
  me->until_ = deadline.at() + me->away_ns_;
  me->fiber_->give_way();
  if (me->dying_) {
    errno = EBADF;
    return -1;
  }
  return me->ready_;
}

void World::resume(Actor& actor) {
  ++turns_;
  mix(actor.name_);
  Actor* before = std::exchange(running_, &actor);
  const int64_t outside_ns = launcher::asked_ns();
  launcher::pardon_ns(actor.asked_ns_ - outside_ns);
  actor.fiber_->resume();
  actor.asked_ns_ = launcher::asked_ns();
  launcher::pardon_ns(outside_ns - actor.asked_ns_);
  running_ = before;
  if (actor.fiber_->over()) actor.fiber_.reset();
}

void World::stop(Actor& actor) {
  actor.stopped_ = true;
}

void World::go_on(Actor& actor) {
  actor.stopped_ = false;
}

void World::stop_running() {
  Actor* me = running_;
  if (me->dying_) return;
  const int64_t from = now_;
  me->stopped_ = true;
  me->fds_ = {};
  me->until_ = now_;
  me->fiber_->give_way();
  me->away_ns_ += now_ - from;
}

void World::kill(Actor& actor) {
  if (actor.over()) return;
  actor.dying_ = true;
  resume(actor);
  if (!actor.over()) std::abort();
}

void World::at(int64_t when_ns, std::function<void()> what) {
  events_.emplace(std::max(when_ns, now_), std::move(what));
}

// All processes and cables that can run do, in an order of the seed's. False: none can.
bool World::step() {
  polled_.clear();
  for (const auto& actor : actors_)
    if (!actor->over() && !actor->stopped_)
      polled_.insert(polled_.end(), actor->fds_.begin(), actor->fds_.end());
  for (const Mover* mover : movers_) polled_.push_back(mover->interest());
  if (::poll(polled_.data(), nfds_t(polled_.size()), 0) < 0) std::abort();
  std::vector<std::pair<Actor*, Mover*>> ready;
  size_t next = 0;
  for (const auto& actor : actors_) {
    if (actor->over() || actor->stopped_) continue;
    actor->ready_ = 0;
    // A descriptor that is ready for it stays so: nobody else takes it.
    for (pollfd& fd : actor->fds_) {
      fd.revents = polled_[next++].revents;
      actor->ready_ += fd.revents != 0;
    }
    if (actor->ready_ > 0 || actor->until_ <= now_) ready.emplace_back(actor.get(), nullptr);
  }
  for (Mover* mover : movers_)
    if (polled_[next++].revents != 0) ready.emplace_back(nullptr, mover);
  if (ready.empty()) return false;
  for (size_t left = ready.size(); left > 0; --left) {
    std::swap(ready[draw(left)], ready[left - 1]);
    const auto [actor, mover] = ready[left - 1];
    if (actor == nullptr)
      mover->move();
    else if (!actor->over() && !actor->stopped_)
      resume(*actor);
  }
  return true;
}

// To the next moment at which something is due. False: there is none before the end.
bool World::move_time(int64_t end_ns) {
  int64_t next = end_ns;
  for (const auto& actor : actors_)
    if (!actor->over() && !actor->stopped_) next = std::min(next, actor->until_);
  if (!events_.empty()) next = std::min(next, events_.begin()->first);
  now_ = std::max(now_, next);
  if (now_ >= end_ns) return false;
  while (!events_.empty() && events_.begin()->first <= now_) {
    const auto what = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    what();
  }
  return true;
}

void World::run(int64_t end_ns) {
  const auto left = [](const auto& actor) { return !actor->over(); };
  while (std::any_of(actors_.begin(), actors_.end(), left)) {
    if (step()) {
      if (++steps_ < kMostSteps) continue;
      spins_ = true;
      for (const auto& actor : actors_)
        if (!actor->over() && (actor->ready_ > 0 || actor->until_ <= now_))
          note(format("{} goes on and on: {} descriptors are ready", actor->name_, actor->ready_));
      return;
    }
    steps_ = 0;
    if (!move_time(end_ns)) return;
  }
}

// One that is killed may still log in somewhere: its list grows meanwhile.
void World::end() {
  for (size_t i = 0; i < actors_.size(); ++i) kill(*actors_[i]);
  events_.clear();
}

void World::mix(const std::string& text) {
  for (const char c : text) hash_ = (hash_ ^ uint8_t(c)) * 1099511628211u;
  hash_ = (hash_ ^ uint64_t(now_)) * 1099511628211u;
}

void World::note(const std::string& text) {
  mix(text);
  if (keeps_trace_) trace_ += format("{:10.6f} {}\n", seconds(age()), text);
}

}  // namespace collctl::sim
