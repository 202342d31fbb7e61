// One-sided operations of GPU ranks on one host: data by the GPUs, signals by memory of the host,
// or by sockets where that is not to be shared.
#include <dirent.h>
#include <unistd.h>

#include "base/env.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/one_sided/one_sided_job.h"

namespace one_sided_one_sided_gpu_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// That this process has open.
int sockets() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0 &&
        std::string_view(target).starts_with("socket:"))
      ++count;
  }
  ::closedir(folder);
  return count;
}

// The sockets that one-sided operations have opened, of all ranks; -1: they went wrong.
int sockets_of_operations(int n) {
  set_up_gpus(n);
  GpuJob job;
  job.ranks = n;
  int before = 0, with = 0;
  const std::string wrong = with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
    // The sockets that the first ones open besides stay: connections of the bootstrap.
    auto first = OneSidedJob::start(c, 64);
    if (!first) return complaints.add(first.error().chain());
    complaints.add(c.rank(), exchange(**first, 4, 0, complaints));
    COLL_TEST_OK(complaints, (*first)->end());
    COLL_TEST_OK(complaints, c.barrier(soon()));
    if (c.rank() == 0) before = sockets();
    COLL_TEST_OK(complaints, c.barrier(soon()));
    auto started = OneSidedJob::start(c, 1000 * uint64_t(n));
    if (!started) return complaints.add(started.error().chain());
    OneSidedJob& ops = **started;
    for (int peer = 0; peer < n; ++peer)
      if (ops.ops->path(peer) != (peer == c.rank() ? "own" : "window"))
        complaints.add("by " + ops.ops->path(peer));
    for (int round = 0; round < 5; ++round)
      complaints.add(c.rank(), exchange(ops, 1000, round, complaints));
    COLL_TEST_OK(complaints, c.barrier(soon()));
    if (c.rank() == 0) with = sockets();
    COLL_TEST_OK(complaints, c.barrier(soon()));
    complaints.add(c.rank(), ops.end());
  });
  CHECK(wrong == "");
  return with - before;
}

}  // namespace

TEST_CASE("signals of GPU ranks on one host need no network", "[gpu][one_sided]") {
  for (const int n : {1, 2, 4}) {
    INFO(n << " ranks");
    CHECK(sockets_of_operations(n) == 0);
  }
}

TEST_CASE("signals of GPU ranks go by sockets where they share no memory", "[gpu][one_sided]") {
  const base::ScopedVariable apart("COLLCTL_SHM_DISABLE", "1");
  CHECK(sockets_of_operations(3) == 3 * 2);  // both ends of each pair
}

TEST_CASE("GPU ranks that share no memory put and get over sockets", "[gpu][one_sided]") {
  const base::ScopedVariable apart("COLLCTL_P2P_DISABLE", "1");
  // Less than what is staged at a time, as much, more, and several times as much.
  const std::vector<uint64_t> stripes{1, 1000, 1 << 20, (1 << 20) + 3, 3 << 20};
  for (const int n : {2, 3}) {
    INFO(n << " ranks");
    set_up_gpus(n);
    GpuJob job;
    job.ranks = n;
    CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
            auto started = OneSidedJob::start(c, stripes.back() * uint64_t(n));
            if (!started) return complaints.add(started.error().chain());
            OneSidedJob& ops = **started;
            for (int peer = 0; peer < n; ++peer)
              if (ops.ops->path(peer) != (peer == c.rank() ? "own" : "NET/Socket"))
                complaints.add("by " + ops.ops->path(peer));
            int round = 0;
            for (const uint64_t stripe : stripes)
              complaints.add(c.rank(), exchange(ops, stripe, round++, complaints));
            // All get from each other at the same time, out of what was put last.
            const uint64_t last = stripes.back();
            std::vector<uint8_t> all(last * uint64_t(n));
            for (int owner = 0; owner < n; ++owner) {
              COLL_TEST_OK(complaints,
                           ops.ops->get({ops.window, owner, 0}, all.data(), all.size(), soon()));
              for (int writer = 0; writer < n; ++writer) {
                const uint64_t at = last * uint64_t(writer);
                const auto expected = bytes_of(owner, writer, round - 1, at, last);
                if (std::memcmp(all.data() + at, expected.data(), last) != 0)
                  complaints.add(format("rank {} gets wrong bytes of rank {} from rank {}",
                                        c.rank(), writer, owner));
              }
            }
            COLL_TEST_OK(complaints, ops.ops->barrier(soon()));
            complaints.add(c.rank(), ops.end());
          }) == "");
  }
}

// It is this rank's GPU that did not copy, wherever the data was to go.
TEST_CASE("a copy that fails is blamed on the rank whose GPU it is", "[gpu][one_sided]") {
  for (const char* apart : {"0", "1"}) {
    const base::ScopedVariable variable("COLLCTL_P2P_DISABLE", apart);
    INFO("P2P_DISABLE=" << apart);
    set_up_gpus(2);
    const Communicators ranks = start_gpu_job({});
    Complaints complaints;
    on_all(2, [&](int r) {
      Communicator& c = *ranks[size_t(r)];
      auto job = OneSidedJob::start(c, 64);
      if (!job) return complaints.add(r, job.error());
      complaints.add(r, (*job)->ops->barrier(soon()));
      if (r == 0) {
        fake_cuda::fail("cuMemcpyAsync", 999);
        const uint8_t byte = 7;
        const Status put = (*job)->ops->put({(*job)->window, 1, 0}, &byte, 1, soon());
        if (put || put.error().rank != 0)
          complaints.add(put ? "it was put"
                             : format("{}: rank {}", put.error().chain(), put.error().rank));
      }
      complaints.add(r, c.barrier(soon()));  // rank 1 stays until then
      complaints.add(r, (*job)->abandon());
      complaints.add(r, c.finalize(soon()));
    });
    CHECK(complaints.text() == "");
  }
}

// Half a turn, as window-test measures it; looked at by hand: -s "[.signals]"
TEST_CASE("how long a signal of GPU ranks takes", "[.signals]") {
  for (const char* apart : {"0", "1"}) {
    const base::ScopedVariable variable("COLLCTL_SHM_DISABLE", apart);
    set_up_gpus(2);
    CHECK(with_gpu_ranks({}, [&](Communicator& c, Complaints& complaints) {
            auto job = OneSidedJob::start(c, 64);
            if (!job) return complaints.add(job.error().chain());
            constexpr int kTurns = 2000;
            const int64_t began = now_ns();
            for (int i = 0; i < kTurns; ++i) {
              if (c.rank() == 1) COLL_TEST_OK(complaints, (*job)->ops->wait(0, 0, 1, soon()));
              COLL_TEST_OK(complaints, (*job)->ops->signal(1 - c.rank(), 0));
              if (c.rank() == 0) COLL_TEST_OK(complaints, (*job)->ops->wait(1, 0, 1, soon()));
            }
            if (c.rank() == 0)
              std::printf("SHM_DISABLE=%s: %.2f us\n", apart,
                          double(now_ns() - began) / 2e3 / kTurns);
            complaints.add(c.rank(), (*job)->end());
          }) == "");
  }
}

}  // namespace one_sided_one_sided_gpu_tests
