// All-reduce of CPU ranks (processes of this host) with ordinary buffers and with buffers in
// windows, in one run: float32 sum, blocks of calls back to back, the slowest rank's mean, the best
// of a few blocks. One line a size: bytes, microseconds of both, ratio ordinary / windows, wrong
// elements. With a core for each, ranks stay on their own, as mpirun has it. Usage: bench_windows
// RANKS MIN_BYTES MAX_BYTES FACTOR [ALGORITHMS of the second column]
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/communicator.h"
#include "runtime/window/memory.h"
#include "tests/bench/iterations.h"

using namespace collctl;
using namespace collctl::runtime;

namespace {

constexpr int kBlocks = 3;

Deadline soon() {
  return Deadline::after_seconds(120);
}

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().chain().c_str());
  std::_Exit(1);
}
void need(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().chain().c_str());
  std::_Exit(1);
}

struct Measured {
  double us = 0;
  uint64_t wrong = 0;
};

Measured all_reduces(Communicator& c, Stream& stream, float* buffers, uint64_t bytes) {
  const uint64_t count = bytes / sizeof(float);
  for (uint64_t i = 0; i < count; ++i) buffers[i] = float((i + uint64_t(c.rank())) % 17);
  const Operation op{.input = buffers, .output = buffers + count, .count = count};
  const int iterations = bench::iterations_for(bytes);
  Measured best;
  for (int block = 0; block < kBlocks; ++block) {
    for (int i = 0; i < iterations / 4 + 2; ++i)
      need(c.start(op, stream, Communicator::Launch::blocking));
    need(c.start({.collective = Collective::barrier}, stream, Communicator::Launch::blocking));
    const int64_t start = now_ns();
    for (int i = 0; i < iterations; ++i) need(c.start(op, stream, Communicator::Launch::blocking));
    double us = double(now_ns() - start) / iterations * 1e-3;
    const auto all = need(c.gather_blobs(ByteWriter().put(us).bytes(), soon()));
    for (const Bytes& blob : all) us = std::max(us, ByteReader(blob).get<double>());
    best.us = block == 0 ? us : std::min(best.us, us);
  }
  for (uint64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < c.size(); ++r) sum += float((i + uint64_t(r)) % 17);
    best.wrong += buffers[count + i] != sum;
  }
  return best;
}

// Two ranks that the scheduler puts on one core while it is busy elsewhere stay there for long.
bool stay_on_own_core(int rank, int ranks) {
  cpu_set_t allowed, own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < ranks)
    return false;
  int core = 0;
  for (int left = rank; !CPU_ISSET(core, &allowed) || left-- > 0;) ++core;
  CPU_SET(core, &own);
  return ::sched_setaffinity(0, sizeof own, &own) == 0;
}

int run(const UniqueId& id, int rank, int ranks, char** argv, const char* algorithms) {
  CommOptions options;
  if (stay_on_own_core(rank, ranks)) options.local_ranks = 1;
  const auto c = need(Communicator::init(id, rank, ranks, options));
  const uint64_t least = std::strtoull(argv[2], nullptr, 10);
  const uint64_t most = std::strtoull(argv[3], nullptr, 10);
  const uint64_t factor = std::max(2ULL, std::strtoull(argv[4], nullptr, 10));
  std::vector<float> plain(most / 2);
  auto* in_window = static_cast<float*>(need(allocate_window_memory(2 * most)));
  const WindowRange range{in_window, 2 * most};
  const auto windows = need(c->register_windows({&range, 1}, soon()));
  {
    Stream stream(*c);
    for (uint64_t bytes = least; bytes <= most; bytes *= factor) {
      need(c->set_choices("", "", 0));
      const Measured ordinary = all_reduces(*c, stream, plain.data(), bytes);
      need(c->set_choices(algorithms, "", 0));
      const Measured direct = all_reduces(*c, stream, in_window, bytes);
      if (rank == 0)
        std::printf("%10llu %10.3f %10.3f %6.2f %llu\n", static_cast<unsigned long long>(bytes),
                    ordinary.us, direct.us, ordinary.us / direct.us,
                    static_cast<unsigned long long>(ordinary.wrong + direct.wrong));
    }
  }
  need(c->deregister_windows(windows, soon()));
  need(free_window_memory(in_window));
  need(c->finalize(soon()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const int ranks = std::max(1, std::atoi(argv[1]));
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) return 1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      UniqueId id;
      if (::read(pipe_fds[0], static_cast<void*>(&id), sizeof id) != ssize_t(sizeof id)) return 1;
      return run(id, rank, ranks, argv, argc > 5 ? argv[5] : "");
    }
    children.push_back(child);
  }
  const Address address = need(base::parse_address("127.0.0.1:0"));
  const base::Secret secret = need(base::random_secret());
  const auto root = need(BootstrapRoot::start({.listen_at = address, .secret = secret}));
  const UniqueId id = UniqueId::make(root->address(), secret);
  for (int rank = 0; rank < ranks; ++rank)
    if (::write(pipe_fds[1], &id, sizeof id) != ssize_t(sizeof id)) return 1;
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) worst = 1;
  }
  return worst;
}
