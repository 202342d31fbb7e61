// Whole jobs over NET/IB: CPU ranks and GPU ranks, every collective, on the adapters of
// tests/fake_verbs. Ranks are threads here; processes are in tests/e2e/ib_jobs.sh.
#include <unistd.h>

#include "base/env.h"
#include "base/fd.h"
#include "base/whole_file.h"
#include "tests/unit/runtime_ib/adapters.h"

namespace ib_ranks_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kAll[] = {Collective::all_reduce,     Collective::all_gather,
                               Collective::reduce_scatter, Collective::broadcast,
                               Collective::reduce,         Collective::gather,
                               Collective::scatter,        Collective::all_to_all};

CommOptions over_ib() {
  CommOptions options = only_ib();
  options.op_timeout_s = 120;
  return options;
}

void run_all(Communicator& c, Complaints& complaints, std::initializer_list<uint64_t> counts) {
  Stream stream(c);
  for (const Collective collective : kAll)
    for (const uint64_t count : counts) {
      const std::string wrong =
          run_case(c, stream, {.collective = collective, .count = count, .root = c.size() - 1});
      if (!wrong.empty()) return complaints.add(wrong);
    }
  const Operation barrier{.collective = Collective::barrier};
  complaints.add(c.rank(), c.start(barrier, stream, Communicator::Launch::blocking));
}

// Every link is `via`.
void check_links(const Communicator& c, Complaints& complaints, const std::string& via) {
  if (c.links().empty()) complaints.add("no links");
  for (const LinkInfo& link : c.links())
    if (link.via != via) complaints.add("via " + link.via);
}

int reads_posted() {
  int reads = 0;
  for (const auto& post : fake_verbs::posted()) reads += post.opcode == 4 ? 1 : 0;  // RDMA_READ
  return reads;
}

}  // namespace

TEST_CASE("every collective of CPU ranks over InfiniBand and RoCE", "[ib]") {
  for (const char* devices : {"fake_0:ib", "fake_0:roce"})
    for (const int n : {2, 3, 4}) {
      INFO(devices << ", " << n << " ranks");
      const Adapters fabric(devices);
      CHECK(with_ranks(n, over_ib(), [](Communicator& c, Complaints& complaints) {
              run_all(c, complaints, {0, 1, 1000, 70001});
              check_links(c, complaints, "NET/IB/0");
            }) == "");
    }
}

TEST_CASE("channels and ranks take the adapters in turn", "[ib]") {
  const Adapters fabric("fake_0:ib,fake_1:ib,fake_2:ib:speed=sdr");
  CommOptions options = over_ib();
  options.channels = 4;
  CHECK(with_ranks(2, options, [](Communicator& c, Complaints& complaints) {
          run_all(c, complaints, {300000});
          // The two fast ones; channel c of local rank r takes (r + c) % 2. A link is named by this
          // rank's end.
          for (const LinkInfo& link : c.links()) {
            const std::string want = format("NET/IB/{}", (c.rank() + link.channel) % 2);
            if (link.via != want)
              complaints.add(format("channel {} via {}", link.channel, link.via));
          }
        }) == "");
}

TEST_CASE("GPU ranks over adapters that reach GPU memory, and over those that do not", "[ib]") {
  struct Way {
    const char* devices;
    const char* via;
  };
  for (const Way& way :
       {Way{"fake_0:ib:dmabuf", "NET/IB/0/GDRDMA"}, Way{"fake_0:roce:peermem", "NET/IB/0/GDRDMA"},
        Way{"fake_0:ib", "NET/IB/0"}}) {
    INFO(way.devices);
    const Adapters fabric(way.devices);
    set_up_gpus(3);
    GpuJob job;
    job.ranks = 3;
    job.options = over_ib();
    CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
            run_all(c, complaints, {0, 7, 100'000});
            check_links(c, complaints, way.via);
          }) == "");
  }
}

namespace {

// Two GPUs below the CPU; the adapter is where the kernel does not show it.
std::string machine_file() {
  const auto device = [](const char* bus, const std::string& inner) {
    return format(
        "<pci busid=\"0000:{}:00.0\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">{}"
        "</pci>",
        bus, inner);
  };
  std::string all;
  for (int gpu = 0; gpu < 2; ++gpu)
    all += device(gpu == 0 ? "10" : "11",
                  format("<gpu dev=\"{}\" rank=\"{}\" sm=\"90\" gdr=\"1\"/>", gpu, gpu));
  return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
         "familyid=\"6\" modelid=\"143\">" +
         all + "</cpu></system>";
}

}  // namespace

TEST_CASE("whether adapters reach GPU memory follows from the path and the knobs", "[ib]") {
  struct Run {
    const char *level, *read;
    // The way of a sender's and a receiver's data: GDRDMA, else why not.
    const char *sends, *receives;
  };
  const char* const kFar =
      "the path is PHB, LOC is the limit (NCCL_NET_GDR_LEVEL=PHB would allow it)";
  // Where the adapter is is not known: only a limit that is set counts.
  const Run runs[] = {
      {"", "", "", ""},
      {"LOC", "", kFar, kFar},
      {"SYS", "", "", ""},
      {"", "0", "NCCL_NET_GDR_READ=0 forbids NICs from reading GPU memory", ""},
  };
  for (const Run& run : runs) {
    INFO("level " << run.level << " read " << run.read);
    char path[] = "/tmp/collctl-machine-XXXXXX";
    const base::Fd file(::mkstemp(path));
    REQUIRE(file);
    REQUIRE(base::write_file_atomically(path, machine_file()).ok());
    ::setenv("COLLCTL_TOPO_FILE", path, 1);
    ::setenv("FAKE_NVML", "2:90:0:hidden", 1);  // GPUs of a file count where they are there
    ::setenv("COLLCTL_NET_GDR_LEVEL", run.level, 1);
    ::setenv("COLLCTL_NET_GDR_READ", *run.read == 0 ? "-1" : run.read, 1);
    {
      const Adapters fabric("fake_0:ib:dmabuf");
      set_up_gpus(2);
      GpuJob job;
      job.options = over_ib();
      CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
              run_all(c, complaints, {1000});
              for (const LinkInfo& link : c.links()) {
                const std::string why = link.from == c.rank() ? run.sends : run.receives;
                const bool direct = link.via == "NET/IB/0/GDRDMA";
                if (direct != why.empty() || link.why.find(why) == std::string::npos ||
                    (!direct && link.why.find("staged in host memory: GPU/") != 0))
                  complaints.add(
                      format("{} -> {} via {}: {}", link.from, link.to, link.via, link.why));
              }
            }) == "");
    }
    for (const char* name :
         {"COLLCTL_TOPO_FILE", "COLLCTL_NET_GDR_LEVEL", "COLLCTL_NET_GDR_READ", "FAKE_NVML"})
      ::unsetenv(name);
    ::unlink(path);
  }
}

TEST_CASE("what adapters write into GPU memory is flushed where the GPU needs that", "[ib]") {
  // sm 86 does, sm 90 does not; unless it is told to.
  struct Run {
    int sm;
    const char* force;
    bool flushes;
  };
  for (const Run& run : {Run{86, "0", true}, Run{90, "0", false}, Run{90, "1", true}}) {
    INFO("sm " << run.sm << ", COLLCTL_NET_FORCE_FLUSH=" << run.force);
    const Adapters fabric("fake_0:ib:dmabuf");
    const base::ScopedVariable force("COLLCTL_NET_FORCE_FLUSH", run.force);
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = 2, .sm = run.sm});
    fake_verbs::clear_posted();
    GpuJob job;
    job.options = over_ib();
    job.options.proto = "simple";
    CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            // Adapters hold their writes back until a read, or for some milliseconds: without a
            // flush the GPU would see old bytes, so only the ways that flush are compared.
            const std::string wrong =
                run_case(c, stream, {.collective = Collective::all_reduce, .count = 50'000});
            if (run.flushes && !wrong.empty()) complaints.add(wrong);
          }) == "");
    CHECK((reads_posted() > 0) == run.flushes);
  }
}

TEST_CASE("without an adapter IB is refused with the reason, or sockets serve", "[ib]") {
  const Adapters fabric("fake_0:ib:down");
  const Root root = make_root();
  const auto ranks = all_ranks(2);
  auto made = Communicator::init_many(root.id, ranks, 2, over_ib());
  REQUIRE_FALSE(made);
  CHECK(made.error().code == ErrorCode::unavailable);
  CHECK(made.error().chain().find("fake_0:1 is DOWN") != std::string::npos);
  CommOptions any = over_ib();
  any.net = "";
  CHECK(with_ranks(2, any, [](Communicator& c, Complaints& complaints) {
          run_all(c, complaints, {1000});
          check_links(c, complaints, "NET/Socket/0");
        }) == "");
}

TEST_CASE("ranks that call an operation with different sizes are told both", "[ib]") {
  // NET/Socket: tests/unit/runtime/communicator/test_calls_differ.cc
  for (const char* proto : {"simple", "ll"}) {
    INFO(proto);
    const Adapters fabric("fake_0:ib");
    CommOptions options = over_ib();
    options.algo = "ring";
    options.proto = proto;
    options.channels = 1;
    options.op_timeout_s = 20;
    const Communicators job = start_job(2, options);
    std::vector<Error> errors(2);
    on_all(2, [&](int rank) {
      Stream stream(*job[size_t(rank)]);
      std::vector<float> data(rank == 0 ? 96 : 320, 1.0f);
      const Operation op{.collective = Collective::all_reduce,
                         .input = data.data(),
                         .output = data.data(),
                         .count = data.size()};
      const Status done = job[size_t(rank)]->start(op, stream, Communicator::Launch::blocking);
      if (!done) errors[size_t(rank)] = done.error();
    });
    // A ring of two cuts the elements in halves: 48 and 160 of 4 bytes.
    for (const Error& error : errors) {
      INFO(error.chain());
      CHECK(error.code == ErrorCode::lost);
      const std::string text = error.chain();
      CHECK(text.find("192") != std::string::npos);
      CHECK(text.find("640") != std::string::npos);
    }
  }
}

}  // namespace ib_ranks_tests
