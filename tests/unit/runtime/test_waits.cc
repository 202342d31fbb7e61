// What a communicator says of its waits: sums by peer, what it does now, and who came late.
#include <chrono>

#include "base/wait.h"
#include "tests/unit/runtime/ranks.h"

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Operation sum_of(std::vector<float>& buffer) {
  Operation op;
  op.collective = kernels::Collective::all_reduce;
  op.input = buffer.data();
  op.output = buffer.data();
  op.count = buffer.size();
  op.type = kernels::DataType::float32;
  op.op = kernels::RedOp::sum;
  return op;
}

uint64_t recv_ns(const WaitSums& sums, int peer) {
  for (const auto& one : sums.peers)
    if (one.peer == peer) return one.recv_ns;
  return 0;
}

}  // namespace

TEST_CASE("the others' waits are for the rank that comes late", "[waits]") {
  for (const char* algorithm : {"ring", "one-shot"}) {
    for (const char* transport : {"shm", "net"}) {
      const bool window = std::string_view(algorithm) == "one-shot";
      if (window && std::string_view(transport) == "net") continue;
      INFO(algorithm << " over " << transport);
      CommOptions options;
      options.algo = algorithm;
      options.transport = window ? "" : transport;
      options.count_waits = true;
      const Communicators ranks = start_job(3, options);
      Complaints complaints;
      Activity meanwhile;
      on_all(3, [&](int r) {
        Stream stream(*ranks[size_t(r)]);
        std::vector<float> buffer(1024, 1.0f);
        for (int i = 0; i < 3; ++i) {
          if (r == 2) base::sleep_until(Deadline::after_ms(60));
          if (r == 2 && i == 2) {
            base::sleep_until(Deadline::after_ms(60));
            meanwhile = ranks[0]->activity();
          }
          complaints.add(
              r, ranks[size_t(r)]->start(sum_of(buffer), stream, Communicator::Launch::blocking));
          complaints.add(r, stream.synchronize());
        }
      });
      CHECK(complaints.text().empty());
      // In a ring rank 0 has its data from 2, 1 from 0; in a window all look at all.
      CHECK(recv_ns(ranks[0]->wait_sums(), 2) > 100'000'000);
      CHECK(recv_ns(ranks[2]->wait_sums(), 1) < 100'000'000);
      CHECK(meanwhile.busy);
      CHECK(meanwhile.calls == 3);
      CHECK(meanwhile.last.find("allreduce of 4096 bytes") == 0);
      REQUIRE_FALSE(meanwhile.waits.empty());
      CHECK(meanwhile.waits[0].wait.peer == 2);
      CHECK(ranks[0]->activity().waits.empty());
      CHECK_FALSE(ranks[0]->activity().busy);
      on_all(3, [&](int r) {
        complaints.add(r, ranks[size_t(r)]->finalize(Deadline::after_seconds(10)));
      });
      CHECK(complaints.text().empty());
    }
  }
}

TEST_CASE("nothing is counted unless it is asked for", "[waits]") {
  const Communicators ranks = start_job(2, CommOptions{});
  Complaints complaints;
  on_all(2, [&](int r) {
    Stream stream(*ranks[size_t(r)]);
    std::vector<float> buffer(16, 1.0f);
    if (r == 1) base::sleep_until(Deadline::after_ms(30));
    complaints.add(r,
                   ranks[size_t(r)]->start(sum_of(buffer), stream, Communicator::Launch::blocking));
    complaints.add(r, ranks[size_t(r)]->finalize(Deadline::after_seconds(10)));
  });
  CHECK(complaints.text().empty());
  CHECK(ranks[0]->wait_sums().peers.empty());
}
