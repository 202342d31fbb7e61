// The process that reduces for one group (reducer.h). Usage: fake_reducer MEMBERS, with the
// listening socket as descriptor 3. Ends with its first member. Exact arithmetic of its own.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/fake_plugins/narrow.h"
#include "tests/fake_plugins/reducer.h"

namespace fake_plugin {
namespace {

// Members that neither come nor go. Their clock is that of tests (tests/patient_clock.h), which may
// be many times as slow as this one: a deadline of theirs comes first.
constexpr int kPatienceMs = 3'600'000;

template <class T>
T combined(int op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = uint64_t;  // wraps at every width
    if (op == 0) return T(U(a) + U(b));
    if (op == 1) return T(U(a) * U(b));
  } else {
    if (op == 0) return a + b;
    if (op == 1) return a * b;
  }
  return op == 2 ? std::max(a, b) : std::min(a, b);
}

template <class T>
void add_all(int op, uint8_t* to, const uint8_t* from, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = combined(op, a, b);
    std::memcpy(to + i * sizeof a, &a, sizeof a);
  }
}

void add_narrow(int type, int op, uint8_t* to, const uint8_t* from, uint64_t count) {
  const Narrow n = narrow_of(type);
  const size_t bytes = element_bytes(type);
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t a = 0, b = 0;
    std::memcpy(&a, to + i * bytes, bytes);
    std::memcpy(&b, from + i * bytes, bytes);
    a = narrowed(n, combined(op, widened(n, a), widened(n, b)));
    std::memcpy(to + i * bytes, &a, bytes);
  }
}

void add(const Word& word, uint8_t* to, const uint8_t* from) {
  switch (word.type) {
    case 0:
      return add_all<int8_t>(word.op, to, from, word.count);
    case 1:
      return add_all<uint8_t>(word.op, to, from, word.count);
    case 2:
      return add_all<int32_t>(word.op, to, from, word.count);
    case 3:
      return add_all<uint32_t>(word.op, to, from, word.count);
    case 4:
      return add_all<int64_t>(word.op, to, from, word.count);
    case 5:
      return add_all<uint64_t>(word.op, to, from, word.count);
    case 7:
      return add_all<float>(word.op, to, from, word.count);
    case 8:
      return add_all<double>(word.op, to, from, word.count);
    default:
      return add_narrow(word.type, word.op, to, from, word.count);
  }
}

struct Member {
  int fd = -1;
  std::vector<uint8_t> in, out;
};

void append(std::vector<uint8_t>& to, const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  to.insert(to.end(), from, from + bytes);
}

uint64_t bytes_of(const Word& word) {
  return word.count * element_bytes(word.type);
}

// The first word of a member and its bytes are there.
bool whole(const Member& m, Word& word) {
  if (m.in.size() < sizeof word) return false;
  std::memcpy(&word, m.in.data(), sizeof word);
  return m.in.size() >= sizeof word + bytes_of(word);
}

// One reduction, when all have given their part. False: they differ.
bool reduce(std::vector<Member>& members, bool& again) {
  Word first{}, word{};
  again = false;
  for (const Member& m : members)
    if (!whole(m, word)) return true;
  if (!whole(members[0], first)) return true;
  std::vector<uint8_t> sum(members[0].in.begin() + sizeof first,
                           members[0].in.begin() + long(sizeof first + bytes_of(first)));
  for (Member& m : members) {
    if (!whole(m, word) || std::memcmp(&word, &first, sizeof word) != 0) return false;
    if (&m != &members[0]) add(first, sum.data(), m.in.data() + sizeof word);
    m.in.erase(m.in.begin(), m.in.begin() + long(sizeof word + bytes_of(first)));
  }
  for (Member& m : members) {
    append(m.out, &first, sizeof first);
    append(m.out, sum.data(), sum.size());
  }
  again = true;
  return true;
}

void say(std::vector<Member>& members, uint32_t number) {
  const Word word{number, 0, 0, 0};
  for (Member& m : members) append(m.out, &word, sizeof word);
}

// False: the member is gone.
bool pump(Member& m) {
  while (!m.out.empty()) {
    const ssize_t n = ::send(m.fd, m.out.data(), m.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return false;
    m.out.erase(m.out.begin(), m.out.begin() + n);
  }
  uint8_t buffer[65536];
  while (true) {
    const ssize_t n = ::recv(m.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    append(m.in, buffer, size_t(n));
  }
}

bool wait(std::vector<pollfd>& fds) {
  return ::poll(fds.data(), nfds_t(fds.size()), kPatienceMs) > 0;
}

int serve(int wanted) {
  std::vector<Member> members;
  while (int(members.size()) < wanted) {
    std::vector<pollfd> fds = {{kListenerFd, POLLIN, 0}};
    if (!wait(fds)) return 1;
    const int fd = ::accept4(kListenerFd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return 1;
    members.push_back({});
    members.back().fd = fd;
  }
  say(members, kHello);
  while (true) {
    std::vector<pollfd> fds;
    for (Member& m : members)
      fds.push_back({m.fd, short(POLLIN | (m.out.empty() ? 0 : POLLOUT)), 0});
    if (!wait(fds)) return 1;
    for (Member& m : members)
      if (!pump(m)) return 0;  // the others see it by their own ends
    for (bool again = true; again;)
      if (!reduce(members, again)) {
        for (Member& m : members) m.out.clear();
        say(members, kDiffer);
        for (Member& m : members) (void)pump(m);
        return 1;
      }
  }
}

}  // namespace
}  // namespace fake_plugin

int main(int argc, char** argv) {
  return argc == 2 ? fake_plugin::serve(std::atoi(argv[1])) : 2;
}
