// Windows of whole jobs: every collective over them, as threads and as processes; what happens
// where there can be none, and that all is given back.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "kernels/algo/algorithms.h"
#include "runtime/plan/reach.h"
#include "runtime/window/host_window.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/window/window_job.h"

namespace window_host_window_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using kernels::AlgorithmId;

namespace {

constexpr const char* kOverWindows[] = {"one-shot", "two-shot"};

void served_collectives(Communicator& c, Complaints& complaints, const std::string& algorithm,
                        const std::vector<uint64_t>& counts) {
  const auto* row = kernels::find_algorithm(algorithm);
  Stream stream(c);
  for (const uint64_t count : counts)
    for (int i = 0; i < kernels::kCollectiveCount; ++i) {
      const Collective collective = Collective(i);
      if (collective == Collective::barrier || !serves(*row, collective)) continue;
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::all_to_all) continue;
        const std::string wrong =
            run_case(c, stream, {collective, count, c.size() - 1, in_place},
                     count % 2 == 0 ? Communicator::Launch::async : Communicator::Launch::blocking);
        if (!wrong.empty()) return complaints.add(wrong);
      }
    }
  const Operation barrier{.collective = Collective::barrier};
  complaints.add(c.rank(), c.start(barrier, stream, Communicator::Launch::blocking));
}

CommOptions forced(const std::string& algorithm, int channels = 0) {
  CommOptions options;
  options.algo = algorithm;
  options.channels = channels;
  options.op_timeout_s = 60;
  return options;
}

Result<Communicators> job(int n, const CommOptions& options) {
  COLL_ASSIGN(const Address address, base::parse_address("127.0.0.1:0"));
  COLL_ASSIGN(const base::Secret secret, base::random_secret());
  COLL_ASSIGN(const auto root, BootstrapRoot::start({.listen_at = address, .secret = secret}));
  return Communicator::init_many(UniqueId::make(root->address(), secret), all_ranks(n), n, options);
}

// As where memory runs out: no file may be larger than a page.
void forbid_files() {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

size_t mapped_windows() {
  FILE* maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  size_t count = 0;
  char line[1024];
  while (std::fgets(line, sizeof line, maps) != nullptr)
    count += std::string(line).find("collctl-window") != std::string::npos;
  std::fclose(maps);
  return count;
}

// KiB of windows that this process has pages of.
long present_windows() {
  FILE* maps = std::fopen("/proc/self/smaps", "re");
  REQUIRE(maps != nullptr);
  bool window = false;
  long all = 0, kib = 0;
  char line[1024];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    const std::string text = line;
    if (text.find('-') < text.find(':')) window = text.find("collctl-window") != std::string::npos;
    if (window && std::sscanf(line, "Rss: %ld kB", &kib) == 1) all += kib;
  }
  std::fclose(maps);
  return all;
}

RankFacts facts(int rank, uint64_t process, uint64_t network) {
  RankFacts c{};
  c.info.rank = rank;
  c.info.process_hash = process;
  c.info.network_namespace = network;
  return c;
}

}  // namespace

TEST_CASE("every collective over windows, ranks as threads", "[window]") {
  for (const std::string algorithm : kOverWindows)
    for (const int n : {1, 2, 3, 4, 7, 8, 16}) {
      INFO(algorithm << " " << n << " ranks");
      CHECK(with_ranks(n, forced(algorithm), [&](Communicator& c, Complaints& complaints) {
              if (!test::nightly() && n > 4)
                served_collectives(c, complaints, algorithm, {1, 92, 3000});
              else
                served_collectives(c, complaints, algorithm,
                                   {0, 1, 3, 5, 13, 60, 92, 93, 1000, 70'001});
              if (!c.links().empty()) complaints.add("links were made that nobody needs");
            }) == "");
    }
}

// Each takes another page: what maps them in operations makes hundreds of these slow.
TEST_CASE("windows begin with the pages that small operations take in turn", "[window]") {
  auto ranks = job(2, forced("one-shot", 1));
  REQUIRE(ranks);
  // Both ranks, as threads, map all banks of both.
  const uint64_t places = kernels::kWindowBanks * kernels::kPlacesBytes;
  CHECK(present_windows() >= long(2 * places / 1024));
}

TEST_CASE("several channels have windows of their own", "[window]") {
  for (const std::string algorithm : kOverWindows)
    CHECK(with_ranks(3, forced(algorithm, 3), [&](Communicator& c, Complaints& complaints) {
            served_collectives(c, complaints, algorithm, {1, 100, 300'000});
          }) == "");
}

TEST_CASE("more channels later than windows at the start", "[window]") {
  CHECK(with_ranks(2, forced("", 1), [&](Communicator& c, Complaints& complaints) {
          complaints.add(c.rank(), c.set_choices("two-shot", "", 4));
          served_collectives(c, complaints, "two-shot", {300'000});
          complaints.add(c.rank(), c.set_choices("ring", "", 4));
          Stream stream(c);
          const std::string wrong = run_case(c, stream, {Collective::all_reduce, 300'000});
          if (!wrong.empty()) complaints.add(wrong);
        }) == "");
}

TEST_CASE("windows between processes", "[window]") {
  for (const std::string algorithm : kOverWindows) {
    const int n = 4;
    std::vector<pid_t> children;
    // Forked before the root's thread starts; each child hears of the root through the pipe.
    int pipe_fds[2];
    REQUIRE(::pipe(pipe_fds) == 0);
    const base::Fd reader(pipe_fds[0]), writer(pipe_fds[1]);
    static_assert(std::is_trivially_copyable_v<UniqueId>);
    wait_until_alone();
    for (int rank = 0; rank < n; ++rank) {
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        UniqueId id;
        if (::read(reader.get(), static_cast<void*>(&id), sizeof id) != ssize_t(sizeof id))
          ::_exit(3);
        auto c = Communicator::init(id, rank, n, forced(algorithm));
        Complaints complaints;
        if (!c) ::_exit(2);
        served_collectives(**c, complaints, algorithm, {0, 1, 5, 1000, 70'001});
        complaints.add(rank, (*c)->finalize(Deadline::after_seconds(60)));
        if (complaints.text().empty()) ::_exit(0);
        std::fputs(complaints.text().c_str(), stderr);
        ::_exit(1);
      }
      children.push_back(child);
    }
    const Root root = make_root();
    for (int rank = 0; rank < n; ++rank)
      REQUIRE(::write(writer.get(), &root.id, sizeof root.id) == ssize_t(sizeof root.id));
    for (const pid_t child : children) {
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      CHECK(status == 0);
    }
  }
}

TEST_CASE("small messages of one host go over windows by themselves", "[window]") {
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          float value = 1, sum = 0;
          const Operation op{
              .collective = Collective::all_reduce, .input = &value, .output = &sum, .count = 1};
          const auto plan = c.plan_for({&op, 1});
          if (!plan || plan->ops[0].algorithm != AlgorithmId::one_shot)
            complaints.add(plan ? plan->ops[0].why : plan.error().chain());
        }) == "");
}

TEST_CASE("where windows cannot be, links serve, and who insists is told", "[window]") {
  const std::string fallen = in_child([] {
    forbid_files();
    auto made = job(3, {});
    if (!made) return made.error().chain();
    Complaints complaints;
    on_all(3, [&](int r) {
      Communicator& c = *(*made)[size_t(r)];
      {
        Stream stream(c);
        const std::string wrong = run_case(c, stream, {Collective::all_reduce, 1000});
        if (!wrong.empty()) complaints.add(wrong);
        const Operation op{.collective = Collective::barrier};
        const auto plan = c.plan_for({&op, 1});
        if (plan && kernels::algorithm(plan->ops[0].algorithm).window)
          complaints.add("planned over a window that is not there");
        complaints.add(r, c.set_choices("one-shot", "", 0));
        const auto insisted = c.plan_for({&op, 1});
        if (insisted ||
            insisted.error().message.find("memory that all ranks map, and there is "
                                          "none: rank 0 could not") == std::string::npos)
          complaints.add(insisted ? "planned" : insisted.error().chain());
      }
      complaints.add(r, c.finalize(Deadline::after_seconds(60)));
    });
    return "ran " + complaints.text();
  });
  CHECK(fallen == "ran ");
}

TEST_CASE("WINDOW_BYTES: none, too few, and any size", "[window]") {
  const auto with = [](const char* bytes, const std::function<std::string()>& body) {
    return in_child([&] {
      ::setenv("COLLCTL_WINDOW_BYTES", bytes, 1);
      return body();
    });
  };
  const auto collectives = [] {
    return with_ranks(3, forced("one-shot,two-shot"), [&](Communicator& c, Complaints& complaints) {
      served_collectives(c, complaints, "one-shot", {1, 3000});
    });
  };
  CHECK(with("4096", collectives) == "");
  CHECK(with("5000", collectives) == "");
  CHECK(with("4M", collectives) == "");
  CHECK(with("100", [] {
          auto made = job(2, {});
          return made ? "started" : made.error().chain();
        }).find("expected 0 (no windows) or at least 4096 bytes") != std::string::npos);
  CHECK(with("0", [] {
          return with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            const std::string wrong = run_case(c, stream, {Collective::all_reduce, 10});
            if (!wrong.empty()) complaints.add(wrong);
            if (c.links().empty()) complaints.add("there are no links");
          });
        }) == "");
}

TEST_CASE("windows are given back: descriptors and memory", "[window]") {
  const auto round = [] {
    CHECK(with_ranks(4, forced("one-shot"), [&](Communicator& c, Complaints& complaints) {
            served_collectives(c, complaints, "one-shot", {1, 70'001});
          }) == "");
  };
  round();
  const size_t files = open_files();
  for (int i = 0; i < (test::nightly() ? 10 : 3); ++i) round();
  CHECK(open_files() == files);
  CHECK(mapped_windows() == 0);
  // Also by ranks that never say goodbye.
  { const Communicators job = start_job(4, forced("one-shot")); }
  CHECK(mapped_windows() == 0);
}

TEST_CASE("a rank that stays away is named over windows, too", "[window]") {
  CommOptions options = forced("one-shot");
  options.op_timeout_s = 3;  // further apart than ranks begin
  const Communicators job = start_job(4, options);
  std::vector<Error> errors(4);
  on_all(4, [&](int r) {
    Communicator& c = *job[size_t(r)];
    Stream stream(c);
    if (r == 2) {
      const Deadline deadline = Deadline::after_seconds(60);
      while (c.async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
      if (const Status s = c.async_error(); !s) errors[2] = s.error();
      return;
    }
    const Operation op{.collective = Collective::barrier};
    if (const Status s = c.start(op, stream, Communicator::Launch::blocking); !s)
      errors[size_t(r)] = s.error();
  });
  for (const Error& e : errors) {
    INFO(e.chain());
    CHECK(e.code == ErrorCode::deadline);
    CHECK(e.message.find("waits for data from rank 2 (") != std::string::npos);
    CHECK(e.message.find("one-shot") != std::string::npos);
    CHECK(e.rank == 2);
  }
}

TEST_CASE("who can share a window", "[window]") {
  Settings settings;
  settings.window_bytes = 4096;
  const HostGroups one{{0, 1}}, two{{0}, {1}};
  const std::vector<RankFacts> all_facts{facts(0, 1, 9), facts(1, 2, 9)};
  CHECK(why_no_window(all_facts, one, settings) == "");
  CHECK(why_no_window(all_facts, two, settings).find("several hosts") != std::string::npos);
  CHECK(why_no_window({all_facts.data(), 1}, one, settings).find("one rank") != std::string::npos);
  const std::vector<RankFacts> apart{facts(0, 1, 9), facts(1, 2, 8)};
  CHECK(why_no_window(apart, one, settings).find("network namespaces") != std::string::npos);
  CHECK(why_no_window(std::vector<RankFacts>(65), one, settings).find("65 ranks") !=
        std::string::npos);
  Settings other = settings;
  other.shm_disabled = true;
  CHECK(why_no_window(all_facts, one, other) == "SHM_DISABLE is set");
  const std::vector<RankFacts> threads{facts(0, 1, 9), facts(1, 1, 9)};
  CHECK(why_no_window(threads, one, other) == "");
  other.p2p_disabled = true;
  CHECK(why_no_window(threads, one, other) == "SHM_DISABLE is set");
  other = settings;
  other.transport = "net";
  CHECK(why_no_window(all_facts, one, other).find("'net'") != std::string::npos);
  other = settings;
  other.window_bytes = 0;
  CHECK(why_no_window(all_facts, one, other).find("WINDOW_BYTES") != std::string::npos);
}

}  // namespace window_host_window_tests
