// Windows of users' memory where something is wrong: every misuse is an error on all ranks that
// says what and where, never a hang; the communicator goes on where it can.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/host_facts.h"
#include "base/wait.h"
#include "runtime/one_sided/one_sided.h"
#include "tests/unit/runtime/few_files.h"
#include "tests/unit/runtime/window/window_job.h"

namespace window_user_window_misuse_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Registers ranges(rank) on all ranks; what each is told. Then all register a good window: misuse
// leaves the communicator as it was.
using Ranges = std::function<std::vector<WindowRange>(Communicator&)>;
std::vector<Error> refused(int n, const Ranges& ranges) {
  std::vector<Error> errors(static_cast<size_t>(n));
  INFO(n << " ranks");
  CHECK(with_ranks(n, {}, [&](Communicator& c, Complaints& complaints) {
          const auto wanted = ranges(c);
          if (auto windows = c.register_windows(wanted, soon()); !windows)
            errors[size_t(c.rank())] = windows.error();
          else
            complaints.add(format("rank {}: it was registered", c.rank()));
          Memory memory(100);
          const WindowPointer good = registered(c, complaints, {memory.at, 100});
          if (good == nullptr) return;
          complaints.add(c.rank(), c.deregister_windows({&good, 1}, soon()));
          const WindowUsage usage = c.windows().usage();
          if (usage.windows + usage.placements != 0) complaints.add("something is left");
        }) == "");
  return errors;
}

void all_say(const std::vector<Error>& errors, const std::string& words, int blamed = -1) {
  for (const Error& e : errors) {
    INFO(e.chain());
    CHECK(e.code == ErrorCode::usage);
    CHECK(e.chain().find(words) != std::string::npos);
    if (blamed >= 0 && e.rank >= 0) CHECK(e.rank == blamed);
  }
}

std::vector<WindowRange> one(void* at, uint64_t bytes) {
  return {{at, bytes}};
}

}  // namespace

TEST_CASE("of a communicator that has failed no window is asked for", "[user_window]") {
  Complaints wrong;
  // That the communicators are not closed in order is what ranks complain of.
  (void)with_ranks(2, {}, [&](Communicator& c, Complaints&) {
    Memory memory(100);
    if (c.rank() == 0) c.abort(Error(ErrorCode::lost, "the cable was pulled"));
    for (const Deadline until = soon(); c.async_error() && !until.passed();)
      std::this_thread::yield();
    const auto windows = c.register_windows(one(memory.at, 100), soon());
    if (windows || windows.error().message.find("the cable was pulled") == std::string::npos)
      wrong.add(format("rank {}: not the reason", c.rank()));
  });
  CHECK(wrong.text() == "");
}

TEST_CASE("memory that is not for windows", "[user_window]") {
  static int value;
  all_say(refused(2, [](Communicator&) { return one(&value, 4); }),
          "was not allocated for windows");
  // One rank alone is enough, and is named to the others.
  const uint64_t page = base::page_bytes();
  Memory good(page), gone(page);
  uint8_t* const freed = gone.at;
  REQUIRE(gone.free());
  const auto errors =
      refused(3, [&](Communicator& c) { return one(c.rank() == 1 ? freed : good.at, 4); });
  all_say(errors, "has already been freed", 1);
  CHECK(errors[0].chain().find("rank 1 (host ") != std::string::npos);
  all_say(refused(2, [&](Communicator&) { return one(good.at + page - 96, 97); }), "97 bytes at");
  all_say(refused(2, [&](Communicator&) { return one(good.at + page - 96, 97); }),
          "end 1 bytes beyond their allocation");
  all_say(refused(2, [&](Communicator&) { return one(good.at, 0); }), "a window of 0 bytes");
  all_say(refused(2, [&](Communicator&) { return one(nullptr, 8); }), "a window of 8 bytes");
  all_say(refused(2, [&](Communicator&) { return std::vector<WindowRange>(); }),
          "register 0 windows");
  all_say(refused(2,
                  [&](Communicator&) {
                    return std::vector<WindowRange>{{good.at, 10}, {good.at + 9, 10}};
                  }),
          "overlap window 1 of the same call");
}

TEST_CASE("freeing memory for windows", "[user_window]") {
  const auto says = [](const Status& status, const char* words) {
    REQUIRE_FALSE(status);
    INFO(status.error().chain());
    CHECK(status.error().code == ErrorCode::usage);
    CHECK(status.error().message.find(words) != std::string::npos);
  };
  Memory memory(8192);
  uint8_t* const at = memory.at;
  says(free_window_memory(at + 1), "is inside an allocation that begins at");
  REQUIRE(memory.free());
  says(free_window_memory(at), "has already been freed");
  says(free_window_memory(at + 8191), "has already been freed");
  static int value;
  says(free_window_memory(&value), "was not allocated for windows");
  says(free_window_memory(nullptr), "was not allocated for windows");
  CHECK_FALSE(allocate_window_memory(0));
  const auto huge = allocate_window_memory(uint64_t(1) << 62);
  REQUIRE_FALSE(huge);
  CHECK(huge.error().code == ErrorCode::unavailable);
  // Registered memory stays until its window is gone.
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          Memory mine(100);
          const WindowPointer window = registered(c, complaints, {mine.at, 100});
          if (window == nullptr) return;
          const Status freed = free_window_memory(mine.at);
          if (freed ||
              freed.error().message.find("is still registered (1 times)") == std::string::npos)
            complaints.add("registered memory was freed");
          complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
          complaints.add(c.rank(), mine.free());
        }) == "");
}

TEST_CASE("ranks that register different windows", "[user_window]") {
  Memory memory[3] = {Memory(8192), Memory(8192), Memory(8192)};
  const auto mine = [&](Communicator& c) { return memory[size_t(c.rank())].at; };
  all_say(refused(3, [&](Communicator& c) { return one(mine(c), c.rank() == 2 ? 4096 : 8192); }),
          "the window has 8192 bytes on rank 0 and 4096 bytes on rank 2", 2);
  all_say(refused(3, [&](Communicator& c) { return one(mine(c) + (c.rank() == 1 ? 64 : 0), 10); }),
          "begins 0 bytes into its allocation on rank 0 and 64 bytes on rank 1", 1);
  all_say(refused(3,
                  [&](Communicator& c) {
                    std::vector<WindowRange> ranges{{mine(c), 10}};
                    if (c.rank() == 1) ranges.push_back({mine(c) + 10, 10});
                    return ranges;
                  }),
          "rank 0 registers 1 windows and rank 1 registers 2", 1);
}

TEST_CASE("windows that others know differently", "[user_window]") {
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          Memory memory(8192), other(8192);
          const auto says = [&](auto outcome, const char* words) {
            if (outcome)
              complaints.add(format("rank {} could: {}", c.rank(), words));
            else if (outcome.error().code != ErrorCode::usage ||
                     outcome.error().message.find(words) == std::string::npos)
              complaints.add(outcome.error().chain());
          };
          const WindowPointer window = registered(c, complaints, {memory.at, 4096});
          if (window == nullptr) return;
          const auto try_one = [&](void* at, uint64_t bytes) {
            const WindowRange range{at, bytes};
            return c.register_windows({&range, 1}, soon());
          };
          says(try_one(memory.at + 4095, 2), "overlap window 1 (4096 bytes at");
          says(try_one(memory.at, 4095), "overlap window 1");
          // Again on rank 0, new on rank 1.
          says(try_one(c.rank() == 0 ? memory.at : other.at, 4096),
               "the window is number 1 on rank 0 and new on rank 1");
          // Deregistered on rank 1 alone: the next registration finds it out, and the one after
          // that is fine when rank 0 has followed.
          if (c.rank() == 1) complaints.add(1, c.deregister_windows({&window, 1}, soon()));
          says(try_one(other.at, 8), "rank 1 has not deregistered the same windows as rank 0");
          if (c.rank() == 0) complaints.add(0, c.deregister_windows({&window, 1}, soon()));
          says(c.deregister_windows({&window, 1}, soon()), "window 1 was deregistered already");
          const WindowPointer next = registered(c, complaints, {other.at, 8});
          if (next == nullptr) return;
          if (next->number() != 2) complaints.add("the number of a window came again");
          const WindowPointer twice[] = {next, next}, none;
          says(c.deregister_windows(twice, soon()), "was registered 1 times, not 2");
          says(c.deregister_windows({&none, 1}, soon()), "a window that is null");
          says(next->peer(2, 0, 1), "does not map window 2 of rank 2");
          says(next->peer(1, 4, 5), "5 bytes at 4 of window 2, which has 8 bytes");
          says(next->peer(1, UINT64_MAX, 1), "of window 2, which has 8 bytes");
          says(next->peer(1, 1, UINT64_MAX), "of window 2, which has 8 bytes");
          complaints.add(c.rank(), c.deregister_windows({&next, 1}, soon()));
        }) == "");
}

TEST_CASE("one allocation in windows of two communicators", "[user_window]") {
  const Communicators first = start_job(2, {}), second = start_job(2, {});
  Complaints complaints;
  on_all(2, [&](int r) {
    Memory memory(4096);
    Communicator &a = *first[size_t(r)], &b = *second[size_t(r)];
    const WindowPointer in_a = registered(a, complaints, {memory.at, 4096});
    const WindowPointer in_b = registered(b, complaints, {memory.at, 4096});
    if (in_a == nullptr || in_b == nullptr) return;
    const Status wrong = b.deregister_windows({&in_a, 1}, soon());
    if (wrong ||
        wrong.error().message.find("window 1 is of another communicator") == std::string::npos)
      complaints.add("a foreign window was deregistered");
    memory.at[77] = uint8_t(r + 1);
    complaints.add(r, a.barrier(soon()));
    for (const auto& window : {in_a, in_b})
      if (**window->peer(1 - r, 77, 1) != uint8_t(2 - r)) complaints.add("another's byte");
    complaints.add(r, b.barrier(soon()));
    complaints.add(r, a.deregister_windows({&in_a, 1}, soon()));
    if (**in_b->peer(1 - r, 77, 1) != uint8_t(2 - r)) complaints.add("it left both");
    complaints.add(r, b.barrier(soon()));
    complaints.add(r, b.deregister_windows({&in_b, 1}, soon()));
    complaints.add(r, memory.free());
  });
  CHECK(complaints.text() == "");
}

TEST_CASE("a slot of the flat range that is full", "[user_window]") {
  CHECK(in_child([] {
          ::setenv("COLLCTL_WINDOW_STRIDE", "4M", 1);
          return with_ranks(3, {}, [&](Communicator& c, Complaints& complaints) {
            // 4 MiB hold two of 1.5 MiB; ranks whose allocations differ count as the largest.
            const uint64_t bytes = c.rank() == 1 ? 3 << 19 : 4096;
            Memory a(bytes), b(bytes), d(bytes);
            std::vector<WindowPointer> windows{registered(c, complaints, {a.at, 8}),
                                               registered(c, complaints, {b.at, 8})};
            const WindowRange third{d.at, 8};
            const auto full = c.register_windows({&third, 1}, soon());
            if (full || full.error().code != ErrorCode::unavailable ||
                full.error().message.find("no room for 1572864 bytes: rank") == std::string::npos ||
                full.error().hint.find("COLLCTL_WINDOW_STRIDE") == std::string::npos)
              complaints.add(full ? "there was room" : full.error().chain());
            // All or none, of several at once: one fits no more.
            complaints.add(c.rank(), c.deregister_windows({&windows[0], 1}, soon()));
            const WindowRange two[] = {{a.at, 8}, third};
            if (c.register_windows(two, soon())) complaints.add("there was room for two");
            const WindowPointer again = registered(c, complaints, {d.at, 8});
            if (again == nullptr) return;
            complaints.add(c.rank(), c.deregister_windows({&again, 1}, soon()));
            complaints.add(c.rank(), c.deregister_windows({&windows[1], 1}, soon()));
          });
        }) == "");
}

TEST_CASE("a rank that never registers is named by all others", "[user_window]") {
  // Rank 0 keeps the roll: it must not lose patience with those who do come.
  const auto deadline_of = [](int absent) { return Deadline::after_ms(absent == 0 ? 500 : 5000); };
  for (const int absent : {0, 2}) {
    INFO("rank " << absent << " stays away");
    const Communicators job = start_job(4, {});
    std::vector<Error> errors(4);
    Complaints complaints;
    on_all(4, [&](int r) {
      if (r == absent) return;
      Memory memory(4096);
      const WindowRange range{memory.at, 4096};
      Communicator& c = *job[size_t(r)];
      auto windows = c.register_windows({&range, 1}, deadline_of(absent));
      if (!windows) errors[size_t(r)] = windows.error();
      if (c.register_windows({&range, 1}, soon())) complaints.add("it goes on");
      complaints.add(r, memory.free());
    });
    CHECK(complaints.text() == "");
    for (int r = 0; r < 4; ++r) {
      if (r == absent) continue;
      INFO(errors[size_t(r)].chain());
      CHECK(errors[size_t(r)].code == ErrorCode::deadline);
      CHECK(errors[size_t(r)].rank == absent);
      CHECK(errors[size_t(r)].chain().find(format("rank {} did not arrive", absent)) !=
            std::string::npos);
    }
  }
}

namespace {

// Rank 1 has room for `left` more descriptors when it registers. 0: registered; 1: refused, and the
// communicator goes on; 2: that was its end; more: as it should not be.
int register_with_few_files(Communicator& c, size_t left) {
  Memory memory(10'000);
  Complaints complaints;
  // Ranks know each other: nobody has to connect any more.
  const WindowPointer before = registered(c, complaints, {memory.at, 10'000});
  if (before == nullptr || !c.deregister_windows({&before, 1}, soon())) return 10;
  std::optional<FewFiles> few;
  if (c.rank() == 1) few.emplace(left);
  const WindowRange range{memory.at, 10'000};
  auto windows = c.register_windows({&range, 1}, soon());
  few.reset();
  if (windows) return c.deregister_windows(*windows, soon()) && c.finalize(soon()) ? 0 : 11;
  if (windows.error().code != ErrorCode::unavailable || windows.error().rank == 0) {
    std::fputs((windows.error().chain() + "\n").c_str(), stderr);
    return 12;
  }
  const WindowUsage usage = c.windows().usage();
  if (usage.windows + usage.placements != 0 || usage.largest_free != usage.stride_bytes) return 13;
  if (!c.async_error()) return 2;
  const WindowPointer after = registered(c, complaints, {memory.at, 10'000});
  if (after == nullptr || !c.deregister_windows({&after, 1}, soon())) return 14;
  return c.finalize(soon()) ? 1 : 15;
}

// Rank 1 has no memory for its board.
int open_without_memory(Communicator& c) {
  Memory memory(100);
  Complaints complaints;
  const WindowPointer known = registered(c, complaints, {memory.at, 100});
  if (known == nullptr || !c.deregister_windows({&known, 1}, soon())) return 10;
  std::optional<FewFiles> few;
  if (c.rank() == 1) few.emplace(0);
  const auto ops = OneSided::open(c, soon());
  few.reset();
  if (ops) return 11;
  const Error& error = ops.error();
  const bool named = c.rank() == 1 ||
                     (error.rank == 1 && error.chain().find("rank 1 (host ") != std::string::npos);
  if (error.code != ErrorCode::unavailable || !named ||
      error.chain().find("a file in memory") == std::string::npos) {
    std::fputs((error.chain() + "\n").c_str(), stderr);
    return 12;
  }
  return OneSided::open(c, soon()) && c.finalize(soon()) ? 0 : 13;
}

int rounds_in_processes(Communicator& c) {
  for (int round = 0; round < 20; ++round) {
    Memory memory(10'000);
    Complaints complaints;
    for (int i = 0; i < 10'000; ++i) memory.at[i] = uint8_t(c.rank() * 31 + i + round);
    const WindowPointer window = registered(c, complaints, {memory.at, 10'000});
    if (window == nullptr || !c.barrier(soon())) return 10;
    for (int peer = 0; peer < c.size(); ++peer) {
      const auto at = window->peer(peer, 0, 10'000);
      for (int i = 0; i < 10'000; ++i)
        if ((*at)[i] != uint8_t(peer * 31 + i + round)) return 11;
    }
    // The window of a peer that has gone on and freed its memory is still there.
    if (!c.deregister_windows({&window, 1}, soon()) || !memory.free()) return 12;
  }
  return c.finalize(soon()) ? 0 : 13;
}

int one_dies(Communicator& c) {
  Memory memory(10'000), more(10'000);
  Complaints complaints;
  memory.at[5] = uint8_t(c.rank() + 1);
  const WindowPointer window = registered(c, complaints, {memory.at, 10'000});
  if (window == nullptr || !c.barrier(soon())) return 10;
  // Only when nobody waits for rank 1 any more: the others note it in its memory.
  const auto told = [&](int by) { return std::atomic_ref<uint8_t>(memory.at[100 + by]); };
  if (c.rank() == 1) {
    const Deadline deadline = soon();
    while (told(0).load() + told(2).load() < 2 && !deadline.passed())
      base::sleep_until(Deadline::after_ms(1));
    ::raise(SIGKILL);
  }
  std::atomic_ref<uint8_t>(**window->peer(1, uint64_t(100 + c.rank()), 1)).store(1);
  const size_t files = open_files();
  const WindowRange range{more.at, 10'000};
  const auto late = c.register_windows({&range, 1}, soon());
  if (late || late.error().code != ErrorCode::lost || late.error().rank != 1) {
    std::fputs(late ? "registered\n" : (late.error().chain() + "\n").c_str(), stderr);
    return 11;
  }
  // The dead rank's memory is still mapped, and everything can be given back.
  if (**window->peer(1, 5, 1) != 2) return 12;
  if (!c.deregister_windows({&window, 1}, soon())) return 13;
  if (!memory.free() || !more.free()) return 14;
  const WindowUsage usage = c.windows().usage();
  return usage.placements == 0 && open_files() <= files && window_memory_usage().segments == 0 ? 0
                                                                                               : 15;
}

}  // namespace

// All ranks come to the same end, and none has to wait for its deadline.
TEST_CASE("descriptors run out while windows are registered", "[user_window]") {
  const auto ends = [](size_t left) {
    return in_processes(3, [left](Communicator& c) { return register_with_few_files(c, left); });
  };
  CHECK(ends(0) == std::vector<int>{1, 1, 1});  // before anybody has passed anything
  CHECK(ends(1) == std::vector<int>{2, 2, 2});  // nothing can be passed
  CHECK(ends(2) == std::vector<int>{2, 2, 2});  // what is passed finds no room
  CHECK(ends(12) == std::vector<int>{0, 0, 0});
}

TEST_CASE("a rank without memory for a window says so to all", "[user_window][one_sided]") {
  CHECK(in_processes(3, open_without_memory) == std::vector<int>{0, 0, 0});
}

TEST_CASE("windows between processes come and go", "[user_window]") {
  CHECK(in_processes(3, rounds_in_processes) == std::vector<int>{0, 0, 0});
}

TEST_CASE("a rank that dies leaves its memory to those who map it", "[user_window]") {
  CHECK(in_processes(3, one_dies) == std::vector<int>{0, -SIGKILL, 0});
}

}  // namespace window_user_window_misuse_tests
