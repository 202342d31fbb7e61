// LL128 between hosts: over RDMA between GPUs where its lines arrive whole, else refused with the
// reason.
#include "runtime/links/edges.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_processes.h"
#include "tests/unit/runtime_ib/line_launcher.h"
#include "tests/unit/runtime_ib/relay_machine.h"

namespace ib_lines_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// GPUs of sm 90 see what arrives in order, without a flush.
fake_verbs::Setup adapters(const std::string& options = ":ib:dmabuf") {
  return {.devices = "fake_0" + options + ",fake_1" + options, .hold_us = 0};
}

void set_up_lines() {
  INFO(fake_cuda::counts().text());
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = kRanks, .sm = 90});
}

GpuJob by_lines(const std::string& proto) {
  GpuJob job = two_hosts("ib");
  job.options.proto = proto;
  job.launcher = &line_launcher();
  return job;
}

// One GPU of each host, next to its adapter.
GpuJob one_of_each() {
  GpuJob job = by_lines("ll128");
  job.ranks = 2;
  job.hosts = {0, 1};
  job.device_of = [](int r) { return 2 * r; };
  return job;
}

// Whole lines, one byte less and one more, several slots.
void run_all(Communicator& c, Complaints& complaints,
             const std::vector<uint64_t>& counts = {0, 1, 7, 29, 30, 31, 1000, 100'003}) {
  Stream stream(c);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::broadcast, Collective::reduce})
    for (const uint64_t count : counts)
      for (const int root : {0, 3}) {
        if (root != 0 && !kernels::has_root(collective)) continue;
        const std::string wrong =
            run_case(c, stream, {.collective = collective, .count = count, .root = root});
        if (!wrong.empty()) return complaints.add(wrong);
      }
}

// The outcome of an all-reduce on each rank.
std::vector<std::string> said_by(const GpuJob& job) {
  const Communicators ranks = start_gpu_job(job);
  std::vector<std::string> said(size_t(job.ranks));
  on_all(job.ranks, [&](int r) {
    Communicator& c = *ranks[size_t(r)];
    Stream stream(c);
    said[size_t(r)] = run_case(c, stream, {.collective = Collective::all_reduce, .count = 5000});
    static_cast<void>(c.finalize(Deadline::after_seconds(60)));
  });
  return said;
}

void check_refused(const GpuJob& job, const std::string& why) {
  for (const std::string& text : said_by(job)) {
    CAPTURE(text, why);
    CHECK(text.find(why) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("LL128 goes from GPU to GPU over RDMA", "[.][ib][lines]") {
  for (const bool adapter_each : {true, false})  // without, a GPU sends through the other
    for (const char* algo : {"ring", "tree", "tree-split"}) {
      INFO("an adapter each: " << adapter_each << ", " << algo);
      const Adapters fabric(adapters());
      const Machine machine(adapter_each ? Adapter::beside_each : Adapter::beside_first);
      set_up_lines();
      fake_verbs::clear_posted();
      GpuJob job = by_lines("ll128");
      job.options.algo = algo;
      const uint64_t before = line_launches();
      CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
              if (std::string(algo) == "ring") return run_all(c, complaints);
              Stream stream(c);
              for (const uint64_t count : {1, 31, 100'003})
                if (const std::string wrong =
                        run_case(c, stream, {.collective = Collective::all_reduce, .count = count});
                    !wrong.empty())
                  complaints.add(wrong);
            }) == "");
      CHECK(line_launches() > before);
    }
}

TEST_CASE("LL128 between hosts survives small slots and lost packets", "[.][ib][lines]") {
  for (const bool lost : {false, true}) {
    INFO(lost);
    const base::ScopedVariable buffer("COLLCTL_LL128_BUFFSIZE", "10240");  // 8 slots of 10 lines
    const base::ScopedVariable flush("COLLCTL_NET_FORCE_FLUSH", "1");      // of Simple
    fake_verbs::Setup setup = adapters();
    setup.time_scale = 0.001;
    const Adapters fabric(setup);
    const Machine machine(Adapter::beside_each);
    set_up_lines();
    GpuJob job = by_lines("ll128");
    job.options.algo = "ring";
    using fake_verbs::FaultKind;
    CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
            if (lost && c.rank() == 0) {
              fake_verbs::add_fault({.kind = FaultKind::kDrop, .after = 50, .times = 3});
              fake_verbs::add_fault(
                  {.kind = FaultKind::kDelay, .after = 60, .times = 40, .us = 300});
            }
            run_all(c, complaints);
          }) == "");
  }
}

TEST_CASE("ranks as processes have LL128 between hosts", "[ib][lines]") {
  for (const bool adapter_each : {true, false}) {
    const Adapters fabric(adapters());
    const Machine machine(adapter_each ? Adapter::beside_each : Adapter::beside_first);
    set_up_lines();
    CHECK(in_processes(by_lines("ll128"), [&](Communicator& c, Complaints& complaints) {
            if (test::nightly() || adapter_each) return run_all(c, complaints);
            run_all(c, complaints, {1, 31, 1000});
          }) == "");
  }
}

TEST_CASE("LL128 is refused where an adapter tears its lines, and others serve", "[.][ib][lines]") {
  for (const char* proto : {"ll128", ""}) {
    INFO(proto);
    const Adapters fabric(adapters());
    const Machine machine(Adapter::beside_each);
    set_up_lines();
    fake_verbs::add_fault({.kind = fake_verbs::FaultKind::kTear,
                           .device = "fake_1",
                           .times = 0,
                           .min_bytes = 128,
                           .us = 300});
    const uint64_t before = line_launches();
    if (*proto != 0)
      check_refused(by_lines(proto), "arrived torn at rank");
    else
      CHECK(said_by(by_lines(proto)) == std::vector<std::string>(kRanks));
    CHECK(line_launches() == before);
  }
}

TEST_CASE("LL128 between hosts is refused with the reason", "[ib][lines]") {
  const Machine machine(Adapter::beside_each);
  {
    const Adapters fabric(adapters(":ib"));  // which reach no GPU
    set_up_lines();
    check_refused(one_of_each(), "no network device reaches the GPU of rank 0");
  }
  {
    const Adapters fabric(adapters());
    set_up_lines();
    GpuJob job = one_of_each();
    job.options.net = "socket";
    check_refused(job, "ranks 0 and 1 use the network socket");
  }
  {
    const Adapters fabric(adapters());
    set_up_lines();
    const base::ScopedVariable read("COLLCTL_NET_GDR_READ", "0");
    check_refused(one_of_each(), "data is staged in host memory on the way");
  }
  {
    const Adapters fabric(adapters());
    set_up_lines();
    GpuJob job = one_of_each();
    job.launcher = &host_launcher();  // has no test of lines
    check_refused(job, "the torn-store test between hosts failed on rank 0: the launcher's own");
  }
  {
    const Adapters fabric(adapters());
    set_up_lines();
    // After what proves that adapters reach GPUs.
    fake_verbs::fail("ibv_reg_dmabuf_mr", ENOMEM, 5);
    check_refused(one_of_each(), "has no LL128");
    fake_verbs::fail("");
  }
}

}  // namespace ib_lines_tests
