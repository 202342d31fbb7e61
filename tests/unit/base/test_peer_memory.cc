// Reading the memory of another process: what arrives, and each way in which it is refused.
#include "base/peer_memory.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "tests/catch.h"
#include "tests/skip.h"

namespace peer_memory_tests {

using namespace collctl;

namespace {

// A child that waits until it is killed.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) : pid(::fork()) {
    if (pid != 0) return;
    body();
    while (true) ::pause();
  }
  Child() : Child([] {}) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  pid_t pid;
};

uint64_t address_of(const void* at) {
  return reinterpret_cast<uintptr_t>(at);
}

}  // namespace

TEST_CASE("bytes of another process arrive, at any place and of any number", "[peer_memory]") {
  std::vector<uint8_t> theirs(3 << 20), got(theirs.size());
  for (size_t i = 0; i < theirs.size(); ++i) theirs[i] = uint8_t(i * 7 + i / 4096);
  const Child child;
  REQUIRE(child.pid > 0);
  const std::vector<uint8_t> kept = theirs;
  std::fill(theirs.begin(), theirs.end(), uint8_t(0));  // here, not there
  for (const size_t bytes : {size_t(0), size_t(1), size_t(4097), kept.size() - 5})
    for (const size_t at : {size_t(0), size_t(5)}) {
      std::fill(got.begin(), got.end(), uint8_t(0xa5));
      REQUIRE(base::read_memory(child.pid, address_of(theirs.data() + at), got.data(), bytes) == 0);
      CHECK(std::equal(got.begin(), got.begin() + ptrdiff_t(bytes), kept.begin() + ptrdiff_t(at)));
      CHECK(got[bytes] == 0xa5);
    }
}

TEST_CASE("the mark is found in its process only", "[peer_memory]") {
  const base::MemoryMark mark = base::memory_mark();
  REQUIRE(mark.address != 0);
  CHECK(base::why_unreadable(::getpid(), mark).empty());
  base::MemoryMark other = mark;
  ++other.value;  // what another process has there
  CHECK(base::why_unreadable(::getpid(), other) ==
        "process " + std::to_string(::getpid()) + " is another one here");
  CHECK(base::why_unreadable(::getpid(), {}) == "it offers none");
}

TEST_CASE("what is not there is an error, not data", "[peer_memory]") {
  Child child;
  REQUIRE(child.pid > 0);
  // The last page of what was mapped is taken away.
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  void* two = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(two != MAP_FAILED);
  REQUIRE(::munmap(static_cast<uint8_t*>(two) + page, page) == 0);
  std::vector<uint8_t> got(2 * page);
  CHECK(base::read_memory(::getpid(), address_of(two), got.data(), page) == 0);
  CHECK(base::read_memory(::getpid(), address_of(two), got.data(), 2 * page) == EFAULT);
  CHECK(base::read_memory(child.pid, 16, got.data(), 8) == EFAULT);
  ::munmap(two, page);
  const pid_t gone = child.pid;
  child.end();
  CHECK(base::read_memory(gone, address_of(got.data()), got.data(), 8) == ESRCH);
  CHECK(base::read_memory(0, address_of(got.data()), got.data(), 8) == ESRCH);
  CHECK(base::why_unreadable(gone, base::memory_mark()).find("No such process") !=
        std::string::npos);
}

TEST_CASE("another user's process may not be read, and why is said", "[peer_memory][may_skip]") {
  if (::getuid() != 0) return test::skip("only root can start processes of two users");
  const base::MemoryMark mark = base::memory_mark();
  const pid_t parent = ::getpid();
  // Two others, as ranks of different users would be: root itself may read everybody.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::setresuid(60124, 60124, 60124) != 0) ::_exit(3);
    const std::string why = base::why_unreadable(parent, mark);
    ::_exit(why.find("Operation not permitted") != std::string::npos ? 0 : 4);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace peer_memory_tests
