#include "tests/fake_verbs/world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/fake_verbs/local.h"
#include "tests/fake_verbs/setup.h"

namespace fake_verbs {
namespace {

constexpr uint64_t kMagic = 0x3176736272657666ull;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "fake_verbs: %s\n", why.c_str());
  std::abort();
}

void init_locks(World& w) {
  w.lock.init();
  w.arena_lock.init();
  for (Process& process : w.processes) {
    process.alive.init();
    process.lock.init();
    process.job_lock.init();
  }
  for (CompletionQueue& queue : w.queues) queue.lock.init();
  for (Pair& pair : w.pairs) {
    pair.lock.init();
    pair.receive_lock.init();
  }
}

void init(World& w, const Setup& setup) {
  init_locks(w);
  w.time_scale = setup.time_scale > 0 ? setup.time_scale : 1;
  w.next_domain = w.next_serial = 1;
  w.arena_next = (sizeof(World) + 4095) / 4096 * 4096;
  w.magic = kMagic;
}

int open_file(const std::string& path) {
  const int fd = path.empty() ? ::memfd_create("fake-verbs", MFD_CLOEXEC)
                              : ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) die("cannot open the world " + path + ": " + std::strerror(errno));
  return fd;
}

void add_devices(World& w, const Setup& setup) {
  Locked hold(w.lock);
  for (const Device& device : w.devices)
    if (device.used && device.host == setup.host) return;  // another process of this host was first
  int number = 0;
  for (const std::string& text : split(setup.devices, ',')) {
    int free = 0;
    while (free < kDevices && w.devices[free].used) ++free;
    if (free == kDevices) die("too many devices");
    const std::string wrong = parse_device(text, setup.host, number++, w.devices[free]);
    if (!wrong.empty()) die(wrong);
    w.devices[free].used = true;
  }
}

World* map_world(const Setup& setup, bool& made) {
  const int fd = open_file(setup.world);
  // Until the file is whole nobody else may look at it.
  if (::flock(fd, LOCK_EX) != 0) die("cannot lock the world");
  struct stat facts {};
  ::fstat(fd, &facts);
  made = facts.st_size == 0;
  if (made && ::ftruncate(fd, off_t(kWorldBytes)) != 0) die("cannot size the world");
  void* at =
      ::mmap(nullptr, kWorldBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) die("cannot map the world");
  World* w = static_cast<World*>(at);
  if (made) init(*w, setup);
  if (w->magic != kMagic) die(setup.world + " is no world of this library");
  ::flock(fd, LOCK_UN);  // the mapping would keep it
  ::close(fd);
  return w;
}

std::mutex world_mutex;

}  // namespace

std::atomic<World*> the_world{nullptr};

World& make_world() {
  std::lock_guard hold(world_mutex);
  if (World* w = the_world.load()) return *w;
  const Setup& setup = local().setup();
  if (setup.host < 0 || setup.host > 15) die("FAKE_VERBS_HOST is 0 to 15");
  bool made = false;
  World* w = map_world(setup, made);
  the_world.store(w, std::memory_order_release);
  add_devices(*w, setup);
  if (!made) return *w;
  for (const std::string& text : split(setup.faults, ';')) {
    Fault fault;
    if (const std::string wrong = parse_fault(text, fault); !wrong.empty()) die(wrong);
    add_fault(fault);
  }
  return *w;
}

std::string set_up(const Setup& setup) {
  std::lock_guard hold(world_mutex);
  if (the_world.load() != nullptr) {
    if (local().open_contexts() != 0) return "a device is open";
    ::munmap(the_world.load(), kWorldBytes);
    the_world.store(nullptr);
  }
  for (const std::string& text : split(setup.devices, ',')) {
    Device trial{};
    if (const std::string wrong = parse_device(text, setup.host, 0, trial); !wrong.empty())
      return wrong;
  }
  local().set_setup(setup);
  return {};
}

void SharedLock::init() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

void SharedLock::lock() {
  const int rc = pthread_mutex_lock(&mutex_);
  if (rc == 0) return;
  // Its holder was killed. The lock guards single fields and counters that are written last.
  if (rc != EOWNERDEAD || pthread_mutex_consistent(&mutex_) != 0) die("a lock is broken");
}

bool SharedLock::held_by_other() {
  const int rc = pthread_mutex_trylock(&mutex_);
  if (rc == EBUSY) return true;
  if (rc == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  if (rc == 0 || rc == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
  return false;
}

uint64_t arena_take(uint64_t bytes) {
  World& w = world();
  const int power = std::max(6, int(std::bit_width(bytes - 1)));
  Locked hold(w.arena_lock);
  if (const uint64_t at = w.arena_free[power]) {
    w.arena_free[power] = *arena<uint64_t>(at);
    return at;
  }
  if (w.arena_next + (uint64_t(1) << power) > kWorldBytes) return 0;
  const uint64_t at = w.arena_next;
  w.arena_next += uint64_t(1) << power;
  return at;
}

void arena_give(uint64_t at, uint64_t bytes) {
  if (at == 0) return;
  World& w = world();
  const int power = std::max(6, int(std::bit_width(bytes - 1)));
  Locked hold(w.arena_lock);
  *arena<uint64_t>(at) = w.arena_free[power];
  w.arena_free[power] = at;
  local().offered.fetch_add(1, std::memory_order_release);
}

namespace {
int64_t (*g_clock)() = nullptr;
}

void use_clock(int64_t (*ns)()) {
  g_clock = ns;
}

uint64_t now_ns() {
  if (g_clock != nullptr) return uint64_t(g_clock());
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, uint64_t ns) {
  const timespec t{time_t(ns / 1000000000), long(ns % 1000000000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &t, nullptr, 0);
}

void wake_word(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ring_word(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
  wake_word(word);
}

void violation(const char* format, ...) {
  World& w = world();
  const uint32_t number = w.violation_count.fetch_add(1);
  if (number >= kViolations) return;
  va_list list;
  va_start(list, format);
  std::vsnprintf(w.violations[number], sizeof w.violations[number], format, list);
  va_end(list);
}

}  // namespace fake_verbs
