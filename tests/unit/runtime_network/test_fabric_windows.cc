// Windows of GPU ranks on several hosts of one NVLink domain: one team, whose members map each
// other's memory by fabric handles. Hosts are those that ranks act to be on, GPUs the fake
// driver's, and NVML says which domain they are in.
#include <cstring>

#include "base/env.h"
#include "runtime/window/memory.h"
#include "tests/fake_drivers/nvml_control.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/one_sided/one_sided_job.h"
#include "tests/unit/runtime/window/gpu_windows.h"

namespace fabric_windows_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Two GPUs on each of two hosts; `cliques` by GPU, -1: in no domain.
struct TwoHosts {
  explicit TwoHosts(const std::vector<int>& cliques = {4, 4, 4, 4}) {
    const int gpus = int(cliques.size());
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = gpus, .fabric = true});
    for (int i = 0; i < gpus; ++i) {
      const int clique = cliques[size_t(i)];
      // Bus ids go the other way.
      fake_nvml::set_fabric(format("0000:{:02x}:00.0", 0x10 + gpus - 1 - i), clique < 0 ? 0 : 0xab,
                            uint32_t(std::max(clique, 0)));
      job.hosts.push_back(i / 2);
    }
    job.ranks = gpus;
    job.options.op_timeout_s = 60;
  }
  ~TwoHosts() {
    fake_nvml::clear_fabric();
    fake_cuda::set_up({.devices = 2});
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  GpuJob job;
};

std::vector<int> team_of(Communicator& c) {
  const auto team = c.windows().team();
  return {team.begin(), team.end()};
}

// Registers memory, looks at that of the whole team, gives it back.
void look_round(Communicator& c, Complaints& complaints) {
  auto memory = allocate_window_memory(3 * kLookedAt, c.device());
  if (!memory) return complaints.add(memory.error().chain());
  auto* const at = static_cast<uint8_t*>(*memory);
  fill_window(c, at + kLookedAt);
  const WindowRange ranges[] = {{at, 10}, {at + kLookedAt, kLookedAt}};
  auto windows = c.register_windows(ranges, soon());
  if (!windows) return complaints.add(windows.error().chain());
  // Known ones need no names.
  auto again = c.register_windows({&ranges[1], 1}, soon());
  if (!again || (*again)[0] != (*windows)[1]) return complaints.add("not known any more");
  COLL_TEST_OK(complaints, c.deregister_windows(*again, soon()));
  COLL_TEST_OK(complaints, c.barrier(soon()));
  if (!right_bytes(c, complaints, *(*windows)[1])) return;
  COLL_TEST_OK(complaints, c.barrier(soon()));
  COLL_TEST_OK(complaints, c.deregister_windows(*windows, soon()));
  COLL_TEST_OK(complaints, free_window_memory(at));
}

void expect_teams(const GpuJob& job, const std::vector<std::vector<int>>& by_rank) {
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          if (team_of(c) != by_rank[size_t(c.rank())])
            complaints.add(format("rank {} has a team of {}", c.rank(), team_of(c).size()));
          look_round(c, complaints);
        }) == "");
}

const std::vector<int> kAll{0, 1, 2, 3}, kFirst{0, 1}, kSecond{2, 3};

}  // namespace

TEST_CASE("hosts of one NVLink domain are one team", "[gpu][fabric]") {
  const TwoHosts hosts;
  CHECK(with_gpu_ranks(hosts.job, [](Communicator& c, Complaints& complaints) {
          if (team_of(c) != kAll) complaints.add("not one team");
          for (int round = 0; round < 10; ++round) look_round(c, complaints);
        }) == "");
}

TEST_CASE("put and get go by NVLink between hosts of one domain", "[gpu][fabric]") {
  const TwoHosts hosts;
  CHECK(with_gpu_ranks(hosts.job, [](Communicator& c, Complaints& complaints) {
          auto job = OneSidedJob::start(c, 4 * 1000);
          if (!job) return complaints.add(job.error().chain());
          for (int peer = 0; peer < c.size(); ++peer)
            if (peer != c.rank() && (*job)->ops->path(peer) != "window")
              complaints.add("by " + (*job)->ops->path(peer));
          for (int round = 0; round < 3; ++round)
            complaints.add(c.rank(), exchange(**job, 1000, round, complaints));
          complaints.add(c.rank(), (*job)->end());
        }) == "");
}

TEST_CASE("cliques, and GPUs in no domain, part hosts", "[gpu][fabric]") {
  SECTION("two cliques") {
    expect_teams(TwoHosts({4, 4, 5, 5}).job, {kFirst, kFirst, kSecond, kSecond});
  }
  SECTION("a GPU of one host in no domain") {
    expect_teams(TwoHosts({4, 4, 4, -1}).job, {kFirst, kFirst, kSecond, kSecond});
  }
  SECTION("two cliques inside a host") {
    expect_teams(TwoHosts({4, 5, 4, 4}).job, {kFirst, kFirst, kSecond, kSecond});
  }
  SECTION("no P2P at all") {
    const base::ScopedVariable off("COLLCTL_P2P_DISABLE", "1");
    expect_teams(TwoHosts().job, {{0}, {1}, {2}, {3}});
  }
  SECTION("data is to carry MACs, which it has none of") {
    const base::ScopedVariable macs("COLLCTL_INTEGRITY", "1");
    expect_teams(TwoHosts().job, {kFirst, kFirst, kSecond, kSecond});
  }
  SECTION("switched off") {
    const base::ScopedVariable off("COLLCTL_MNNVL_ENABLE", "0");
    expect_teams(TwoHosts().job, {kFirst, kFirst, kSecond, kSecond});
  }
}

TEST_CASE("a domain that does not work costs its hosts nothing else", "[gpu][fabric]") {
  TwoHosts hosts;
  // The first import of all is that of the try at start-up, on whichever rank.
  fake_cuda::fail("cuMemImportFromShareableHandle", 800);
  expect_teams(hosts.job, {kFirst, kFirst, kSecond, kSecond});
}

TEST_CASE("a domain that is insisted on and does not work ends the start", "[gpu][fabric]") {
  const base::ScopedVariable on("COLLCTL_MNNVL_ENABLE", "1");
  {
    const TwoHosts hosts;
    expect_teams(hosts.job, {kAll, kAll, kAll, kAll});
    fake_cuda::fail("cuMemImportFromShareableHandle", 800);
    for (const auto& made : try_gpu_job(hosts.job)) {
      REQUIRE_FALSE(made.ok());
      CHECK(made.error().code == ErrorCode::unavailable);
      CHECK(made.error().chain().find("by its fabric handle") != std::string::npos);
    }
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("memory that one rank cannot give or take is registered by none", "[gpu][fabric]") {
  const TwoHosts hosts;
  CHECK(with_gpu_ranks(hosts.job, [](Communicator& c, Complaints& complaints) {
          const auto refused = [&](const WindowRange& range, const char* words) {
            const auto windows = c.register_windows({&range, 1}, soon());
            if (windows || windows.error().code != ErrorCode::unavailable ||
                windows.error().chain().find(words) == std::string::npos)
              complaints.add(windows ? "registered" : windows.error().chain());
            if (c.windows().usage().placements != 0) complaints.add("something stayed");
          };
          auto memory = allocate_window_memory(4096, c.device());
          if (!memory) return complaints.add(memory.error().chain());
          // Taken by nobody: the driver refuses one import, of a descriptor or a name.
          COLL_TEST_OK(complaints, c.barrier(soon()));
          if (c.rank() == 0) fake_cuda::fail("cuMemImportFromShareableHandle", 800);
          COLL_TEST_OK(complaints, c.barrier(soon()));
          refused({*memory, 4096}, "import memory");
          // Not given: that of rank 2 has got no name.
          COLL_TEST_OK(complaints, c.barrier(soon()));
          void* nameless = *memory;
          if (c.rank() == 2) {
            fake_cuda::fail("cuMemCreate", 801);
            auto other = allocate_window_memory(4096, c.device());
            if (!other) return complaints.add(other.error().chain());
            nameless = *other;
          }
          refused({nameless, 4096}, "that other hosts cannot map");
          if (nameless != *memory) COLL_TEST_OK(complaints, free_window_memory(nameless));
          // And the next registration is as good as ever.
          look_round(c, complaints);
          COLL_TEST_OK(complaints, free_window_memory(*memory));
        }) == "");
}

}  // namespace fabric_windows_tests
