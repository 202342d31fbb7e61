// The best time that an all-reduce (float32 sum) of two ranks could take on this host: two
// processes, each bound to a core, that do nothing but exchange and add, by whichever of a few ways
// is fastest at a size. Shared memory: each copies what the other is to read, by ordinary or
// streaming stores, raises a flag and adds what it finds; all at once, or half of the sum each and
// then the halves. Loopback: both send and receive without sleeping, on one socket or on one for
// each way; at once or by halves. One line a size: "bytes microseconds wrong 0", timed as the peers
// are (a block of calls). Usage: floor shm|tcp MIN_BYTES MAX_BYTES FACTOR
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/bench/iterations.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace {

constexpr size_t kFlags = 64;

struct alignas(64) Line {
  std::atomic<uint64_t> turn;
  uint8_t data[56];
};

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  _exit(1);
}

void add(float* sum, const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

#ifdef __x86_64__
void pause_cpu() {
  _mm_pause();
}
void stream(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<__m128i*>(to);
  const auto* in = static_cast<const __m128i*>(from);
  for (size_t i = 0; i < bytes / 16; ++i) _mm_stream_si128(out + i, _mm_loadu_si128(in + i));
  std::memcpy(out + bytes / 16, in + bytes / 16, bytes % 16);
  _mm_sfence();
}
#else
void pause_cpu() {}
void stream(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

// One of the two ranks; `max` bytes at most.
class Rank {
 public:
  Rank(int rank, size_t max, uint8_t* shared, const int (*sockets)[2])
      : rank_(rank),
        max_(max),
        shared_(shared),
        sockets_(sockets),
        in_(max / 4 + 1),
        out_(max / 4 + 1),
        got_(max / 4 + 1) {
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = float((i + size_t(rank)) % 17);
  }

  static size_t shared_bytes(size_t max) { return kFlags * 4 + 8 * (max + 64); }

  void call(bool tcp, int way, size_t bytes) {
    const bool second = (way & 1) != 0, halves = (way & 2) != 0;
    if (tcp)
      halves ? by_halves(bytes, [&](auto... a) { send_and_receive(second, a...); })
             : at_once(bytes, [&](auto... a) { send_and_receive(second, a...); });
    else if (bytes <= sizeof(Line::data) && !second && !halves)
      one_line(bytes);
    else
      halves ? by_halves(bytes, [&](auto... a) { copy_and_look(second, a...); })
             : at_once(bytes, [&](auto... a) { copy_and_look(second, a...); });
  }

  void meet() {
    line(rank_).turn.store(++turn_, std::memory_order_release);
    while (line(1 - rank_).turn.load(std::memory_order_acquire) < turn_) pause_cpu();
  }

  long wrong(size_t bytes) const {
    long count = 0;
    for (size_t i = 0; i < bytes / 4; ++i) count += out_[i] != float(i % 17) + float((i + 1) % 17);
    return count;
  }
  void spoil() { std::fill(out_.begin(), out_.end(), -1.0f); }

 private:
  // The two ways of an exchange: `from` goes to the other rank, `see` gets what came.
  template <class Exchange>
  void at_once(size_t bytes, Exchange exchange) {
    exchange(in_.data(), bytes, nullptr,
             [&](const float* came, size_t) { add(out_.data(), in_.data(), came, bytes / 4); });
  }
  template <class Exchange>
  void by_halves(size_t bytes, Exchange exchange) {
    const size_t low = bytes / 8 * 4, own = rank_ == 0 ? low : bytes - low;
    const size_t at = rank_ == 0 ? 0 : low / 4, other = rank_ == 0 ? low / 4 : 0;
    exchange(
        in_.data() + other, bytes - own, nullptr,
        [&](const float* came, size_t) { add(out_.data() + at, in_.data() + at, came, own / 4); },
        own);
    exchange(
        out_.data() + at, own, out_.data() + other,
        [&](const float* came, size_t n) {
          if (came != out_.data() + other) std::memcpy(out_.data() + other, came, n);
        },
        bytes - own);
  }

  void one_line(size_t bytes) {
    Line& mine = line(2 + rank_);
    Line& his = line(3 - rank_);
    std::memcpy(mine.data + turn_ % 2 * (bytes <= 24 ? 24 : 0), in_.data(), bytes);
    mine.turn.store(++turn_, std::memory_order_release);
    while (his.turn.load(std::memory_order_acquire) < turn_) pause_cpu();
    float came[14];
    std::memcpy(came, his.data + (turn_ - 1) % 2 * (bytes <= 24 ? 24 : 0), bytes);
    add(out_.data(), in_.data(), came, bytes / 4);
    if (bytes > 24) meet();  // before the other overwrites it
  }

  template <class See>
  void copy_and_look(bool streams, const float* from, size_t bytes, float*, See see,
                     size_t due = SIZE_MAX) {
    // Four banks in turn: nobody is further ahead than that.
    const uint64_t at = turn_ % 4;
    uint8_t* const bank = area(rank_, at);
    streams ? stream(bank, from, bytes) : void(std::memcpy(bank, from, bytes));
    meet();
    see(reinterpret_cast<const float*>(area(1 - rank_, at)), due == SIZE_MAX ? bytes : due);
  }

  template <class See>
  void send_and_receive(bool two_sockets, const float* from, size_t bytes, float* into, See see,
                        size_t due = SIZE_MAX) {
    if (due == SIZE_MAX) due = bytes;
    float* const to = into != nullptr ? into : got_.data();
    const int out = two_sockets ? sockets_[rank_][rank_] : sockets_[2][rank_];
    const int in = two_sockets ? sockets_[1 - rank_][rank_] : sockets_[2][rank_];
    for (size_t sent = 0, came = 0; sent < bytes || came < due;) {
      if (sent < bytes)
        sent += moved(
            ::send(out, reinterpret_cast<const char*>(from) + sent, bytes - sent, MSG_NOSIGNAL));
      if (came < due) came += moved(::recv(in, reinterpret_cast<char*>(to) + came, due - came, 0));
    }
    see(to, due);
  }
  static size_t moved(ssize_t n) {
    if (n == 0 || (n < 0 && errno != EAGAIN)) die("the other end");
    return n > 0 ? size_t(n) : 0;
  }

  Line& line(int index) { return reinterpret_cast<Line*>(shared_)[index]; }
  uint8_t* area(int rank, uint64_t bank) {
    return shared_ + 4 * kFlags + (size_t(rank) * 4 + bank) * ((max_ + 64) / 64 * 64);
  }

  int rank_;
  size_t max_;
  uint8_t* shared_;
  const int (*sockets_)[2];
  uint64_t turn_ = 0;
  std::vector<float> in_, out_, got_;
};

void make_socket(int (&ends)[2]) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  const int door = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(door, address, length) != 0 || ::listen(door, 1) != 0 ||
      ::getsockname(door, address, &length) != 0)
    die("listen");
  ends[0] = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(ends[0], address, length) != 0) die("connect");
  ends[1] = ::accept(door, nullptr, nullptr);
  ::close(door);
  for (const int fd : ends) {
    const int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
}

void bind_to_core(int rank) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof all, &all);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && seen++ == rank) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) die("a core for each rank");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const bool tcp = argv[1] == std::string("tcp");
  const size_t min = std::strtoull(argv[2], nullptr, 10), max = std::strtoull(argv[3], nullptr, 10),
               factor = std::strtoull(argv[4], nullptr, 10);
  void* const shared = ::mmap(nullptr, Rank::shared_bytes(max), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("shared memory");
  int sockets[3][2];
  for (auto& ends : sockets) make_socket(ends);
  const pid_t child = ::fork();
  const int me = child == 0 ? 1 : 0;
  bind_to_core(me);
  Rank rank(me, max, static_cast<uint8_t*>(shared), sockets);
  for (size_t bytes = min; bytes <= max; bytes *= factor) {
    const int calls = bench::iterations_for(bytes);
    double best = 0;
    long wrong = 0;
    for (int way = 0; way < 4; ++way) {
      rank.spoil();
      for (int i = 0; i < calls / 4 + 2; ++i) rank.call(tcp, way, bytes);
      rank.meet();
      const double start = now_us();
      for (int i = 0; i < calls; ++i) rank.call(tcp, way, bytes);
      const double each = (now_us() - start) / calls;
      wrong += rank.wrong(bytes);
      if (way == 0 || each < best) best = each;
    }
    if (me == 0) std::printf("%zu %.3f %ld 0\n", bytes, best, wrong), std::fflush(stdout);
  }
  if (me == 1) _exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
