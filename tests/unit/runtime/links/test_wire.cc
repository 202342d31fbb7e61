// Ranks that set out to connect different channels: both hear it, and neither waits.
#include "runtime/links/wire.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace links_wire_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// The result of each of two ranks that connects its own edges. They share a process and so need
// nothing but memory.
std::vector<Status> connect(const std::vector<std::vector<Edge>>& edges) {
  std::vector<transport::PeerInfo> peers(2);
  for (int rank = 0; rank < 2; ++rank) {
    peers[size_t(rank)].rank = rank;
    peers[size_t(rank)].pid = 1;
    peers[size_t(rank)].host_hash = peers[size_t(rank)].machine_hash = 7;
    peers[size_t(rank)].process_hash = 7;
    peers[size_t(rank)].bus_id = -1;
  }
  Settings settings;
  settings.slot_bytes[int(kernels::Protocol::simple)] = 4096;
  settings.slot_count = 4;
  const Job job({});
  return job.run([&](Bootstrap& bootstrap) -> Status {
    Wire::Options options;
    options.rank = bootstrap.rank();
    options.peers = &peers;
    options.settings = &settings;
    options.bootstrap = &bootstrap;
    Wire wire(std::move(options));
    Status connected = wire.connect(edges[size_t(bootstrap.rank())], 1, soon());
    // Data the other may still take stays until both have come to their end, and said goodbye.
    COLL_TRY(bootstrap.finish(soon()));
    return connected;
  });
}

void check_differ(const std::vector<std::vector<Edge>>& edges) {
  const auto outcomes = connect(edges);
  for (size_t rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank << ": "
                 << (outcomes[rank] ? "connected" : outcomes[rank].error().chain()));
    REQUIRE_FALSE(outcomes[rank]);
    CHECK(outcomes[rank].error().code == ErrorCode::lost);
    CHECK(says(outcomes[rank].error(), "try to connect different channels"));
    CHECK(outcomes[rank].error().rank == int(1 - rank));
  }
}

}  // namespace

TEST_CASE("ranks that connect the same channels are connected", "[wire]") {
  require_all_ok(connect({{{0, 0, 1}, {0, 1, 0}, {1, 0, 1}}, {{1, 0, 1}, {0, 1, 0}, {0, 0, 1}}}));
}

TEST_CASE("ranks that connect different channels are both told", "[wire]") {
  check_differ({{{0, 0, 1}}, {{1, 0, 1}}});             // another channel
  check_differ({{{0, 0, 1}}, {{0, 1, 0}}});             // the other direction
  check_differ({{{0, 0, 1}}, {{0, 0, 1}, {1, 0, 1}}});  // more
}

}  // namespace links_wire_tests
