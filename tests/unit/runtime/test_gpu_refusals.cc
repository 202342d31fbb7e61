// Calls the driver refuses once: collectives, messages, graphs by each way; one-sided operations.
#include "base/env.h"
#include "tests/unit/runtime/driver_refusals.h"

namespace gpu_refusals_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr size_t kCount = 5000;

// Two streams, messages that need links of their own, a graph.
Status work(Communicator& c, std::vector<float>& in, std::vector<float>& out, bool& begun) {
  const int n = c.size(), me = c.rank();
  Stream one(c), two(c);
  const auto sum = [&](Stream& stream, size_t count) {
    return c.start({.collective = Collective::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = count},
                   stream);
  };
  COLL_TRY(sum(one, 1000));
  COLL_TRY(one.synchronize());
  begun = true;
  COLL_TRY(expect_all(out, 1000, float(n)));
  COLL_TRY(sum(one, kCount));
  COLL_TRY(sum(two, 100));
  COLL_TRY(two.synchronize());
  COLL_TRY(expect_all(out, kCount, float(n)));
  {
    Group group;
    COLL_TRY(c.start({.collective = Collective::send_recv,
                      .input = in.data(),
                      .count = 777,
                      .peer = (me + 1) % n},
                     one));
    COLL_TRY(c.start({.collective = Collective::send_recv,
                      .output = out.data(),
                      .count = 777,
                      .peer = (me + n - 1) % n},
                     one));
    COLL_TRY(group.end());
  }
  COLL_TRY(one.synchronize());
  COLL_TRY(expect_all(out, 777, 1.f));
  COLL_TRY(one.capture_begin());
  COLL_TRY(sum(one, 3000));
  COLL_ASSIGN(const auto graph, one.capture_end());
  COLL_TRY(one.replay(graph));
  COLL_TRY(two.replay(graph));
  COLL_TRY(two.synchronize());
  COLL_TRY(expect_all(out, 3000, float(n)));
  COLL_TRY(c.start({.collective = Collective::barrier}, one, Communicator::Launch::blocking));
  return c.finalize(Deadline::after_seconds(60));
}

void refuse(const std::string& transport, int positions, test::Part* part) {
  CommOptions options;
  options.transport = transport;
  if (transport.empty()) options.algo = "two-shot,ring,pairwise";
  refuse_each(
      "collectives by " + transport, cuda_driver(2), positions,
      [&] {
        // These outlive the communicators.
        std::vector<float> in[2], out[2];
        for (auto& each : in) each.assign(kCount, 1.f);
        for (auto& each : out) each.resize(kCount);
        return ends_of_job(2, options, [&](Communicator& c, bool& begun) {
          const auto r = size_t(c.rank());
          return work(c, in[r], out[r], begun);
        });
      },
      part);
}

void refuse_one_sided(int positions, test::Part* part) {
  for (const char* apart : {"0", "1"}) {
    const base::ScopedVariable variable("COLLCTL_P2P_DISABLE", apart);
    Refusable driver = cuda_driver(2);
    driver.words.push_back("cannot share memory by descriptors");  // what it does not know it has
    refuse_each(
        std::string("one-sided, P2P_DISABLE=") + apart, driver, positions,
        [] { return ends_of_one_sided_job(2, {}); }, part);
  }
}

}  // namespace

TEST_CASE("what the driver refuses once ends GPU ranks in order or is gone round",
          "[gpu][faults]") {
  test::Part part(test::Sweep::refused_calls);
  for (const char* transport : {"", "p2p", "shm", "net"}) refuse(transport, 1, &part);
}

TEST_CASE("what the driver refuses once ends one-sided operations in order or is gone round",
          "[gpu][one_sided][faults]") {
  test::Part part(test::Sweep::refused_calls);
  refuse_one_sided(1, &part);
}

TEST_CASE("the same at every call", "[.][refusals]") {
  for (const char* transport : {"", "p2p", "shm", "net"}) refuse(transport, 1 << 20, nullptr);
  refuse_one_sided(1 << 20, nullptr);
}

}  // namespace gpu_refusals_tests
