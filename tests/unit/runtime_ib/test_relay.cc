// PXN: a GPU far from the network device sends through one that is next to it. Two hosts of two
// GPUs each, joined by NVLink, and an adapter beside the first of each host.
#include <set>

#include "base/wait.h"
#include "tests/unit/runtime_ib/relay_machine.h"

namespace relay_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// By rank: its links between hosts that are relayed, "1 -> 2 via PXN by 0". (Those of trees, which
// are not, are there for the test of LL128's lines.)
std::string network_links(const Communicator& c) {
  std::set<std::string> links;
  for (const LinkInfo& link : c.links())
    if ((link.from < 2) != (link.to < 2) && link.relay >= 0)
      links.insert(format("{} -> {} via {} on {} by {}", link.from, link.to, link.via, link.nic,
                          link.relay));
  std::string all;
  for (const std::string& link : links) all += (all.empty() ? "" : "; ") + link;
  return all;
}

// Ring 0 -> 1 -> 2 -> 3: what ranks 1 and 3 send leaves by ranks 0 and 2.
std::string relayed_links_of(int rank, const std::string& via) {
  const std::string sent = format("via {} on fake_0 by ", via);
  switch (rank) {
    case 1:
      return "1 -> 2 via PXN on fake_0 by 0";
    case 3:
      return "3 -> 0 via PXN on fake_0 by 2";
    default:
      return "1 -> 2 " + sent + "0; 3 -> 0 " + sent + "2";
  }
}

void check_links(const Communicator& c, Complaints& complaints, const std::string& expected) {
  const std::string found = network_links(c);
  if (found != expected) complaints.add(format("rank {}: {}", c.rank(), found));
}

void run_all(Communicator& c, Complaints& complaints) {
  Stream stream(c);
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::broadcast, Collective::reduce, Collective::all_to_all})
    for (const uint64_t count : {0, 1, 7, 1000, 100'003})
      for (const int root : {0, 1}) {
        if (root != 0 && !kernels::has_root(collective)) continue;
        const std::string wrong =
            run_case(c, stream, {.collective = collective, .count = count, .root = root});
        if (!wrong.empty()) return complaints.add(wrong);
      }
}

constexpr const char* kOverIb = "NET/IB/0/GDRDMA";

}  // namespace

TEST_CASE("a GPU far from the adapter sends through the one next to it", "[.][ib][relay]") {
  for (const char* net : {"ib", "socket"})
    for (const char* proto : {"", "ll", "simple"}) {
      INFO(net << " " << proto);
      const Adapters fabric("fake_0:ib:dmabuf");
      const Machine machine;
      set_up_gpus(kRanks);
      GpuJob job = two_hosts(net);
      job.options.proto = proto;
      const bool ib = std::string(net) == "ib";
      CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
              if (ib) check_links(c, complaints, relayed_links_of(c.rank(), kOverIb));
              run_all(c, complaints);
              int relayed = 0;
              for (const LinkInfo& link : c.links()) relayed += link.relay >= 0 ? 1 : 0;
              if (relayed == 0) complaints.add("no relay");
            }) == "");
    }
}

TEST_CASE("ranks as processes relay for each other", "[ib][relay]") {
  for (const bool fds : {true, false}) {  // memory travels as a descriptor, or by name
    INFO(fds);
    const Adapters fabric("fake_0:ib:dmabuf");
    const Machine machine;
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = kRanks, .fd_handles = fds});
    CHECK(in_processes(two_hosts("ib"), [](Communicator& c, Complaints& complaints) {
            check_links(c, complaints, relayed_links_of(c.rank(), kOverIb));
            run_all(c, complaints);
          }) == "");
  }
}

TEST_CASE("a relay that is idle is woken", "[ib][relay]") {
  // In a broadcast rank 0, the root, is done long before rank 1 has something for it to send.
  const Adapters fabric("fake_0:ib:dmabuf");
  const Machine machine;
  set_up_gpus(kRanks);
  GpuJob job = two_hosts("ib");
  job.options.algo = "ring";
  job.options.proto = "simple";
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          // time is what is tested: a relay that has been idle for a while
          if (c.rank() == 1) base::sleep_until(Deadline::after_ms(1000));
          const int64_t start = now_ns();
          const std::string wrong =
              run_case(c, stream, {.collective = Collective::broadcast, .count = 1000});
          if (!wrong.empty()) complaints.add(wrong);
          // It sleeps for 10 s; the others begin a second before rank 1.
          if (const double s = base::seconds_since(start); s > (c.rank() == 1 ? 7 : 8))
            complaints.add(format("rank {} took {:.1f} s", c.rank(), s));
        }) == "");
}

TEST_CASE("without a relay the data goes its own way, and the reason is told", "[.][ib][relay]") {
  const Adapters fabric("fake_0:ib:dmabuf");
  const Machine machine;
  struct Way {
    const char *knob, *value, *peers;
  };
  // Forbidden; no P2P by the rules; by the driver, though the rules would have it.
  for (const Way& way : {Way{"COLLCTL_PXN_DISABLE", "1", ""}, Way{"COLLCTL_P2P_LEVEL", "LOC", ""},
                         Way{"COLLCTL_PXN_DISABLE", "0", "0-1,2-3"}}) {
    INFO(way.knob << "=" << way.value << " " << way.peers);
    const base::ScopedVariable knob(way.knob, way.value);
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = kRanks, .peers = way.peers});
    CHECK(with_gpu_ranks(two_hosts("ib"), [&](Communicator& c, Complaints& complaints) {
            run_all(c, complaints);
            for (const LinkInfo& link : c.links()) {
              if (link.relay >= 0) complaints.add("a relay");
              if (link.from == c.rank() && c.rank() == 1 && link.to == 2 && link.why.empty())
                complaints.add("no reason");
            }
          }) == "");
  }
}

TEST_CASE("a relay that dies is lost, and named", "[ib][relay][faults]") {
  // Objects that a killed process held are not given back.
  REQUIRE(fake_verbs::set_up({.devices = "fake_0:ib:dmabuf"}) == "");
  fake_verbs::clear_faults();  // makes the world that the processes share
  const Machine machine;
  set_up_gpus(kRanks);
  GpuJob job = two_hosts("ib");
  job.options.algo = "ring";
  const base::ScopedVariable dies("COLLCTL_FAULT", "exit:rank=0:channel=0:step=1");
  const std::string found = in_processes(
      job,
      [](Communicator& c, Complaints& complaints) {
        Stream stream(c);
        for (int i = 0; i < 2; ++i) {
          static_cast<void>(
              run_case(c, stream, {.collective = Collective::all_reduce, .count = 50'000}));
          if (i == 0) static_cast<void>(c.barrier(Deadline::after_seconds(60)));
        }
        const Status status = c.async_error();
        if (status) return complaints.add("did not hear of it");
        if (status.error().code != ErrorCode::lost || status.error().rank != 0)
          complaints.add(format("rank {}: {}", c.rank(), status.error().chain()));
      },
      0);
  CHECK(found == "");
}

TEST_CASE("who stalls is waited for, not who relays", "[ib][relay][faults]") {
  for (const int stalls : {1, 0}) {
    INFO("rank " << stalls);
    const Adapters fabric("fake_0:ib:dmabuf");
    const Machine machine;
    set_up_gpus(kRanks);
    GpuJob job = two_hosts("ib");
    job.options.algo = "ring";
    job.options.channels = 1;
    job.options.op_timeout_s = 2;
    const std::string fault = format("stall:rank={}", stalls);
    const base::ScopedVariable stall("COLLCTL_FAULT", fault.c_str());
    const Communicators ranks = start_gpu_job(job);
    std::vector<std::string> said(kRanks);
    on_all(kRanks, [&](int r) {
      Stream stream(*ranks[size_t(r)]);
      static_cast<void>(run_case(*ranks[size_t(r)], stream,
                                 {.collective = Collective::all_reduce, .count = 1000}));
      if (const Status status = ranks[size_t(r)]->async_error(); !status)
        said[size_t(r)] = status.error().chain();
    });
    for (const std::string& text : said) {
      CAPTURE(text);
      CHECK(text.find("waits for data from rank") != std::string::npos);
      for (const int r : {0, 2})  // the relays, of each other
        CHECK(text.find(format("rank {} waits for data from rank {}", r, 2 - r)) ==
              std::string::npos);
    }
  }
}

}  // namespace relay_tests
