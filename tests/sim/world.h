// A world of its own for the launcher, its agents and their ranks: one thread, a virtual clock that
// moves only when nobody can run, and a seed that says who runs next. Each process of a job is a
// fiber, which gives way where the product waits (base::test_wait); what has no code of the product
// (ranks, cables) are events. The same seed gives the same run. Threads: one World at a time.
#pragma once
#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/sim/fiber.h"

namespace collctl::sim {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;
inline double seconds(int64_t ns) {
  return double(ns) / 1e9;
}

// A process: it runs, waits, can be stopped and continued, and can be killed at any wait.
class Actor {
 public:
  const std::string& name() const { return name_; }
  bool over() const { return fiber_ == nullptr; }
  bool stopped() const { return stopped_; }
  // It has been killed: what it still does is no longer of this world.
  bool dying() const { return dying_; }

 private:
  friend class World;
  std::string name_;
  std::unique_ptr<Fiber> fiber_;
  bool stopped_ = false, dying_ = false;
  std::span<pollfd> fds_;
  int64_t until_ = 0;
  int ready_ = 0;         // of its descriptors
  int64_t away_ns_ = 0;   // its clock is behind by this: it has stopped itself
  int64_t asked_ns_ = 0;  // what is the process's own in launcher/ssh/prompt
};

// Something that moves when a descriptor is ready and is no process: one direction of a cable.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual pollfd interest() const = 0;  // fd -1: nothing now
  virtual void move() = 0;
};

class World {
 public:
  explicit World(uint64_t seed, bool keeps_trace = false);
  ~World();  // ends it
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  static World& here();

  int64_t now() const { return now_; }
  int64_t age() const { return now_ - kBegin; }  // since the world began
  uint64_t draw(uint64_t below) { return draw_() % below; }
  int64_t draw_ns(int64_t from, int64_t to) {
    return from + int64_t(draw(uint64_t(to - from + 1)));
  }
  bool chance(int percent) { return int(draw(100)) < percent; }

  Actor& spawn(std::string name, std::function<void()> body);
  void stop(Actor& actor);
  void go_on(Actor& actor);
  // SIGKILL: it lets go of all that it holds, now; whoever kills sees to it that it says nothing.
  void kill(Actor& actor);
  // The actor that runs; null in events.
  Actor* running() { return running_; }
  // SIGSTOP to itself (base/stop.h): its clock stands still meanwhile.
  void stop_running();

  void at(int64_t when_ns, std::function<void()> what);
  void after(int64_t ns, std::function<void()> what) { at(now_ + ns, std::move(what)); }
  void add(Mover& mover) { movers_.push_back(&mover); }
  void remove(Mover& mover) { std::erase(movers_, &mover); }

  // Until all actors have ended, or nothing can happen any more, or the time has come.
  void run(int64_t end_ns);
  // Kills who is left, and forgets what was to come. While all that they use is still there.
  void end();
  // Somebody went on and on at one moment; run() gave up.
  bool spins() const { return spins_; }

  // A line of what happens. All of them, and who ran when, make the hash by which two runs are
  // compared.
  void note(const std::string& text);
  uint64_t hash() const { return hash_; }
  const std::string& trace() const { return trace_; }
  uint64_t turns() const { return turns_; }

 private:
  static constexpr int64_t kBegin = 1'000'000 * kSecond;
  static int wait(std::span<pollfd> fds, Deadline deadline);
  void resume(Actor& actor);
  void mix(const std::string& text);
  bool step();
  bool move_time(int64_t end_ns);

  std::mt19937_64 draw_;
  int64_t now_ = kBegin;
  bool keeps_trace_;
  uint64_t hash_ = 14695981039346656037u, turns_ = 0;
  std::string trace_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::vector<Mover*> movers_;
  std::multimap<int64_t, std::function<void()>> events_;
  Actor* running_ = nullptr;
  int steps_ = 0;  // at this moment
  bool spins_ = false;
  std::vector<pollfd> polled_;
};

}  // namespace collctl::sim
