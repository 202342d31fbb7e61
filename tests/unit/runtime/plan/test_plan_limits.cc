// Plans at their limits. Buffers beyond 32 bits, by every algorithm: every element is some
// channel's once, and nothing is cut off. The oracle knows intervals only: what channels (and
// rounds) take, sorted, must touch end to end from 0 to the end.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "kernels/algo/algorithms.h"
#include "runtime/plan/planner.h"
#include "tests/unit/runtime/gpu_job.h"

namespace plan_plan_limits_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::DataType;
using kernels::PairStep;
using kernels::Protocol;
using kernels::Work;

namespace {

// Sixteen ranks' blocks of 8 GiB are 128 GiB: they fit between these.
constexpr uint64_t kInput = uint64_t(1) << 40, kOutput = uint64_t(2) << 40;

struct Size {
  DataType type;
  uint64_t count;
};
// 2 GiB + 4 bytes and 8 GiB, in elements of 4 and of 1 byte; one more than 2^32 elements.
constexpr Size kSizes[] = {{DataType::float32, (uint64_t(2) << 30) / 4 + 1},
                           {DataType::int8, (uint64_t(2) << 30) + 4},
                           {DataType::float32, (uint64_t(8) << 30) / 4},
                           {DataType::int8, uint64_t(8) << 30},
                           {DataType::int8, (uint64_t(1) << 32) + 1}};

struct Interval {
  uint64_t from, to;
};
// Empty, or where they leave a gap, overlap or go beyond.
std::string why_not_whole(std::vector<Interval> list, uint64_t end) {
  std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.from < b.from; });
  uint64_t at = 0;
  for (const Interval& i : list) {
    if (i.from != at || i.to <= i.from) return format("[{}, {}) follows {}", i.from, i.to, at);
    at = i.to;
  }
  return at == end ? "" : format("ends at {} of {}", at, end);
}

Operation operation(Collective c, const Size& size) {
  Operation op;
  op.collective = c;
  op.input = reinterpret_cast<const void*>(kInput);
  op.output = reinterpret_cast<void*>(kOutput);
  op.count = size.count;
  op.type = size.type;
  return op;
}

uint64_t place(const void* pointer, uint64_t base, uint64_t element) {
  const uint64_t bytes = reinterpret_cast<uintptr_t>(pointer) - base;
  REQUIRE(bytes % element == 0);
  return bytes / element;
}

// The input that each peer gets and the output that it gives, in elements of the whole buffers.
struct Exchanged {
  std::map<int, std::vector<Interval>> sent, received;
};
Exchanged exchanged(const PlannedOp& op, uint64_t element) {
  Exchanged all;
  for (const Work& w : op.works)
    for (const PairStep* s = w.pairs; s != w.pairs + w.pair_count; ++s) {
      if (s->send_peer >= 0 && s->send_count > 0) {
        const uint64_t from = place(s->send, kInput, element);
        all.sent[s->send_peer].push_back({from, from + s->send_count});
      }
      if (s->recv_peer >= 0 && s->recv_count > 0) {
        const uint64_t from = place(s->recv, kOutput, element);
        all.received[s->recv_peer].push_back({from, from + s->recv_count});
      }
    }
  return all;
}

std::vector<Interval> moved_to_zero(std::vector<Interval> list, uint64_t by) {
  for (Interval& i : list) i = {i.from - by, i.to - by};
  return list;
}

void check_all_to_all(const PlannedOp& op, const CommShape& shape, const Size& size) {
  const Exchanged all = exchanged(op, kernels::element_size(size.type));
  REQUIRE(int(all.sent.size()) == shape.nranks);
  REQUIRE(int(all.received.size()) == shape.nranks);
  for (int peer = 0; peer < shape.nranks; ++peer) {
    const uint64_t block = uint64_t(peer) * size.count;
    CHECK(why_not_whole(moved_to_zero(all.sent.at(peer), block), size.count) == "");
    CHECK(why_not_whole(moved_to_zero(all.received.at(peer), block), size.count) == "");
  }
}

void check_plan(const PlannedOp& op, const CommShape& shape, const Size& size) {
  const uint64_t element = kernels::element_size(size.type);
  std::vector<Interval> parts;
  for (const Work& w : op.works) {
    CHECK(w.count == size.count);
    parts.push_back({w.part_offset, w.part_offset + w.part_count});
    CHECK(w.chunk_count > 0);
    CHECK(w.chunk_count % (16 / element) == 0);
    // No chunk is more than the slots of a fifo, or a window kernel's whole operation.
    const uint64_t slots =
        uint64_t(shape.slot_bytes[int(op.protocol)]) * uint64_t(shape.slot_count);
    const bool window = kernels::algorithm(op.algorithm).window;
    if (shape.nranks == 1) continue;  // nobody to send chunks to
    CHECK(w.chunk_count * element <= (op.by_window_kernel ? (size.count + 15) * element
                                      : window            ? shape.window_bytes
                                                          : slots));
  }
  CHECK(why_not_whole(parts, size.count) == "");
}

// Every combination that the shape allows; how many there were.
int check_everything(const CommShape& shape) {
  int checked = 0;
  for (const Size& size : kSizes)
    for (const Collective c :
         {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
          Collective::broadcast, Collective::reduce, Collective::all_to_all})
      for (int a = 0; a < kernels::kAlgorithmCount; ++a)
        for (int p = 0; p < kernels::kProtocolCount; ++p) {
          const char* algo = kernels::name_of(AlgorithmId(a));
          const char* proto = kernels::name_of(Protocol(p));
          const auto allowed = parse_choices(algo, proto, 0);
          REQUIRE(allowed);
          const Operation op = operation(c, size);
          const auto plan = make_plan({&op, 1}, shape, *allowed);
          if (!plan) continue;
          ++checked;
          INFO(kernels::name_of(c) << " by " << algo << "/" << proto << ", " << size.count << " x "
                                   << kernels::name_of(size.type) << ", rank " << shape.rank);
          const PlannedOp& planned = plan->ops.at(0);
          check_plan(planned, shape, size);
          if (shape.nranks > 1) {
            CHECK(planned.expected_us > double(size.count) / 1e6);  // 1000 GB/s is too much
          }
          if (c == Collective::all_to_all && planned.algorithm == AlgorithmId::pairwise)
            check_all_to_all(planned, shape, size);
        }
  return checked;
}

// Messages to the next rank and from the one before it.
void check_messages(const CommShape& shape) {
  const int next = (shape.rank + 1) % shape.nranks;
  const int before = (shape.rank + shape.nranks - 1) % shape.nranks;
  for (const Size& size : kSizes) {
    Operation send = operation(Collective::send_recv, size), receive = send;
    send.output = nullptr;
    send.peer = next;
    receive.input = nullptr;
    receive.peer = before;
    const Operation both[] = {send, receive};
    const auto plan = make_plan(both, shape, {});
    REQUIRE(plan);
    std::vector<Interval> sent, received;
    for (const PlannedOp& op : plan->ops) {
      const Exchanged all = exchanged(op, 1);  // messages are planned in bytes
      for (const Work& w : op.works) CHECK(kernels::element_size(w.type) == 1);
      for (const auto& [peer, list] : all.sent) {
        CHECK(peer == next);
        sent.insert(sent.end(), list.begin(), list.end());
      }
      for (const auto& [peer, list] : all.received) {
        CHECK(peer == before);
        received.insert(received.end(), list.begin(), list.end());
      }
    }
    const uint64_t bytes = size.count * kernels::element_size(size.type);
    CHECK(why_not_whole(sent, bytes) == "");
    CHECK(why_not_whole(received, bytes) == "");
  }
}

// As the communicator completes it: all paths passed, window kernels for everything.
CommShape complete(CommShape shape) {
  shape.gpu_window = shape.all_on_one_host;
  shape.window_serves = [](Collective, AlgorithmId, Protocol, DataType, RedOp, int nranks,
                           uint64_t) { return nranks > 1; };
  shape.ll128_passed = shape.slot_bytes[int(Protocol::ll128)] != 0;
  return shape;
}

GpuPlanJob full_job(int ranks) {
  GpuPlanJob job = gpu_job(ranks);
  job.settings.slot_bytes[0] = 512 << 10;
  job.settings.slot_bytes[1] = 64 << 10;
  job.settings.slot_bytes[2] = 600 << 10;
  return job;
}

}  // namespace

TEST_CASE("plans of GPU ranks are whole beyond 32 bits", "[gpu][huge]") {
  for (const int n : {1, 2, 3, 8, 16}) {  // 16: two hosts
    const auto shapes = full_job(n).shapes();
    for (const int rank : {0, n - 1}) {
      const CommShape shape = complete(shapes[size_t(rank)]);
      CHECK(check_everything(shape) >= 5 * 6);
      check_messages(shape);
    }
  }
}

TEST_CASE("plans of CPU ranks are whole beyond 32 bits", "[huge]") {
  for (const int n : {1, 2, 3, 8}) {
    std::vector<int32_t> host;
    for (int r = 0; r < n; ++r) host.push_back(r);
    for (const uint64_t window : {uint64_t(0), uint64_t(512) << 10}) {
      CommShape shape;
      shape.nranks = n;
      shape.rank = n - 1;
      shape.slot_bytes[0] = 128 << 10;
      shape.slot_bytes[1] = 16 << 10;
      shape.channels = make_channels({host}, shape.rank, 2, LocalTree::binary);
      shape.default_channels = 2;
      shape.pair_channels = 2;
      shape.tree_depth = 2;
      shape.window_bytes = window;
      shape.window_channels = window > 0 ? 2 : 0;
      CHECK(check_everything(shape) >= 5 * 6);
      check_messages(shape);
    }
  }
}

}  // namespace plan_plan_limits_tests
