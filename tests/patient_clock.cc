#include "tests/patient_clock.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/clock.h"

// Stand-ins that take time, in programs that are linked with them (control.h of each).
namespace fake_verbs {
void use_clock(int64_t (*ns)()) __attribute__((weak));
}
namespace fake_nccl {
void use_clock(int64_t (*ns)()) __attribute__((weak));
}

namespace collctl::test {
namespace {

// The last beat, for all processes. `count` is odd while one is written: time at two paces is not
// to go back for a reader between them.
struct Beats {
  std::atomic<uint32_t> count = 0;
  std::atomic<int64_t> machine_ns = 0, ns = 0, running = 1;
  int64_t processors = 1;

  int64_t at(int64_t machine) const {
    return ns + patient_ns(machine - machine_ns, processors, running);
  }
  void beat(int64_t now_running) {
    ++count;
    const int64_t machine = base::machine_ns();
    ns = at(machine);
    machine_ns = machine;
    running = now_running;
    ++count;
  }
  int64_t now() const {
    while (true) {
      const uint32_t before = count;
      const int64_t now = at(base::machine_ns());
      if (before % 2 == 0 && count == before) return now;
      if (before % 2 != 0) ::sched_yield();
    }
  }
};
Beats* g_beats = nullptr;

int64_t patient_now() {
  return g_beats->now();
}

// `others` hangs up with the last process on this clock, `clock` is the other end.
[[noreturn]] void beat_until_alone(int others, int clock) {
  // In nobody's group, and nobody waits for the end of this output.
  ::setsid();
  ::prctl(PR_SET_NAME, "patient_clock");
  ::close(clock);
  const int nothing = ::open("/dev/null", O_RDWR), loadavg = ::open("/proc/loadavg", O_RDONLY);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  pollfd end{.fd = others, .events = 0, .revents = 0};
  while (::poll(&end, 1, 2) == 0 || (end.revents & POLLHUP) == 0) {
    char line[100];
    const ssize_t size = ::pread(loadavg, line, sizeof line - 1, 0);
    line[std::max<ssize_t>(size, 0)] = 0;
    g_beats->beat(running_threads(line) - 1);  // but for this one
  }
  ::_exit(0);
}

}  // namespace

int64_t running_threads(const char* loadavg) {
  double one, five, fifteen;
  long long running = 0;
  return std::sscanf(loadavg, "%lf %lf %lf %lld/", &one, &five, &fifteen, &running) == 4 ? running
                                                                                         : 0;
}

void install_patient_clock() {
  const auto without = [](const char* what) {
    std::printf("tests run on the machine's clock: %s: %s\n", what, std::strerror(errno));
  };
  void* const memory =
      ::mmap(nullptr, sizeof(Beats), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return without("mmap");
  int others[2];
  if (::pipe2(others, O_CLOEXEC) != 0) return without("pipe2");
  g_beats = new (memory) Beats;
  g_beats->processors = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  g_beats->machine_ns = g_beats->ns = base::machine_ns();
  std::fflush(nullptr);
  // A grandchild, which no test finds among its children.
  const pid_t middle = ::fork();
  if (middle == 0) {
    const pid_t beats = ::fork();
    if (beats == 0) beat_until_alone(others[0], others[1]);
    ::_exit(beats < 0 ? errno : 0);
  }
  const int failure = middle < 0 ? errno : 0;
  ::close(others[0]);  // the other end stays open, here and in all that are forked from here
  int ended = failure;
  while (failure == 0 && ::waitpid(middle, &ended, 0) < 0 && errno == EINTR) {
  }
  errno = failure != 0 ? failure : WEXITSTATUS(ended);
  if (ended != 0) return without("fork");
  base::other_clock = patient_now;
  if (fake_verbs::use_clock != nullptr) fake_verbs::use_clock(patient_now);
  if (fake_nccl::use_clock != nullptr) fake_nccl::use_clock(patient_now);
}

}  // namespace collctl::test
