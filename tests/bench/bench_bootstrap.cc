// Time of start-up by phase: ranks as threads of one process, with the real sockets on loopback.
//   bench_bootstrap [ranks...]        default: 16 256 1024
//   bench_bootstrap --roots K ranks   several roots
// Prints one line a size: the slowest rank's seconds in each phase.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/host_facts.h"
#include "runtime/bootstrap/bootstrap.h"
#include "transport/peer.h"

using namespace collctl;
using namespace collctl::runtime;

namespace {

constexpr size_t kStackBytes = 256 << 10;

struct Shared {
  std::vector<UniqueId> ids;
  int size = 0;
  std::atomic<int> go{0};
};

struct Rank {
  Shared* shared = nullptr;
  int rank = 0;
  PhaseTimes times;
  double gather = 0, barrier = 0, finish = 0;
  std::string error;
  pthread_t thread{};
};

double since(int64_t start) {
  return double(now_ns() - start) * 1e-9;
}

Status run_rank(Rank& r) {
  Bootstrap::Options o;
  o.id = r.shared->ids[0];
  if (r.shared->ids.size() > 1) o.roots = r.shared->ids;
  o.rank = r.rank;
  o.size = r.shared->size;
  COLL_ASSIGN(o.interface.address, base::parse_address("127.0.0.1:0"));
  o.interface.name = "lo";
  o.host = base::host_name();
  COLL_ASSIGN(const auto bootstrap, Bootstrap::join(o));
  r.times = bootstrap->times();
  std::vector<transport::PeerInfo> peers(size_t(o.size));
  std::memset(static_cast<void*>(&peers[size_t(r.rank)]), r.rank, sizeof peers[0]);
  int64_t start = now_ns();
  COLL_TRY(bootstrap->all_gather(peers.data(), sizeof peers[0], o.deadline));
  r.gather = since(start);
  for (int i = 0; i < o.size; ++i)
    if (*reinterpret_cast<const uint8_t*>(&peers[size_t(i)]) != uint8_t(i))
      return Error(ErrorCode::bad_data, "wrong peer info of rank " + std::to_string(i));
  start = now_ns();
  COLL_TRY(bootstrap->barrier(o.deadline));
  r.barrier = since(start);
  start = now_ns();
  COLL_TRY(bootstrap->finish(o.deadline));
  r.finish = since(start);
  return {};
}

void* rank_thread(void* argument) {
  Rank& r = *static_cast<Rank*>(argument);
  while (r.shared->go.load(std::memory_order_acquire) == 0)
    base::sleep_until(Deadline::after_ms(1));
  if (Status done = run_rank(r); !done) r.error = done.error().chain();
  return nullptr;
}

bool measure(int size, int roots) {
  Shared shared;
  shared.size = size;
  std::vector<std::unique_ptr<BootstrapRoot>> running;
  for (int i = 0; i < roots; ++i) {
    BootstrapRoot::Options o;
    o.listen_at = *base::parse_address("127.0.0.1:0");
    o.secret = *base::random_secret();
    if (i > 0) o.secret = shared.ids[0].secret;
    auto root = BootstrapRoot::start(o);
    if (!root) {
      std::printf("root: %s\n", root.error().chain().c_str());
      return false;
    }
    shared.ids.push_back(UniqueId::make((*root)->address(), o.secret));
    running.push_back(std::move(*root));
  }
  std::vector<Rank> ranks{size_t(size)};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  for (int i = 0; i < size; ++i) {
    ranks[size_t(i)].shared = &shared;
    ranks[size_t(i)].rank = i;
    if (pthread_create(&ranks[size_t(i)].thread, &attributes, rank_thread, &ranks[size_t(i)]) !=
        0) {
      std::printf("cannot start thread %d\n", i);
      std::exit(1);
    }
  }
  pthread_attr_destroy(&attributes);
  const int64_t start = now_ns();
  shared.go.store(1, std::memory_order_release);
  for (Rank& r : ranks) pthread_join(r.thread, nullptr);
  const double all = since(start);
  const auto slowest = [&](auto value) {
    double most = 0;
    for (const Rank& r : ranks) most = std::max(most, value(r));
    return most;
  };
  std::printf("%6d %5d %8.3f %8.3f %9.3f %8.3f %8.3f %10.3f %8.3f %8.3f %8.3f\n", size, roots,
              slowest([](const Rank& r) { return r.times.listen; }),
              slowest([](const Rank& r) { return r.times.check_in; }),
              slowest([](const Rank& r) { return r.times.wait_root; }),
              slowest([](const Rank& r) { return r.times.connect; }),
              slowest([](const Rank& r) { return r.times.total; }),
              slowest([](const Rank& r) { return r.gather; }),
              slowest([](const Rank& r) { return r.barrier; }),
              slowest([](const Rank& r) { return r.finish; }), all);
  size_t failed = 0;
  for (const Rank& r : ranks)
    if (!r.error.empty() && ++failed <= 8) std::printf("rank %d: %s\n", r.rank, r.error.c_str());
  if (failed != 0) {
    std::printf("%zu ranks failed\n", failed);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes;
  int roots = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--roots") == 0 && i + 1 < argc)
      roots = std::atoi(argv[++i]);
    else
      sizes.push_back(std::atoi(argv[i]));
  }
  if (sizes.empty()) sizes = {16, 256, 1024};
  std::printf("seconds, slowest rank of each phase; %d cores, %llu files may be open\n",
              base::usable_cores(), static_cast<unsigned long long>(base::raise_open_file_limit()));
  std::printf(
      " ranks roots   listen check-in wait-root  connect    start all-gather  barrier   finish    "
      "total\n");
  for (const int size : sizes)
    if (!measure(size, roots)) return 1;
  return 0;
}
