// Helpers of the launcher's tests: shell ranks, gathering all events, looking for leftovers by pid.
#pragma once
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "launcher/local/local.h"
#include "tests/catch.h"

namespace collctl::launcher::testing {

inline RankProcess shell(const std::string& script, bool control = false) {
  RankProcess p;
  p.argv = {"sh", "-c", script};
  p.environment = base::environment_list();
  p.control = control;
  return p;
}

// A rank that writes so many lines of such a length by itself, and then ends with code 5.
inline std::string many_lines(uint64_t lines, uint64_t length) {
  return format(
      "line=$(printf %0{}d 7); i=0; while [ $i -lt {} ]; do echo $line; i=$((i+1)); done; exit 5",
      length, lines);
}

// How many bytes a process has written when it writes no more: half a second long, or it is gone.
inline uint64_t written_until_blocked(int pid) {
  uint64_t written = 0;
  const Deadline deadline = Deadline::after_seconds(60);
  for (int same = 0; same < 50 && base::process_state(pid) != 0 && !deadline.passed(); ++same) {
    std::ifstream file(format("/proc/{}/io", pid));
    uint64_t now = 0;
    for (std::string word; file >> word;)
      if (word == "wchar:") file >> now;
    if (now != written || now == 0) same = 0;
    written = now;
    base::sleep_until(Deadline::after_ms(10));
  }
  return written;
}

struct Seen {
  std::map<int, std::string> out, err;
  std::map<int, Event> exits;
  std::vector<Event> frames;
  std::vector<EventKind> order;
};

inline void gather(LocalJob& job, Seen& seen, Deadline deadline) {
  auto events = job.wait(deadline);
  REQUIRE(events.ok());
  for (Event& e : *events) {
    seen.order.push_back(e.kind);
    if (e.kind == EventKind::line)
      (e.is_stderr ? seen.err : seen.out)[e.rank] += e.line + (e.partial ? "" : "\n");
    if (e.kind == EventKind::frame) seen.frames.push_back(e);
    if (e.kind == EventKind::exited) {
      REQUIRE(seen.exits.count(e.rank) == 0);
      seen.exits[e.rank] = e;
    }
  }
}

// Until every rank has ended; the test fails when that takes longer than 60 s.
inline Seen run_to_end(LocalJob& job) {
  Seen seen;
  const Deadline deadline = Deadline::after_seconds(60);
  while (job.running_count() > 0) {
    gather(job, seen, deadline);
    REQUIRE_FALSE(deadline.passed());
  }
  return seen;
}

inline bool alive(int pid) {
  const char state = base::process_state(pid);
  return state != 0 && state != 'Z' && state != 'X';
}

inline bool gone_within(int pid, double seconds) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  while (alive(pid)) {
    if (deadline.passed()) return false;
    base::sleep_until(Deadline::after_ms(5));
  }
  return true;
}

// Reads output until a whole line of rank 0 is there, and returns it as a number (a pid).
inline int pid_line(LocalJob& job, Seen& seen) {
  const Deadline deadline = Deadline::after_seconds(30);
  while (seen.out[0].find('\n') == std::string::npos) {
    REQUIRE_FALSE(deadline.passed());
    gather(job, seen, deadline);
  }
  return std::stoi(seen.out[0]);
}

}  // namespace collctl::launcher::testing
