// Communicators of GPU ranks: every collective over every transport, windows, streams, groups,
// graphs. Faults are in test_gpu_faults.cc.
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace gpu_ranks_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kAll[] = {Collective::all_reduce,     Collective::all_gather,
                               Collective::reduce_scatter, Collective::broadcast,
                               Collective::reduce,         Collective::gather,
                               Collective::scatter,        Collective::all_to_all};

// Enough for several chunks on all channels. Kernels are threads here, a hundred at a time with 8
// ranks: a thread sanitizer takes minutes for what else takes seconds.
#if defined(__SANITIZE_THREAD__)
const uint64_t kMany = 20'000;
constexpr int kRanks[] = {1, 2, 3, 4};
#else
const uint64_t kMany = uint64_t(test::how_much(test::Sweep::gpu_rank_elements));
constexpr int kRanks[] = {1, 2, 3, 4, 8};
#endif

void run_all(Communicator& c, Complaints& complaints, std::initializer_list<uint64_t> counts) {
  Stream stream(c);
  for (const Collective collective : kAll)
    for (const uint64_t count : counts)
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::all_to_all) continue;
        const std::string wrong = run_case(
            c, stream,
            {.collective = collective, .count = count, .root = c.size() - 1, .in_place = in_place});
        if (!wrong.empty()) complaints.add(wrong);
      }
  const Operation barrier{.collective = Collective::barrier};
  complaints.add(c.rank(), c.start(barrier, stream, Communicator::Launch::blocking));
}

GpuJob over(int ranks, const std::string& transport) {
  GpuJob job;
  job.ranks = ranks;
  job.options.transport = transport;
  job.options.op_timeout_s = 120;  // of no matter where nothing fails
  return job;
}

}  // namespace

TEST_CASE("every collective on GPU ranks", "[gpu]") {
  for (const int n : kRanks) {
    set_up_gpus(n);
    INFO(n << " ranks");
    CHECK(with_gpu_ranks(over(n, ""), [](Communicator& c, Complaints& complaints) {
            run_all(c, complaints, {0, 1, 1003, kMany});
            if (c.device() == nullptr || c.device_bytes() == 0)
              complaints.add("a GPU rank says that it has no GPU, or no memory of one");
          }) == "");
  }
}

TEST_CASE("GPU ranks have memory for the sums of halving, as much as any needed yet", "[gpu]") {
  for (const int n : kRanks)
    for (const int channels : {0, 3}) {
      set_up_gpus(n);
      INFO(n << " ranks");
      CHECK(with_gpu_ranks(over(n, ""), [&](Communicator& c, Complaints& complaints) {
              COLL_TEST_OK(complaints, c.set_choices("halving", "", channels));
              Stream stream(c);
              for (const uint64_t count : {1003ul, 1ul, kMany / 10, 0ul, 1003ul, kMany / 4})
                for (const bool in_place : {false, true}) {
                  const std::string wrong = run_case(c, stream,
                                                     {.collective = Collective::reduce_scatter,
                                                      .count = count,
                                                      .in_place = in_place});
                  if (!wrong.empty()) complaints.add(wrong);
                }
            }) == "");
    }
}

TEST_CASE("GPU ranks over each transport", "[gpu]") {
  for (const char* transport : {"p2p", "shm", "net"}) {
    set_up_gpus(3);
    INFO(transport);
    CHECK(with_gpu_ranks(over(3, transport), [&](Communicator& c, Complaints& complaints) {
            run_all(c, complaints, {7, kMany / 3});
            if (c.links().empty()) complaints.add("no links");
          }) == "");
  }
}

TEST_CASE("GPUs read where that is asked for", "[gpu]") {
  set_up_gpus(2);
  GpuJob job = over(2, "p2p");
  job.options.p2p = "read";
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          run_all(c, complaints, {1000});
          for (const LinkInfo& link : c.links())
            if (link.via != "P2P/direct pointer/read") complaints.add(link.via);
        }) == "");
}

TEST_CASE("what window kernels serve goes through the window, all else through links", "[gpu]") {
  set_up_gpus(4);
  const LaunchCounts before = launch_counts();
  CHECK(with_gpu_ranks(over(4, ""), [](Communicator& c, Complaints& complaints) {
          COLL_TEST_OK(complaints, c.set_choices("two-shot", "simple", 0));
          Stream stream(c);
          // The larger ones are more than a bank, so that pieces use both banks in turn.
          for (const uint64_t count : {uint64_t(1), uint64_t(5), uint64_t(4099), uint64_t(60'000)})
            for (int again = 0; again < 3; ++again) {
              const std::string wrong =
                  run_case(c, stream, {.collective = Collective::all_reduce, .count = count});
              if (!wrong.empty()) complaints.add(wrong);
            }
        }) == "");
  const LaunchCounts after = launch_counts();
  CHECK(after.windows - before.windows == 4 * 4 * 3);  // ranks x sizes x repetitions
  CHECK(after.works == before.works);
}

// Where GPUs do not reach each other, as the driver says at the start or as was asked for, they go
// through host memory that all map. Lines of 128 bytes do not.
TEST_CASE("GPUs without P2P have a window in host memory", "[gpu]") {
  struct Case {
    const char *peers, *transport, *knob;  // of the driver; asked for
    bool window;
  };
  const Case each =
      GENERATE(Case{"none", "", "", true}, Case{"0-2", "", "", true},
               Case{"", "", "COLLCTL_P2P_DISABLE", true}, Case{"", "shm", "", true},
               Case{"", "net", "", false}, Case{"none", "", "COLLCTL_SHM_DISABLE", false},
               Case{"none", "", "COLLCTL_WINDOW_BYTES", false});
  INFO(each.peers << " " << each.transport << " " << each.knob);
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = 4, .peers = each.peers});
  const std::string knob = each.knob;
  if (!knob.empty()) ::setenv(each.knob, knob == "COLLCTL_WINDOW_BYTES" ? "0" : "1", 1);
  const LaunchCounts before = launch_counts();
  CHECK(with_gpu_ranks(over(4, each.transport), [&](Communicator& c, Complaints& complaints) {
          run_all(c, complaints, {0, 1003, kMany / 4});
          std::vector<float> data(64);
          const Operation op{.collective = Collective::all_reduce,
                             .input = data.data(),
                             .output = data.data(),
                             .count = data.size()};
          const auto plan = c.plan_for({&op, 1});
          COLL_TEST_OK(complaints, plan ? Status() : Status(plan.error()));
          const PlannedOp& planned = plan->ops.front();
          if (planned.by_window_kernel != each.window ||
              (each.window && planned.protocol != kernels::Protocol::ll))
            complaints.add(
                format("{} by {}", name_of(planned.algorithm), name_of(planned.protocol)));
          for (const char* protocol : {"simple", "ll128"}) {
            const bool want = each.window && protocol == std::string("simple");
            const Status chosen = c.set_choices("two-shot", protocol, 0);
            if ((chosen && c.plan_for({&op, 1})) != want)
              complaints.add(format("two-shot by {} through host memory", protocol));
          }
        }) == "");
  if (!knob.empty()) ::unsetenv(each.knob);
  CHECK((launch_counts().windows > before.windows) == each.window);
}

TEST_CASE("without a window the reason is told to whom asks for one", "[gpu]") {
  set_up_gpus(2);
  CHECK(with_gpu_ranks(over(2, "net"), [](Communicator& c, Complaints& complaints) {
          COLL_TEST_OK(complaints, c.set_choices("two-shot", "simple", 0));
          std::vector<float> data(8);
          const Operation op{.collective = Collective::all_reduce,
                             .input = data.data(),
                             .output = data.data(),
                             .count = data.size()};
          const auto plan = c.plan_for({&op, 1});
          if (plan || plan.error().code != ErrorCode::usage ||
              plan.error().message.find("only the transport 'net' is allowed") == std::string::npos)
            complaints.add(plan ? "planned" : plan.error().chain());
        }) == "");
}

TEST_CASE("operations of two streams run one after the other", "[gpu]") {
  // Each step's input is what the step before has written, on the other stream: after k sums over
  // n ranks the value 1 has become n^k.
  for (const int n : {2, 3}) {
    set_up_gpus(n);
    CHECK(with_gpu_ranks(over(n, ""), [n](Communicator& c, Complaints& complaints) {
            constexpr uint64_t kCount = 20'000;
            std::vector<double> a(kCount, 1.0), b(kCount, 0.0);
            Stream first(c), second(c);
            double want = 1;
            for (int k = 0; k < 8; ++k) {
              want *= n;
              complaints.add(c.rank(), c.start({.collective = Collective::all_reduce,
                                                .input = (k % 2 == 0 ? a : b).data(),
                                                .output = (k % 2 == 0 ? b : a).data(),
                                                .count = kCount,
                                                .type = DataType::float64},
                                               k % 2 == 0 ? first : second));
            }
            complaints.add(c.rank(), second.synchronize());
            if (a != std::vector<double>(kCount, want)) complaints.add("the streams ran across");
          }) == "");
  }
}

TEST_CASE("a graph of operations is replayed", "[gpu]") {
  // The graph doubles (n = 2): x <- sum over ranks of x; first by links, then by the window.
  for (const char* algo : {"ring", "two-shot"}) {
    set_up_gpus(2);
    INFO(algo);
    CHECK(with_gpu_ranks(over(2, ""), [algo](Communicator& c, Complaints& complaints) {
            COLL_TEST_OK(complaints, c.set_choices(algo, "simple", 0));
            constexpr uint64_t kCount = 5000;
            std::vector<double> x(kCount, 1.0);
            const Operation twice{.collective = Collective::all_reduce,
                                  .input = x.data(),
                                  .output = x.data(),
                                  .count = kCount,
                                  .type = DataType::float64};
            Stream stream(c), other(c);
            COLL_TEST_OK(complaints, stream.capture_begin());
            for (int i = 0; i < 3; ++i) COLL_TEST_OK(complaints, c.start(twice, stream));
            if (const Status elsewhere = c.start(twice, other);
                elsewhere || elsewhere.error().code != ErrorCode::usage)
              complaints.add("another stream did not rest");
            if (const Status waited = stream.synchronize();
                waited || waited.error().code != ErrorCode::usage || stream.idle())
              complaints.add("a recording stream was waited for");
            {
              Stream dropped(c);  // while another one records
              if (dropped.capture_begin()) complaints.add("two graphs at once");
            }
            auto graph = stream.capture_end();
            if (!graph) return complaints.add(graph.error().chain());
            if (x[0] != 1) complaints.add("a capture ran what it was to record");
            COLL_TEST_OK(complaints, c.set_choices("", "", 0));
            // More plans than the cache holds, so that the captured one is forgotten.
            std::vector<double> y(100);
            for (uint64_t count = 1; count <= 40; ++count)
              COLL_TEST_OK(complaints, c.start({.collective = Collective::all_gather,
                                                .input = x.data(),
                                                .output = y.data(),
                                                .count = count,
                                                .type = DataType::float64},
                                               other));
            for (int i = 0; i < 4; ++i)
              COLL_TEST_OK(complaints, (i % 2 == 0 ? stream : other).replay(*graph));
            COLL_TEST_OK(complaints, c.start(twice, stream, Communicator::Launch::blocking));
            {
              Stream forgotten(c);
              COLL_TEST_OK(complaints, forgotten.capture_begin());
              COLL_TEST_OK(complaints, c.start(twice, forgotten));
            }
            // 3 operations x 4 replays and one more: 2^13.
            if (x != std::vector<double>(kCount, 8192.0))
              complaints.add(format("x is {} after the replays", x[0]));
          }) == "");
  }
}

TEST_CASE("messages of a group, and groups of several operations, on GPU ranks", "[gpu]") {
  const int n = 4;
  set_up_gpus(n);
  CHECK(with_gpu_ranks(over(n, ""), [](Communicator& c, Complaints& complaints) {
          const int me = c.rank(), ranks = c.size();
          constexpr size_t kCount = 3000;
          std::vector<std::vector<int>> out, in;
          for (int peer = 0; peer < ranks; ++peer) {
            out.emplace_back(kCount, me * 100 + peer);
            in.emplace_back(kCount, -1);
          }
          std::vector<float> a(1000, float(me)), b(1000), d(10, 1.f);
          Stream stream(c);
          for (int round = 0; round < 3; ++round) {
            Group group;
            complaints.add(me, c.start({.collective = Collective::all_reduce,
                                        .input = a.data(),
                                        .output = b.data(),
                                        .count = a.size()},
                                       stream));
            for (int peer = 0; peer < ranks; ++peer) {
              complaints.add(me, c.start({.collective = Collective::send_recv,
                                          .input = out[size_t(peer)].data(),
                                          .count = kCount,
                                          .type = DataType::int32,
                                          .peer = peer},
                                         stream));
              complaints.add(me, c.start({.collective = Collective::send_recv,
                                          .output = in[size_t(peer)].data(),
                                          .count = kCount,
                                          .type = DataType::int32,
                                          .peer = peer},
                                         stream));
            }
            complaints.add(me, c.start({.collective = Collective::all_reduce,
                                        .input = d.data(),
                                        .output = d.data(),
                                        .count = d.size()},
                                       stream));
            complaints.add(me, group.end());
          }
          complaints.add(me, stream.synchronize());
          for (int peer = 0; peer < ranks; ++peer)
            if (in[size_t(peer)] != std::vector<int>(kCount, peer * 100 + me))
              complaints.add(format("rank {}: the message of {} is wrong", me, peer));
          if (b != std::vector<float>(1000, 6.f)) complaints.add("0 + 1 + 2 + 3 is not 6");
          if (d != std::vector<float>(10, 64.f)) complaints.add("4 x 4 x 4 is not 64");
        }) == "");
}

// Large ones through the window, behind the small ones and whatever else the group has; a rank may
// know of none, of one end or of several messages of a pair. Likewise in host memory, without P2P.
TEST_CASE("large messages between GPU ranks go through their window", "[gpu]") {
  const int n = 3;
  const char* const transport = GENERATE("", "shm");
  INFO(transport);
  set_up_gpus(n);
  const uint64_t before = launch_counts().messages;
  CHECK(with_gpu_ranks(over(n, transport), [](Communicator& c, Complaints& complaints) {
          constexpr size_t kLarge = 600'001, kSmall = 100;
          struct Sent {
            int from, to;
            size_t count;
          };
          // 0 -> 1 twice, one of them small; 1 <-> 2; 2 to itself.
          const std::vector<Sent> sent = {{0, 1, kLarge}, {0, 1, kSmall},     {0, 1, kLarge + 3},
                                          {1, 2, kLarge}, {2, 1, kLarge - 1}, {2, 2, kLarge}};
          const auto value = [](size_t message, int round) {
            return uint8_t(1 + message + 16 * round);
          };
          std::vector<std::vector<uint8_t>> out(sent.size()), in(sent.size());
          std::vector<float> sum(1000, 1.f);
          Stream stream(c);
          for (int round = 0; round < 3; ++round) {
            Group group;
            for (size_t m = 0; m < sent.size(); ++m) {
              const Sent& each = sent[m];
              out[m].assign(each.count, value(m, round));
              in[m].assign(each.count, 0);
              if (each.from == c.rank())
                complaints.add(c.rank(), c.start({.collective = Collective::send_recv,
                                                  .input = out[m].data(),
                                                  .count = each.count,
                                                  .type = DataType::uint8,
                                                  .peer = each.to},
                                                 stream));
              if (each.to == c.rank())
                complaints.add(c.rank(), c.start({.collective = Collective::send_recv,
                                                  .output = in[m].data(),
                                                  .count = each.count,
                                                  .type = DataType::uint8,
                                                  .peer = each.from},
                                                 stream));
            }
            complaints.add(c.rank(), c.start({.collective = Collective::all_reduce,
                                              .input = sum.data(),
                                              .output = sum.data(),
                                              .count = sum.size()},
                                             stream));
            complaints.add(c.rank(), group.end());
            complaints.add(c.rank(), stream.synchronize());
            for (size_t m = 0; m < sent.size(); ++m)
              if (sent[m].to == c.rank() &&
                  in[m] != std::vector<uint8_t>(sent[m].count, value(m, round)))
                complaints.add(format("message {} of round {} is wrong", m, round));
          }
          if (sum != std::vector<float>(1000, 27.f)) complaints.add("3 x 3 x 3 is not 27");
        }) == "");
  CHECK(launch_counts().messages - before == 3 * 3);  // rounds of the test, ranks
}

TEST_CASE("a group on two streams of one communicator", "[gpu]") {
  // First uses of different links; the second stream's operation follows the first one's.
  const int n = 3;
  set_up_gpus(n);
  CHECK(with_gpu_ranks(over(n, ""), [](Communicator& c, Complaints& complaints) {
          std::vector<int> mine(3, c.rank()), all(9, -1), turned(9, -1);
          Stream first(c), second(c);
          Group group;
          complaints.add(c.rank(), c.start({.collective = Collective::all_gather,
                                            .input = mine.data(),
                                            .output = all.data(),
                                            .count = 3,
                                            .type = DataType::int32},
                                           first));
          complaints.add(c.rank(), c.start({.collective = Collective::all_to_all,
                                            .input = all.data(),
                                            .output = turned.data(),
                                            .count = 3,
                                            .type = DataType::int32},
                                           second));
          complaints.add(c.rank(), group.end());
          complaints.add(c.rank(), second.synchronize());
          // Everybody holds 000111222 and sends block r to rank r, who gets its own number only.
          if (turned != std::vector<int>(9, c.rank())) complaints.add("the order was lost");
        }) == "");
}

TEST_CASE("one thread drives several GPU communicators by groups", "[gpu]") {
  const int n = 3;
  set_up_gpus(n);
  {
    const Communicators job = start_gpu_job(over(n, ""));
    std::vector<std::unique_ptr<Stream>> streams;
    for (const auto& c : job) streams.push_back(std::make_unique<Stream>(*c));
    // First uses of links, which each communicator makes together with the others of this thread.
    for (const Collective collective :
         {Collective::all_to_all, Collective::all_gather, Collective::all_to_all}) {
      std::vector<std::vector<int>> out, in;
      for (int r = 0; r < n; ++r) {
        std::vector<int> blocks;
        for (int to = 0; to < n; ++to) blocks.push_back(r * 10 + to);
        out.push_back(blocks);
        in.emplace_back(size_t(n), -1);
      }
      Group group;
      for (int r = 0; r < n; ++r)
        REQUIRE(job[size_t(r)]->start({.collective = collective,
                                       .input = out[size_t(r)].data(),
                                       .output = in[size_t(r)].data(),
                                       .count = 1,
                                       .type = DataType::int32},
                                      *streams[size_t(r)]));
      const Status ended = group.end();
      INFO((ended ? "" : ended.error().chain()));
      REQUIRE(ended);
      for (auto& stream : streams) REQUIRE(stream->synchronize());
      for (int r = 0; r < n; ++r)
        for (int from = 0; from < n; ++from)
          CHECK(in[size_t(r)][size_t(from)] ==
                from * 10 + (collective == Collective::all_to_all ? r : 0));
    }
    on_all(n, [&](int r) { (void)job[size_t(r)]->finalize(Deadline::after_seconds(60)); });
  }
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("what a launch of a cached plan costs the host", "[.][bench]") {
  set_up_gpus(1);
  static kernels::cuda::Launcher nothing = host_launcher();
  nothing.launch_works = [](const kernels::cuda::WorksLaunch&) { return 0; };
  GpuJob job = over(1, "");
  job.launcher = &nothing;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints&) {
          Stream stream(c);
          std::vector<float> data(1000);
          constexpr int kTimes = 100'000;
          int64_t start = 0;
          for (int i = -1000; i < kTimes; ++i) {
            if (i == 0) start = now_ns();
            (void)c.start({.collective = Collective::all_reduce,
                           .input = data.data(),
                           .output = data.data(),
                           .count = data.size()},
                          stream);
          }
          WARN("ns each: " << (now_ns() - start) / kTimes);
        }) == "");
}

TEST_CASE("window algorithms by the verbs, as the kernels' oracle", "[gpu]") {
  set_up_gpus(3);
  ::setenv("COLLCTL_GPU_KERNELS", "verbs", 1);
  const LaunchCounts before = launch_counts();
  const std::string wrong =
      with_gpu_ranks(over(3, ""), [](Communicator& c, Complaints& complaints) {
        COLL_TEST_OK(complaints, c.set_choices("one-shot,two-shot", "simple", 0));
        Stream stream(c);
        for (const Collective collective : {Collective::all_reduce, Collective::all_gather})
          for (const uint64_t count : {uint64_t(3), uint64_t(5000), uint64_t(400'000)}) {
            const std::string text =
                run_case(c, stream, {.collective = collective, .count = count});
            if (!text.empty()) complaints.add(text);
          }
      });
  ::unsetenv("COLLCTL_GPU_KERNELS");
  CHECK(wrong == "");
  CHECK(launch_counts().windows == before.windows);
  CHECK(launch_counts().works - before.works == 3 * 2 * 3);  // ranks x collectives x sizes
}

TEST_CASE("a type that a GPU has no arithmetic for is refused on every rank", "[gpu]") {
  set_up_gpus(2);
  static kernels::cuda::Launcher old = host_launcher();
  old.has_type = [](DataType type, int) { return type != DataType::float8e4m3; };
  GpuJob job = over(2, "");
  job.launcher = &old;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          std::vector<uint8_t> data(64, 0);
          Operation op{.collective = Collective::all_reduce,
                       .input = data.data(),
                       .output = data.data(),
                       .count = data.size(),
                       .type = DataType::float8e4m3};
          const Status refused = c.start(op, stream);
          if (refused || refused.error().code != ErrorCode::unavailable ||
              refused.error().message.find("float8e4m3") == std::string::npos)
            complaints.add(refused ? "started" : refused.error().chain());
          op.collective = Collective::broadcast;  // moves it only
          complaints.add(c.rank(), c.start(op, stream));
          complaints.add(c.rank(), stream.synchronize());
        }) == "");
}

}  // namespace gpu_ranks_tests
