// A GPU for kernels that are compiled for the host: every thread of every block is a fiber, all of
// them on one host thread, so a run depends on its seed alone. Threads give way where they look at
// memory that others write; which one goes on is drawn. Warps and whole launches are held up now
// and then, and stores of lines arrive late, in parts and in any order, as far as the protocols
// allow for that (ptx.cuh beside this file). Time is counted in looks, not in seconds: waits that
// end by their deadline do so however slow the host is.
//
// Unknown to it are caches, plain stores of less than 8 bytes and loads that come too early. One
// host thread only. Nothing is thrown out of a fiber; run() returns what went wrong.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulated {

struct Block;
struct Fiber;
struct Launch;
struct Warp;

// How much a run is disturbed.
struct Manners {
  uint64_t seed = 1;
  uint32_t looks = 4;            // one look in so many gives way to others; a power of two
  uint32_t pauses = 64;          // one turn of a warp in so many holds something up; 0: none
  uint32_t longest_pause = 512;  // in turns of warps
  uint32_t in_flight = 64;       // most that has been stored and not arrived, in parts; 0: none
  uint32_t arrivals = 4;         // one turn in so many brings some of that
  bool tears = true;             // accesses of 16 bytes fall into halves, but where none may
};

// Steps that the lanes of a warp do together, and the values that each brings.
enum class Meeting : uint8_t { sync, any, all, shuffle, store };
struct Brought {
  uint64_t a[32], b[32];
  uint8_t* to[32];
};

class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // --- Host

  // From here on. Nothing may be under way.
  void behave(const Manners& manners);
  // Queues a kernel on a stream (any value): it begins when those before it on the stream are over.
  void launch(void* stream, int blocks, int threads, std::function<void()> kernel);
  // Until everything that was launched is over. Otherwise returns what waits for what, and forgets
  // it all: when nothing can go on, after `most_looks`, or when a kernel did what no GPU allows.
  std::string run(uint64_t most_looks = 1'000'000'000);
  uint64_t random();
  uint64_t random(uint64_t below) { return random() % below; }

  // Memory that other ranks read: plain stores to it arrive late, too. A thread must not read there
  // what its own block has stored.
  void arrives_late(const void* begin, size_t bytes);
  void forget_memory(const void* begin);

  // --- Threads

  // A look at what others write.
  void look() {
    ++looks_;
    if ((random() & look_mask_) == 0) give_way();
  }
  bool tears() const { return manners_.tears; }
  int64_t clock_ns() const { return int64_t(looks_) * 10 + 1; }
  // Lanes of `mask` meet; what all of them brought.
  const Brought& meet(Meeting what, uint32_t mask, uint64_t a = 0, uint64_t b = 0,
                      uint8_t* to = nullptr);
  // Barrier `number` of the block. True when `mine` was in any of those that waited.
  bool barrier(int number, int count, bool waits, bool mine = false);
  // Up to 128 bytes that arrive in one, some time.
  void post(uint8_t* to, const void* data, size_t bytes);
  // The same of a plain store, to memory of which that is to be expected.
  void store(void* to, const void* data, size_t bytes);
  // Everything that this thread's block has posted has arrived.
  void fence();
  // A variable that the block's threads share; full of rubbish at first.
  void* shared(const void* which, size_t bytes);
  // Something that no GPU allows: ends the run.
  void forbid(const char* what);

 private:
  void give_way();
  void block_thread();
  void leave();
  void resume(Warp& warp, int lane);
  void enter();
  static void enter_fiber();
  void wake(Warp& warp, uint32_t lanes);
  void begin(Launch& launch);
  void begin_next();
  void finish(Warp& warp, int lane);
  void finish_launch(Launch& launch);
  bool held_up(Warp& warp);
  void take_turn(Warp& warp);
  size_t deliver(size_t index);
  template <class Which>
  void deliver_all(Which which);
  void deliver_some();
  std::string state() const;
  void forget();
  Fiber* take_fiber();

  struct Posted {
    uint8_t* to;
    uint8_t bytes;
    uint8_t data[128];
    const Block* by;
  };

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  std::vector<uint8_t*> stacks_;  // of many fibers each
  std::map<void*, std::deque<std::unique_ptr<Launch>>> streams_;
  std::vector<Warp*> ready_;
  std::vector<Posted> posted_;
  std::map<const uint8_t*, size_t> late_;
  Manners manners_;
  uint64_t look_mask_ = 0, state_ = 1, looks_ = 0, turns_ = 0;
  size_t next_ = 0;
  int under_way_ = 0;
  std::string forbidden_;
  Fiber* current_ = nullptr;
  void* host_[5];
  void* host_fake_ = nullptr;
  const void* host_stack_ = nullptr;
  size_t host_stack_bytes_ = 0;
};

// The one there is.
Machine& machine();

// A kernel by its address, for launches that get nothing else: how to bind its arguments.
using Binder = std::function<std::function<void()>(void** arguments)>;
void know(const void* kernel, const Binder& binder);
// False: not known.
bool launch(const void* kernel, int blocks, int threads, void* stream, void** arguments);

}  // namespace emulated
