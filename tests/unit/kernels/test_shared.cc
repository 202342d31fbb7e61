// Works whose buffers all ranks share: the law of the text (who touches what between which
// arrivals) for 2..64 ranks, and the CPU backend: every collective, type and operation, ranks that
// do different things, injected faults.
#include <algorithm>
#include <map>

#include "kernels/algo/dispatch.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"

namespace shared_tests {

using namespace cpu_tests;

namespace {

constexpr Collective kServed[] = {Collective::all_reduce,     Collective::all_gather,
                                  Collective::reduce_scatter, Collective::broadcast,
                                  Collective::reduce,         Collective::gather,
                                  Collective::scatter,        Collective::all_to_all};

AlgorithmId named(Collective c) {
  return c == Collective::all_reduce ? AlgorithmId::two_shot : AlgorithmId::one_shot;
}

// --- the text ---

// Elements are known by numbers: rank r's input begins at r x kApart, its output half of that
// behind, or where its in-place form has it. An element of the input holds (rank, place).
constexpr uint64_t kApart = 1 << 20;
using Held = std::vector<std::pair<int, uint64_t>>;  // in the order of ranks

struct Layout {
  Collective collective;
  int nranks;
  uint64_t count;
  bool in_place;
  uint64_t output(int r) const {
    const bool inside =
        in_place && (collective == Collective::reduce_scatter || collective == Collective::scatter);
    return uint64_t(r) * kApart + (in_place ? 0 : kApart / 2) + (inside ? uint64_t(r) * count : 0);
  }
  uint64_t input(int r) const {
    const bool inside =
        in_place && (collective == Collective::all_gather || collective == Collective::gather);
    return uint64_t(r) * kApart + (inside ? uint64_t(r) * count : 0);
  }
};

struct Touch {
  uint64_t begin, end;
  int rank, epoch;
  bool writes;
};

// A backend that writes down what each rank touches and where elements come from.
class Trace {
 public:
  static constexpr bool kShared = true;
  explicit Trace(const Layout& layout) : l_(layout) {}

  int rank = 0;
  std::vector<Touch> touches;
  std::map<uint64_t, Held> written;
  std::string wrong;

  bool failed() const { return false; }
  void copy(const void*, void*, uint64_t) { wrong = "copies besides"; }
  template <class Body>
  void shared(Body body) {
    epoch_ = 0;
    body(*this);
    if (epoch_ != 2) wrong = "arrives " + std::to_string(epoch_) + " times";
  }
  // The rest of the text's branches are not taken.
  template <int, int, class Body>
  void block(const BlockSpec&, Body) {}
  template <class Up, class Down>
  void split(Up, Down) {}

  void arrive_and_wait() { ++epoch_; }
  void reduce(int to, uint64_t in, uint64_t out, uint64_t n, bool post) {
    if (!post) wrong = "a sum that is not final";
    for (int r = 0; r < l_.nranks && n > 0; ++r) touch(l_.input(r) + in, n, false);
    for (uint64_t i = 0; i < n; ++i) {
      Held sum;
      for (int r = 0; r < l_.nranks; ++r) sum.emplace_back(r, in + i);
      put(to, out + i, sum);
    }
    if (n > 0) touch_outputs(to, out, n);
  }
  void copy(int from, uint64_t in, int to, uint64_t out, uint64_t n) {
    if (from != rank && to != rank) wrong = "moves what is others'";
    if (n == 0) return;
    if (to >= 0 && l_.input(from) + in == l_.output(to) + out) {
      for (uint64_t i = 0; i < n; ++i) put(to, out + i, {{from, in + i}});
      return;  // onto itself
    }
    touch(l_.input(from) + in, n, false);
    for (uint64_t i = 0; i < n; ++i) put(to, out + i, {{from, in + i}});
    touch_outputs(to, out, n, l_.input(from) + in);
  }

 private:
  void touch(uint64_t begin, uint64_t n, bool writes) {
    touches.push_back({begin, begin + n, rank, epoch_, writes});
  }
  void touch_outputs(int to, uint64_t out, uint64_t n, uint64_t not_here = ~uint64_t{0}) {
    for (int r = to < 0 ? 0 : to; r < (to < 0 ? l_.nranks : to + 1); ++r)
      if (l_.output(r) + out != not_here) touch(l_.output(r) + out, n, true);
  }
  void put(int to, uint64_t out, const Held& held) {
    for (int r = to < 0 ? 0 : to; r < (to < 0 ? l_.nranks : to + 1); ++r)
      if (!written.emplace(l_.output(r) + out, held).second) wrong = "an element comes twice";
  }
  const Layout l_;
  int epoch_ = 0;
};

// The required element i of rank r's output; nothing where the operation leaves it alone.
Held wanted(const Layout& l, int root, int r, uint64_t i) {
  Held sum;
  const uint64_t own = uint64_t(r) * l.count, block = i / l.count, inside = i % l.count;
  switch (l.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return {{int(block), inside}};
    case Collective::all_to_all:
      return {{int(block), own + inside}};
    case Collective::broadcast:
      return {{root, i}};
    case Collective::scatter:
      return {{root, own + i}};
    default:
      for (int from = 0; from < l.nranks; ++from)
        sum.emplace_back(from, i + (l.collective == Collective::reduce_scatter ? own : 0));
      return sum;
  }
}

std::string obeys(const Layout& l, int root, int channels) {
  Trace trace(l);
  const uint64_t share = ((l.count + uint64_t(channels) - 1) / uint64_t(channels) + 3) / 4 * 4;
  for (int channel = 0; channel < channels; ++channel)
    for (int r = 0; r < l.nranks; ++r) {
      Work w{};
      w.count = l.count;
      w.part_offset = std::min(l.count, share * uint64_t(channel));
      w.part_count = std::min(share, l.count - w.part_offset);
      w.type = DataType::float32;
      w.rank = trace.rank = r;
      w.nranks = l.nranks;
      w.root = root;
      w.collective = l.collective;
      run_symmetric(trace, w);
    }
  if (!trace.wrong.empty()) return trace.wrong;
  // Everything lies between the two arrivals; of what one rank writes, no other touches anything.
  std::sort(trace.touches.begin(), trace.touches.end(),
            [](const Touch& a, const Touch& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < trace.touches.size(); ++i) {
    const Touch& a = trace.touches[i];
    if (a.epoch != 1) return "touches others' buffers before or after all are there";
    for (size_t j = i + 1; j < trace.touches.size() && trace.touches[j].begin < a.end; ++j) {
      const Touch& b = trace.touches[j];
      if (a.rank != b.rank && (a.writes || b.writes))
        return "ranks " + std::to_string(a.rank) + " and " + std::to_string(b.rank) + " race";
    }
  }
  const bool wide = l.collective == Collective::all_gather || l.collective == Collective::gather ||
                    l.collective == Collective::all_to_all;
  const bool rooted = l.collective == Collective::gather || l.collective == Collective::reduce;
  size_t due = 0;
  for (int r = 0; r < l.nranks; ++r) {
    if (rooted && r != root) continue;
    const uint64_t elements = l.count * (wide ? uint64_t(l.nranks) : 1);
    due += elements;
    for (uint64_t i = 0; i < elements; ++i) {
      const auto found = trace.written.find(l.output(r) + i);
      if (found == trace.written.end() || found->second != wanted(l, root, r, i))
        return "element " + std::to_string(i) + " of rank " + std::to_string(r);
    }
  }
  return due == trace.written.size() ? "" : "writes more than it should";
}

// --- the CPU backend ---

// All ranks are threads of this process, so that a buffer's place is its address.
constexpr uintptr_t kFirstAddress = 64;
const FlatRange kProcess{reinterpret_cast<uint8_t*>(kFirstAddress), 0};

Work shared(Work w) {
  w.mark = kSharedMark;
  return w;
}

std::vector<Case> cases_of(int nranks) {
  std::vector<Case> cases;
  const uint64_t counts[] = {0, 1, 5, 130, 1003, 9001};
  int turn = 0;
  for (const Collective collective : kServed)
    for (int type = 0; type < kDataTypeCount; ++type)
      for (int op = 0; op < kRedOpCount; ++op) {
        const bool reduces = collective == Collective::all_reduce ||
                             collective == Collective::reduce ||
                             collective == Collective::reduce_scatter;
        if (!reduces && op > 0) continue;
        const bool thorough = DataType(type) == DataType::float32 && op == 0;
        for (int k = 0; k < (thorough ? 12 : 1); ++k, ++turn) {
          if (nranks > 2 && turn % 3 != 0) continue;
          Case c{named(collective), collective, DataType(type), RedOp(op)};
          c.count = counts[thorough ? k % 6 : 2 + turn % 3];
          c.root = turn % nranks;
          c.in_place = thorough ? k >= 6 : turn % 3 == 1;
          c.misalign = turn % 4 == 0 ? size_t(turn % 11) : 0;
          cases.push_back(c);
        }
      }
  return cases;
}

struct Told {
  bool done = false;
  Report report{};
};

std::vector<Told> run_each(int n, const std::function<Work(int, std::vector<float>&)>& work_of,
                           Fault fault = {},
                           const std::function<void(int, const std::vector<float>&)>& after = {}) {
  FifoFixture fixture({.nranks = n});
  std::vector<Told> told(static_cast<size_t>(n));
  std::vector<std::vector<float>> memory(size_t(n), std::vector<float>(4096, 1));
  fixture.run_all([&](int rank) {
    CpuContext context = fixture.context();
    context.flat = &kProcess;
    context.fault = fault;
    context.op_timeout_ns = 60'000'000'000;  // nobody waits so long
    const Work w = work_of(rank, memory[size_t(rank)]);
    told[size_t(rank)].done = run_work(w, fixture.links(rank), context);
    told[size_t(rank)].report = context.report;
    if (!told[size_t(rank)].done) fixture.abort();
  });
  for (int r = 0; r < n && after; ++r) after(r, memory[size_t(r)]);
  return told;
}

Work all_reduce(int rank, int n, std::vector<float>& memory, uint64_t count) {
  Work w{};
  w.input = memory.data();
  w.output = memory.data() + 2048;
  w.count = w.part_count = count;
  w.chunk_count = 16;
  w.rank = rank;
  w.nranks = n;
  w.collective = Collective::all_reduce;
  w.algorithm = AlgorithmId::two_shot;
  w.type = DataType::float32;
  return shared(w);
}

}  // namespace

TEST_CASE("shared buffers: nobody races, everything comes once, n = 2..64", "[shared]") {
  for (const Collective collective : kServed)
    for (const int n : {2, 3, 4, 5, 7, 8, 17, 64})
      for (const uint64_t count :
           n < 9 ? std::vector<uint64_t>{1, 3, 16, 67} : std::vector<uint64_t>{21})
        for (const bool in_place : {false, true})
          for (const int channels : {1, 3}) {
            if (in_place && collective == Collective::all_to_all) continue;
            const Layout layout{collective, n, count, in_place};
            INFO(name_of(collective) << " n=" << n << " count=" << count << " in place " << in_place
                                     << " channels " << channels);
            REQUIRE(obeys(layout, n * 5 / 7, channels) == "");
          }
}

TEST_CASE("shared buffers: every collective, type and operation on the CPU", "[shared]") {
  for (const int n : {2, 5}) {
    FifoFixture fixture({.nranks = n});
    std::vector<std::string> wrong(static_cast<size_t>(n));
    const auto cases = cases_of(n);
    fixture.run_all([&](int rank) {
      CpuContext context = fixture.context();
      context.flat = &kProcess;
      for (const Case& c : cases) {
        Operation operation(c, rank, n);
        // The buffers of a case go with it: not before all others are done with them, which is
        // what the last arrival means.
        if (!run_work(shared(operation.work()), fixture.links(rank), context) ||
            wrong[size_t(rank)].empty())
          wrong[size_t(rank)] += operation.check();
      }
    });
    for (const std::string& text : wrong) CHECK(text == "");
  }
}

TEST_CASE("shared buffers: what the caches do not hold, at odd addresses", "[shared]") {
  // 6.4 MB are stored past the caches, in place and not.
  for (const bool in_place : {false, true}) {
    FifoFixture fixture({.nranks = 2});
    std::string wrong[2];
    fixture.run_all([&](int rank) {
      CpuContext context = fixture.context();
      context.flat = &kProcess;
      Case c{AlgorithmId::two_shot, Collective::all_reduce, DataType::float32, RedOp::sum};
      c.count = 1'600'003;
      c.in_place = in_place;
      c.misalign = rank == 0 ? 4 : 17;
      Operation operation(c, rank, 2);
      if (!run_work(shared(operation.work()), fixture.links(rank), context))
        wrong[rank] = "aborted";
      else
        wrong[rank] = operation.check();
    });
    CHECK(wrong[0] == "");
    CHECK(wrong[1] == "");
  }
}

TEST_CASE("shared buffers: ranks that do different things are told", "[shared]") {
  // Another size: both sizes.
  auto told = run_each(3, [](int rank, std::vector<float>& memory) {
    return all_reduce(rank, 3, memory, rank == 2 ? 50 : 100);
  });
  int told_first = 0;
  for (int r = 0; r < 3; ++r) {
    REQUIRE_FALSE(told[size_t(r)].done);
    const Report& report = told[size_t(r)].report;
    if (report.code == ReportCode::aborted) continue;  // another was first
    ++told_first;
    CHECK(report.code == ReportCode::wrong_size);
    CHECK(report.wanted == (r == 2 ? 200 : 400));
    CHECK(report.seen == (r == 2 ? 400 : 200));
    if (r != 2) CHECK(report.peer == 2);
  }
  CHECK(told_first > 0);
  // Another reduction; buffers that are not shared.
  for (const bool banks : {false, true}) {
    told = run_each(2, [&](int rank, std::vector<float>& memory) {
      Work w = all_reduce(rank, 2, memory, 100);
      if (rank == 1 && banks) w.mark = 0;
      if (rank == 1 && !banks) w.op = RedOp::max;
      return w;
    });
    bool said = false;
    for (const Told& t : told) {
      CHECK_FALSE(t.done);
      said = said || t.report.code == ReportCode::bad_data;
      CHECK((t.report.code == ReportCode::bad_data || t.report.code == ReportCode::aborted));
    }
    CHECK(said);
  }
}

TEST_CASE("shared buffers: injected faults change the sum", "[shared]") {
  // Two ranks of ones: each sums its half of 64 elements. Rank 1's half goes wrong on both.
  const std::pair<FaultKind, float> kinds[] = {
      {FaultKind::missing, 1.0f}, {FaultKind::doubled, 3.0f}, {FaultKind::corrupt, 2.0f}};
  for (const auto& [kind, sum] : kinds) {
    std::vector<std::vector<float>> outputs(2);
    const auto told = run_each(
        2, [&](int rank, std::vector<float>& memory) { return all_reduce(rank, 2, memory, 64); },
        {kind, 1, 0, 0},
        [&](int rank, const std::vector<float>& memory) {
          outputs[size_t(rank)].assign(memory.begin() + 2048, memory.begin() + 2048 + 64);
        });
    for (int r = 0; r < 2; ++r) {
      CHECK(told[size_t(r)].done);
      const std::vector<float>& got = outputs[size_t(r)];
      CHECK(std::count(got.begin(), got.begin() + 32, 2.0f) == 32);
      // One bit of one element, or all of them.
      CHECK(std::count(got.begin() + 32, got.end(), sum) == (kind == FaultKind::corrupt ? 31 : 32));
    }
  }
}

}  // namespace shared_tests
