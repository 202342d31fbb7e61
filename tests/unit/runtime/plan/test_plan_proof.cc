// The planner's plans are proved, not only tried: the works of all ranks are recorded and
// interpreted, for several shapes of hosts, depths of fifos, sizes, algorithms and protocols.
#include <string>

#include "kernels/algo/algorithms.h"
#include "kernels/record/interpret.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/shape.h"
#include "tests/catch.h"
#include "tests/how_much.h"

namespace plan_plan_proof_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::Proof;
using kernels::Protocol;

namespace {

constexpr uint64_t kWindowBytes = 2048;

struct Job {
  int nranks = 4, ranks_per_host = 4, channels = 2;
  uint32_t slot_count = 8;
  double ranks_per_core = 1;
  LocalTree local = LocalTree::binary;

  CommShape shape(int rank) const {
    std::vector<uint64_t> hashes;
    for (int r = 0; r < nranks; ++r) hashes.push_back(uint64_t(r / ranks_per_host));
    const HostGroups hosts = group_by_host(hashes);
    CommShape s;
    s.rank = rank;
    s.nranks = nranks;
    s.channels = make_channels(hosts, rank, channels, local);
    s.slot_bytes[int(Protocol::simple)] = 256;
    s.slot_bytes[int(Protocol::ll)] = 128;
    s.slot_count = slot_count;
    s.all_on_one_host = nranks <= ranks_per_host;
    s.tree_depth = tree_depth(hosts, local);
    s.ranks_per_core = ranks_per_core;
    s.default_channels = channels;
    s.no_window = "the ranks are on several hosts";
    if (s.all_on_one_host && nranks > 1) {
      s.window_bytes = kWindowBytes;
      s.window_channels = channels;
    }
    return s;
  }
};

// Made-up addresses, far enough apart; nobody follows them.
const void* const kInput = reinterpret_cast<const void*>(uintptr_t{1} << 40);
void* const kOutput = reinterpret_cast<void*>(uintptr_t{2} << 40);

std::string title(const Job& job, const Operation& op, const kernels::Work& w) {
  return std::string(name_of(op.collective)) + " by " + name_of(w.algorithm) + "/" +
         name_of(w.protocol) + ", " + std::to_string(job.nranks) + " ranks, " +
         std::to_string(job.ranks_per_host) + " a host, " + std::to_string(job.slot_count) +
         " slots, " + std::to_string(op.count) + " of " + name_of(op.type) + ", chunks of " +
         std::to_string(w.chunk_count) + ": ";
}

// Plans the operations of every rank and proves each kind of work, Simple and LL apart.
template <class OperationsOf>
int prove(const Job& job, const Choices& choices, OperationsOf operations_of) {
  std::vector<Plan> plans;
  for (int rank = 0; rank < job.nranks; ++rank) {
    const std::vector<Operation> operations = operations_of(rank);
    auto plan = make_plan(operations, job.shape(rank), choices);
    if (!plan) return 0;  // refused: nothing to prove; the planner's own tests say why and when
    plans.push_back(std::move(*plan));
  }
  int proved = 0;
  for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
    std::vector<kernels::Schedule> schedules;
    for (const Plan& plan : plans)
      for (const PlannedOp& op : plan.ops)
        for (const kernels::Work& w : op.works)
          if (w.protocol == protocol) {
            auto schedule = kernels::record(w);
            REQUIRE(schedule);
            schedules.push_back(std::move(*schedule));
          }
    if (schedules.empty()) continue;
    const Proof proof =
        kernels::interpret(schedules, {.slot_count = job.slot_count,
                                       .slot_data_bytes = slot_data_bytes(job.shape(0), protocol),
                                       .window_bytes = kWindowBytes});
    if (proof.outcome != Proof::Outcome::proved)
      FAIL(title(job, operations_of(0).front(), schedules[0].work) << proof.what);
    ++proved;
  }
  return proved;
}

std::vector<Job> jobs() {
  std::vector<Job> list;
  for (int n : {1, 2, 3, 4, 7, 8, 13, 24})
    for (int per_host : {n, 2, 3})
      for (uint32_t slots : {2u, 3u, 8u})
        for (double crowd : {1.0, 4.0}) {
          Job job{.nranks = n, .ranks_per_host = per_host, .slot_count = slots};
          job.channels = n % 3 + 1;
          job.ranks_per_core = crowd;
          job.local = per_host == 3 ? LocalTree::chain : LocalTree::binary;
          list.push_back(job);
        }
  return list;
}

Choices choices(const char* algo, const char* proto) {
  auto parsed = parse_choices(algo, proto, 0);
  REQUIRE(parsed);
  return *parsed;
}

Operation operation(Collective c, uint64_t count, DataType type, int root) {
  Operation op;
  op.collective = c;
  op.input = kInput;
  op.output = kOutput;
  op.count = count;
  op.type = type;
  op.root = root;
  return op;
}

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::all_gather,
                                       Collective::reduce_scatter, Collective::broadcast,
                                       Collective::reduce,         Collective::gather,
                                       Collective::scatter,        Collective::all_to_all};

}  // namespace

TEST_CASE("every planned collective is proved", "[planner][proof]") {
  test::Part part(test::Sweep::plan_proofs);
  int proved = 0;
  for (const Job& job : jobs())
    for (const auto& row : kernels::algorithms())
      for (const char* proto : {"simple", "ll"})
        for (Collective c : kCollectives) {
          if (!serves(row, c) || row.network) continue;
          for (const uint64_t count : {1, 333, 2500}) {
            if (!part.takes({job.nranks, int(&row - kernels::algorithms().data()), *proto, int(c)}))
              continue;
            const DataType type = count == 333 ? DataType::int8 : DataType::float32;
            const Operation op = operation(c, count, type, job.nranks / 2);
            proved += prove(job, choices(row.name, proto),
                            [&](int) { return std::vector<Operation>{op}; });
          }
        }
  CHECK(proved > 5000 / test::how_much(test::Sweep::plan_proofs));
}

TEST_CASE("a plan with the cuts of another type is proved", "[planner][proof]") {
  // Diagnosis: int64 in the chunks that int8 would have had, eight times the bytes.
  test::Part part(test::Sweep::plan_cuts);
  int proved = 0;
  for (const Job& job : jobs()) {
    if (!part.takes()) continue;
    for (const auto& row : kernels::algorithms())
      for (Collective c : kCollectives) {
        if (!serves(row, c) || row.network) continue;
        Operation op = operation(c, 700, DataType::int64, 0);
        op.chunk_elements = 256;
        proved += prove(job, choices(row.name, "simple"),
                        [&](int) { return std::vector<Operation>{op}; });
      }
  }
  CHECK(proved > 800 / test::how_much(test::Sweep::plan_cuts));
}

TEST_CASE("planned messages of many sizes at once are proved", "[planner][proof]") {
  test::Part part(test::Sweep::plan_messages);
  int proved = 0, planned = 0;
  for (const Job& job : jobs()) {
    if (!part.takes({job.nranks, job.ranks_per_host, int(job.slot_count)})) continue;
    ++planned;
    const uint64_t n = uint64_t(job.nranks);
    // Everybody to everybody, sizes from nothing to beyond what LL takes.
    const auto size = [&](uint64_t from, uint64_t to) { return (from * 5 + to * 3) % 7 * 600; };
    const uint64_t room = 1 << 20;
    proved += prove(job, choices("", ""), [&](int rank) {
      std::vector<Operation> list;
      const uint64_t me = uint64_t(rank);
      for (uint64_t peer = 0; peer < n; ++peer) {
        Operation send = operation(Collective::send_recv, size(me, peer), DataType::float32, 0);
        send.input = static_cast<const char*>(kInput) + peer * room;
        send.output = nullptr;
        send.peer = int(peer);
        Operation receive = send;
        receive.count = size(peer, me);
        receive.input = nullptr;
        receive.output = static_cast<char*>(kOutput) + peer * room;
        list.push_back(send);
        list.push_back(receive);
      }
      return list;
    });
  }
  CHECK(proved >= planned);
}

}  // namespace plan_plan_proof_tests
