// Users' buffers in windows, of whole jobs: what is mapped where, group registration, teams,
// lookup, and that everything is given back.
#include <cstdio>

#include "base/host_facts.h"
#include "runtime/request/settings.h"
#include "runtime/window/memory.h"
#include "runtime/window/offsets.h"
#include "runtime/window/registration.h"
#include "runtime/window/space.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/window/window_job.h"

namespace window_user_window_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// A byte that says whose it is and where: another rank's or another place's differs.
uint8_t pattern(int rank, uint64_t i) {
  return uint8_t(uint64_t(rank) * 89 + i * 7 + i / 251 + 1);
}

void fill(uint8_t* at, int rank, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) at[i] = pattern(rank, i);
}

// Every rank sees every other's bytes where it expects them, and what it writes there arrives.
void check_aliases(Communicator& c, Complaints& complaints, const UserWindow& window) {
  for (int peer = 0; peer < c.size(); ++peer) {
    const auto at = window.peer(peer, 0, window.bytes());
    if (!at) return complaints.add(at.error().chain());
    for (uint64_t i = 0; i < window.bytes(); ++i)
      if ((*at)[i] != pattern(peer, i))
        return complaints.add(format("rank {} byte {} of rank {}: {} instead of {}", c.rank(), i,
                                     peer, (*at)[i], pattern(peer, i)));
  }
  complaints.add(c.rank(), c.barrier(soon()));
  const int next = (c.rank() + 1) % c.size(), previous = (c.rank() + c.size() - 1) % c.size();
  const auto last = window.peer(next, window.bytes() - 1, 1);
  if (!last) return complaints.add(last.error().chain());
  **last = uint8_t(200 + c.rank());
  complaints.add(c.rank(), c.barrier(soon()));
  if (window.address()[window.bytes() - 1] != uint8_t(200 + previous))
    complaints.add(format("rank {}: what rank {} stored did not arrive", c.rank(), previous));
}

// Lines of this process's map of memory.
size_t mappings() {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  size_t count = 0;
  for (int c; (c = std::fgetc(maps)) != EOF;) count += c == '\n';
  std::fclose(maps);
  return count;
}

transport::PeerInfo peer(int rank, uint64_t host, uint64_t process, uint64_t network) {
  transport::PeerInfo p{};
  p.rank = rank;
  p.host_hash = host;
  p.process_hash = process;
  p.network_namespace = network;
  return p;
}

}  // namespace

TEST_CASE("every rank sees the others' memory in a window", "[user_window]") {
  for (const int n : {1, 2, 4, 7})
    // Odd sizes, less and more than a page, than a large page.
    for (const uint64_t bytes : {uint64_t(1), uint64_t(4097), uint64_t(2 << 20) + 5}) {
      if (n > 2 && bytes > 4097) continue;
      INFO(n << " ranks, " << bytes << " bytes");
      CHECK(with_ranks(n, {}, [&](Communicator& c, Complaints& complaints) {
              Memory memory(bytes);
              fill(memory.at, c.rank(), bytes);
              const WindowPointer window = registered(c, complaints, {memory.at, bytes});
              if (window == nullptr) return;
              complaints.add(c.rank(), c.barrier(soon()));
              check_aliases(c, complaints, *window);
              const kernels::UserWindow& shadow = window->shadow();
              if (shadow.shadow != &shadow || shadow.device != &shadow || shadow.bytes != bytes ||
                  shadow.team_rank != c.rank() || shadow.team_size != c.size() ||
                  kernels::window_local(shadow, 0) != *window->peer(c.rank(), 0, bytes))
                complaints.add("the window's struct is wrong");
              // Deregistering waits for nobody: a test that still reads must say so.
              complaints.add(c.rank(), c.barrier(soon()));
              complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
              if (window->valid() || window->peer(c.rank(), 0, 1))
                complaints.add("a window that was deregistered gives pointers");
            }) == "");
    }
}

// 4 KiB would be no page of a kernel with 64 KiB.
TEST_CASE("segments are mapped at pages of this kernel", "[user_window]") {
  for (const uint64_t bytes : {uint64_t(1), uint64_t(5 << 20)})
    CHECK(WindowSpace::alignment_of(bytes, false) % base::page_bytes() == 0);
}

TEST_CASE("several windows at once share what lies in one allocation", "[user_window]") {
  CHECK(with_ranks(3, {}, [&](Communicator& c, Complaints& complaints) {
          Memory one(5 * base::page_bytes()), two(100);
          const WindowRange ranges[] = {{one.at + 3, 1000}, {two.at, 100}, {one.at + 5000, 77}};
          auto windows = c.register_windows(ranges, soon());
          if (!windows) return complaints.add(windows.error().chain());
          const WindowUsage usage = c.windows().usage();
          // Two allocations of 5 and 1 pages, of three ranks.
          if (usage.windows != 3 || usage.placements != 2 ||
              usage.mapped_bytes != 3 * 6 * base::page_bytes())
            complaints.add(format("{} windows, {} placements, {} bytes", usage.windows,
                                  usage.placements, usage.mapped_bytes));
          // Later ones join.
          const WindowPointer late = registered(c, complaints, {one.at + 8000, 1});
          if (late == nullptr) return;
          if (c.windows().usage().placements != 2 || late->number() != 4)
            complaints.add("a window in a known allocation made a new placement");
          // Sorted lookup: inside, at the edges, across the end, between.
          const auto& w = *windows;
          const auto finds = [&](const uint8_t* at, uint64_t bytes, const WindowPointer& expected) {
            if (c.windows().find(at, bytes) != expected)
              complaints.add(format("{} bytes at {} are in another window", bytes,
                                    static_cast<const void*>(at)));
          };
          finds(one.at + 3, 1000, w[0]);
          finds(one.at + 1002, 1, w[0]);
          finds(one.at + 1002, 2, nullptr);
          finds(one.at + 2, 1, nullptr);
          finds(one.at + 2000, 1, nullptr);
          finds(one.at + 5000, 77, w[2]);
          finds(one.at + 8000, 1, late);
          finds(two.at + 50, 50, w[1]);
          finds(two.at + 50, 51, nullptr);
          // The same memory by its place in the flat range.
          one.at[5003] = 42;
          const uint8_t* flat = c.windows().flat_address(one.at + 5000, 10);
          if (flat == nullptr || flat == one.at + 5000 || flat[3] != 42)
            complaints.add("the flat range shows other memory");
          // Each leaves by itself; the last one takes the placement along.
          complaints.add(c.rank(), c.deregister_windows({&w[0], 1}, soon()));
          finds(one.at + 3, 1000, nullptr);
          finds(one.at + 5000, 77, w[2]);
          complaints.add(c.rank(), c.deregister_windows({&w[2], 1}, soon()));
          if (c.windows().usage().placements != 2) complaints.add("a placement left too early");
          complaints.add(c.rank(), c.deregister_windows({&late, 1}, soon()));
          complaints.add(c.rank(), c.deregister_windows({&w[1], 1}, soon()));
          const WindowUsage none = c.windows().usage();
          if (none.windows + none.placements + none.mapped_bytes != 0 ||
              none.largest_free != none.stride_bytes)
            complaints.add("something is left");
        }) == "");
}

TEST_CASE("allocations that ranks cut differently get equal offsets", "[user_window]") {
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          // Rank 0: two windows in two allocations; rank 1: the second starts another one, too, but
          // the first one is larger, and both of rank 0's later windows lie in one of rank 1's.
          Memory one(c.rank() == 0 ? 4096 : 5 * 4096), two(4096);
          fill(one.at, c.rank(), 4096);
          fill(two.at, c.rank() + 10, 4096);
          uint8_t* const second = c.rank() == 0 ? two.at : one.at;
          const WindowPointer a = registered(c, complaints, {one.at, 1024});
          // The same offset in its allocation on both ranks, another allocation on rank 0 alone.
          const WindowPointer b = registered(c, complaints, {second + 2048, 1024});
          if (a == nullptr || b == nullptr) return;
          complaints.add(c.rank(), c.barrier(soon()));
          const int other = 1 - c.rank();
          const auto pa = a->peer(other, 0, 1024), pb = b->peer(other, 0, 1024);
          const int second_owner = other == 0 ? 10 : 1;
          for (uint64_t i = 0; i < 1024; ++i)
            if ((*pa)[i] != pattern(other, i) || (*pb)[i] != pattern(second_owner, 2048 + i))
              return complaints.add(format("rank {}: byte {} is another's", c.rank(), i));
          if (c.windows().usage().placements != 2) complaints.add("placements are not two");
          complaints.add(c.rank(), c.barrier(soon()));
          const WindowPointer both[] = {a, b};
          complaints.add(c.rank(), c.deregister_windows(both, soon()));
        }) == "");
}

TEST_CASE("the same window again is counted", "[user_window]") {
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          Memory memory(8192);
          const WindowPointer first = registered(c, complaints, {memory.at, 8192});
          const WindowPointer again = registered(c, complaints, {memory.at, 8192});
          if (first == nullptr || again != first) return complaints.add("not the same window");
          complaints.add(c.rank(), c.deregister_windows({&first, 1}, soon()));
          if (!first->valid()) complaints.add("it left at the first of two");
          complaints.add(c.rank(), c.deregister_windows({&first, 1}, soon()));
          if (first->valid()) complaints.add("it stayed");
        }) == "");
}

TEST_CASE("hundreds of registrations leave nothing behind", "[user_window]") {
  const int kRounds = test::how_much(test::Sweep::registrations);
  const auto rounds = [](int count) {
    CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
            for (int i = 0; i < count; ++i) {
              Memory memory(uint64_t(1 + i % 5) * 3000);
              const WindowPointer window = registered(c, complaints, {memory.at, 2000});
              if (window == nullptr) return;
              if (i % 3 == 2) {  // misuse between them changes nothing
                if (c.register_windows({}, soon())) complaints.add("no window was registered");
              }
              complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
              const WindowUsage usage = c.windows().usage();
              if (usage.windows != 0 || usage.largest_free != usage.stride_bytes)
                return complaints.add(format("round {} left something", i));
            }
          }) == "");
  };
  rounds(2);
  const size_t files = open_files(), maps = mappings();
  rounds(kRounds);
  CHECK(open_files() == files);
  CHECK(mappings() < maps + kRounds / 10);  // the allocator's own come and go
  CHECK(window_memory_usage().segments == 0);
}

TEST_CASE("a communicator's end gives its windows back", "[user_window]") {
  const size_t files = open_files();
  Memory memory[2] = {Memory(10'000), Memory(10'000)};
  WindowPointer kept[2];
  {
    const Communicators job = start_job(2, {});
    on_all(2, [&](int r) {
      Complaints complaints;
      kept[r] = registered(*job[size_t(r)], complaints, {memory[r].at, 10'000});
    });
    REQUIRE(kept[0] != nullptr);
    REQUIRE(kept[1] != nullptr);
    CHECK_FALSE(free_window_memory(memory[0].at));
  }
  CHECK_FALSE(kept[0]->valid());
  CHECK_FALSE(kept[1]->peer(0, 0, 1));
  memory[0].at[9999] = 1;  // still the user's
  CHECK(memory[0].free());
  CHECK(memory[1].free());
  CHECK(open_files() == files);
}

TEST_CASE("teams: the ranks of each host, whatever other hosts have", "[user_window]") {
  Settings settings;
  // 7 + 8 ranks: a team of 7 and a team of 8. (The greatest common divisor would give teams of 1.)
  std::vector<transport::PeerInfo> peers;
  for (int r = 0; r < 15; ++r) peers.push_back(peer(r, r < 7 ? 1 : 2, uint64_t(r) + 100, 5));
  std::vector<int> expected(7, 0);
  expected.resize(15, 7);
  CHECK(window_teams(peers, settings) == expected);
  // Hosts by turns; a container with a network of its own; no shared memory but threads.
  const std::vector<transport::PeerInfo> mixed{peer(0, 1, 1, 5), peer(1, 2, 2, 5),
                                               peer(2, 1, 1, 5), peer(3, 2, 3, 6),
                                               peer(4, 1, 4, 5), peer(5, 2, 3, 6)};
  CHECK(window_teams(mixed, settings) == std::vector<int>{0, 1, 0, 3, 0, 3});
  settings.shm_disabled = true;
  CHECK(window_teams(mixed, settings) == std::vector<int>{0, 1, 0, 3, 4, 3});
  settings.p2p_disabled = true;
  CHECK(window_teams(mixed, settings) == std::vector<int>{0, 1, 2, 3, 4, 5});
  settings = {};
  settings.transport = "net";
  CHECK(window_teams(mixed, settings) == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("teams over hosts: where all GPUs of the hosts are in one NVLink domain",
          "[user_window]") {
  const auto gpu = [](int rank, uint64_t host, uint8_t cluster, uint32_t clique) {
    transport::PeerInfo p = peer(rank, host, uint64_t(rank) + 100, 5);
    p.kind = transport::DeviceKind::cuda;
    p.fabric_cluster[3] = cluster;
    p.fabric_clique = clique;
    return p;
  };
  Settings settings;
  // Hosts 1 and 3 are of one domain, 2 is of another clique, 4 of another cluster, 5 of none, and 6
  // has a GPU that is of none.
  const std::vector<transport::PeerInfo> peers{gpu(0, 2, 9, 1), gpu(1, 1, 9, 2), gpu(2, 3, 9, 2),
                                               gpu(3, 1, 9, 2), gpu(4, 4, 8, 2), gpu(5, 5, 0, 2),
                                               gpu(6, 6, 9, 2), gpu(7, 6, 0, 0), gpu(8, 3, 9, 2)};
  CHECK(window_teams(peers, settings) == std::vector<int>{0, 1, 1, 1, 4, 5, 6, 6, 1});
  CHECK(window_teams(peers, settings, false) == std::vector<int>{0, 1, 2, 1, 4, 5, 6, 6, 2});
  settings.p2p_disabled = true;
  CHECK(window_teams(peers, settings) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  settings = {};
  settings.transport = "net";
  CHECK(window_teams(peers, settings) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  // CPU ranks have no NVLink, whatever they say.
  std::vector<transport::PeerInfo> cpus{gpu(0, 1, 9, 2), gpu(1, 2, 9, 2)};
  for (auto& p : cpus) p.kind = transport::DeviceKind::cpu;
  CHECK(window_teams(cpus, {}) == std::vector<int>{0, 1});
}

TEST_CASE("what ranks say of their windows is read within bounds", "[user_window]") {
  Registration registration;
  registration.live = 3;
  registration.ranges.assign(2, RangeRegistration{100, 1, 4096, 0, 0});
  registration.names.assign(2, transport::FabricName{});
  registration.names[1].bytes[63] = 77;
  const Bytes sent = registration.encode();
  const auto read = Registration::decode(sent);
  REQUIRE(read);
  CHECK(read->ranges.size() == 2);
  REQUIRE(read->names.size() == 2);
  CHECK(read->names[1].bytes[63] == 77);
  for (size_t bytes = 0; bytes < sent.size(); ++bytes)
    CHECK_FALSE(Registration::decode(ByteView(sent).first(bytes)).ok());
  Bytes longer = sent;
  longer.push_back(0);
  CHECK_FALSE(Registration::decode(longer).ok());
  registration.names.resize(1);  // neither none nor all
  CHECK_FALSE(Registration::decode(registration.encode()).ok());
}

TEST_CASE("teams are cut where GPUs do not reach each other", "[user_window]") {
  // Two hosts by turns: ranks 0, 2, 4, 6 and 1, 3, 5.
  const std::vector<int> teams{0, 1, 0, 1, 0, 1, 0};
  std::vector<Bytes> reach(7);
  CHECK(teams_within_reach(teams, reach) == teams);
  for (const int r : {0, 2, 4, 6}) reach[size_t(r)] = {1, 1, 1, 1};
  for (const int r : {1, 3, 5}) reach[size_t(r)] = {1, 1, 1};
  CHECK(teams_within_reach(teams, reach) == teams);
  // Two pairs on the first host.
  for (const int r : {0, 2}) reach[size_t(r)] = {1, 1, 0, 0};
  for (const int r : {4, 6}) reach[size_t(r)] = {0, 0, 1, 1};
  CHECK(teams_within_reach(teams, reach) == std::vector<int>{0, 1, 0, 1, 4, 1, 4});
  // Each reaches its neighbour; 5 says so of 1 alone.
  reach[1] = {1, 1, 1}, reach[3] = {1, 1, 0}, reach[5] = {0, 1, 1};
  CHECK(teams_within_reach(teams, reach) == std::vector<int>{0, 1, 0, 1, 4, 5, 4});
}

TEST_CASE("the bytes of a slot", "[user_window]") {
  constexpr uint64_t kGib = uint64_t(1) << 30;
  std::vector<transport::PeerInfo> peers;
  for (int r = 0; r < 4; ++r) peers.push_back(peer(r, 1, uint64_t(r), 5));
  for (auto& p : peers) p.device_memory = 5 * kGib;
  const std::vector<int> one_team(4, 0);
  CHECK(window_stride(peers, one_team, 0) == 8 * kGib);  // in whole 4 GiB
  peers[3].device_memory = 8 * kGib + 1;
  CHECK(window_stride(peers, one_team, 0) == 12 * kGib);      // the largest counts
  CHECK(window_stride(peers, one_team, 3 << 20) == 4 << 20);  // whole large pages
  // However much memory there is, a process has 128 TiB of addresses; as threads of one process
  // each of the ranks reserves for all.
  for (auto& p : peers) p.device_memory = uint64_t(1) << 50, p.process_hash = 9;
  CHECK(window_stride(peers, one_team, 0) * 16 <= uint64_t(1) << 44);
  CHECK(window_stride(peers, one_team, 0) >= 8 * kGib);
}

TEST_CASE("offsets: free intervals, against a map of bytes", "[user_window]") {
  constexpr uint64_t kBytes = 64;
  WindowOffsets offsets(kBytes);
  bool used[kBytes] = {};
  struct Taken {
    uint64_t at, bytes;
  };
  std::vector<Taken> taken;
  uint64_t random = 12345;
  const auto draw = [&](uint64_t below) {
    random = random * 6364136223846793005 + 1442695040888963407;
    return (random >> 33) % below;
  };
  for (int round = 0; round < 20'000; ++round) {
    if (draw(2) == 0 && !taken.empty()) {
      const size_t i = draw(taken.size());
      for (uint64_t b = 0; b < taken[i].bytes; ++b) used[taken[i].at + b] = false;
      offsets.give(taken[i].at, taken[i].bytes);
      taken.erase(taken.begin() + long(i));
    } else {
      const uint64_t bytes = 1 + draw(12), alignment = uint64_t(1) << draw(4);
      // The lowest place that fits, by looking at every one.
      std::optional<uint64_t> expected;
      for (uint64_t at = 0; at + bytes <= kBytes && !expected; at += alignment) {
        bool free = true;
        for (uint64_t b = 0; b < bytes; ++b) free = free && !used[at + b];
        if (free) expected = at;
      }
      const auto at = offsets.take(bytes, alignment);
      REQUIRE(at == expected);
      if (!at) continue;
      for (uint64_t b = 0; b < bytes; ++b) used[*at + b] = true;
      taken.push_back({*at, bytes});
    }
    uint64_t run = 0, largest = 0;
    for (const bool u : used) largest = std::max(largest, run = u ? 0 : run + 1);
    REQUIRE(offsets.largest_free() == largest);
  }
}

}  // namespace window_user_window_tests
