// Jobs of threads that register windows, children with an environment of their own: for the tests
// of windows.
#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "base/fd.h"
#include "runtime/window/memory.h"
#include "tests/unit/runtime/alone.h"
#include "tests/unit/runtime/ranks.h"
#include "tests/unit/runtime/says.h"

namespace collctl::runtime::testing {

// Memory for windows; freed at the end, if it is not before.
struct Memory {
  explicit Memory(uint64_t bytes) {
    auto made = allocate_window_memory(bytes);
    // Ranks are threads: no macros of Catch here.
    if (made) at = static_cast<uint8_t*>(*made);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  // Refused when a test leaves its windows registered: their communicator frees nothing of the
  // user's.
  ~Memory() {
    if (at != nullptr) (void)free();
  }
  Status free() {
    Status freed = free_window_memory(at);
    if (freed) at = nullptr;
    return freed;
  }
  uint8_t* at = nullptr;
};

// Runs `body` in a child process; what it returns.
inline std::string in_child(const std::function<std::string()>& body) {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  const base::Fd reader(pipe_fds[0]);
  base::Fd writer(pipe_fds[1]);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::string text = body();
    const ssize_t written = ::write(writer.get(), text.data(), text.size());
    ::_exit(written == ssize_t(text.size()) ? 0 : 1);
  }
  writer.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(reader.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(n));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  return text;
}

// A job of processes, forked before the root's thread starts. How each ended: what `body` returned,
// or less than 0 for the signal; 100 when its communicator could not be made.
inline std::vector<int> in_processes(int n, const std::function<int(Communicator&)>& body,
                                     const CommOptions& options = {}) {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  const base::Fd reader(pipe_fds[0]), writer(pipe_fds[1]);
  std::vector<pid_t> children;
  wait_until_alone();
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      UniqueId id;
      if (::read(reader.get(), static_cast<void*>(&id), sizeof id) != ssize_t(sizeof id))
        ::_exit(101);
      auto c = Communicator::init(id, rank, n, options);
      ::_exit(c ? body(**c) : 100);
    }
    children.push_back(child);
  }
  const Root root = make_root();
  for (int rank = 0; rank < n; ++rank)
    REQUIRE(::write(writer.get(), &root.id, sizeof root.id) == ssize_t(sizeof root.id));
  std::vector<int> ends;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return ends;
}

inline size_t open_files() {
  size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
  return count;
}

// One window on all ranks; null, with a complaint, when that fails.
inline WindowPointer registered(Communicator& c, Complaints& complaints, const WindowRange& range) {
  auto windows = c.register_windows({&range, 1}, soon());
  if (windows) return (*windows)[0];
  complaints.add(format("rank {}: {}", c.rank(), windows.error().chain()));
  return nullptr;
}

}  // namespace collctl::runtime::testing
