// Operations that are measured: names, and the patterns of sends and receives. Their steps of all
// ranks are played here on plain vectors and held against what the data check expects.
#include "cmd/verify/bench_op.h"

#include <map>
#include <set>

#include "cmd/verify/buffer_shape.h"
#include "cmd/verify/data_check.h"
#include "tests/catch.h"

namespace verify_bench_op_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;

namespace {

using Element = std::pair<int, uint64_t>;  // rank, place in its input
constexpr Element kPoisoned{-1, 0};
using Memory = std::vector<Element>;

// The ranks' outputs after all steps; a message goes when both ends are there.
std::vector<Memory> played(SendPattern pattern, uint64_t count, int n, bool in_place) {
  std::vector<Memory> inputs(static_cast<size_t>(n)), outputs(static_cast<size_t>(n));
  std::vector<std::vector<PatternStep>> steps;
  for (int r = 0; r < n; ++r) {
    const BufferShape shape = buffer_shape(pattern, count, {r, n, 0});
    for (uint64_t i = 0; i < shape.input; ++i) inputs[size_t(r)].emplace_back(r, i);
    outputs[size_t(r)].assign(shape.output, kPoisoned);
    if (in_place)
      std::copy(inputs[size_t(r)].begin(), inputs[size_t(r)].end(),
                outputs[size_t(r)].begin() + ptrdiff_t(shape.in_place_input));
    steps.push_back(row_of(pattern).steps(count, {r, n, 0}, in_place));
  }
  for (size_t step = 0; step < steps[0].size(); ++step) {
    std::map<std::pair<int, int>, Memory> wire;  // by sender and receiver
    for (int r = 0; r < n; ++r)
      for (const PatternMessage& m : steps[size_t(r)].at(step)) {
        if (!m.sends) continue;
        const Memory& from = m.from_output ? outputs[size_t(r)] : inputs[size_t(r)];
        REQUIRE(m.at + m.count <= from.size());
        const auto begin = from.begin() + ptrdiff_t(m.at);
        CHECK(wire.emplace(std::pair(r, m.peer), Memory(begin, begin + ptrdiff_t(m.count))).second);
      }
    for (int r = 0; r < n; ++r)
      for (const PatternMessage& m : steps[size_t(r)].at(step)) {
        if (m.sends) continue;
        const auto sent = wire.find({m.peer, r});
        REQUIRE(sent != wire.end());
        REQUIRE(sent->second.size() == m.count);
        REQUIRE(m.at + m.count <= outputs[size_t(r)].size());
        std::copy(sent->second.begin(), sent->second.end(),
                  outputs[size_t(r)].begin() + ptrdiff_t(m.at));
        wire.erase(sent);
      }
    CHECK(wire.empty());  // whatever is sent is received
  }
  return outputs;
}

void check_pattern(SendPattern pattern, uint64_t count, int n, bool in_place) {
  const std::vector<Memory> outputs = played(pattern, count, n, in_place);
  for (int r = 0; r < n; ++r) {
    INFO(name_of(pattern) << ", rank " << r << " of " << n);
    uint64_t covered = 0, wrong = 0;
    for (const Segment& segment : output_segments(pattern, count, {r, n, 0}, in_place)) {
      CHECK(segment.at == covered);
      covered += segment.count;
      for (uint64_t i = 0; i < segment.count; ++i) {
        const Element want = segment.source == Segment::Source::untouched
                                 ? kPoisoned
                                 : Element(segment.rank, segment.first + i);
        wrong += outputs[size_t(r)].at(segment.at + i) != want;
      }
    }
    CHECK(covered == outputs[size_t(r)].size());
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("bench operations: every name is one, and means what it says", "[bench]") {
  std::set<std::string> names;
  for (const BenchOp& op : bench_ops()) {
    names.insert(name_of(op));
    REQUIRE(find_bench_op(name_of(op)));
    CHECK(*find_bench_op(name_of(op)) == op);
  }
  CHECK(names.size() == bench_ops().size());
  CHECK(bench_ops().size() == kernels::kCollectiveCount + 5);
  for (int c = 0; c < kernels::kCollectiveCount; ++c)
    CHECK(std::string(name_of(BenchOp(Collective(c)))) == kernels::name_of(Collective(c)));
  CHECK_FALSE(find_bench_op("soak"));
  CHECK(*find_bench_op("hypercube") == kHypercube);
  CHECK_FALSE(kHypercube == BenchOp(Collective::send_recv));
}

TEST_CASE("patterns: all ranks' steps together give what the check expects", "[bench]") {
  std::vector<int> ranks{33};
  for (int n = 1; n <= 16; ++n) ranks.push_back(n);
  for (const int n : ranks) {
    for (uint64_t count : {0, 1, 5}) {
      check_pattern(SendPattern::next, count, n, false);
      for (const SendPattern pattern :
           {SendPattern::uneven, SendPattern::dispatch, SendPattern::combine, SendPattern::hot})
        check_pattern(pattern, count, n, false);
      if (!check_ranks(kHypercube, n)) continue;
      check_pattern(SendPattern::hypercube, count, n, false);
      check_pattern(SendPattern::hypercube, count, n, true);
    }
  }
}

TEST_CASE("uneven: every rank's blocks, some several, some none, the same seen from both ends",
          "[bench]") {
  for (int n = 1; n <= 64; ++n) {
    INFO(n);
    uint64_t none = 0, busiest = 0, room = 0;
    uint32_t most = 0;
    for (int r = 0; r < n; ++r) {
      const auto mine = uneven_share(r, n);
      uint64_t sent = 0, others = 0;
      for (int p = 0; p < n; ++p) {
        const uint32_t to = mine->to[size_t(p)];
        const auto theirs = uneven_share(p, n);
        CHECK(theirs->from[size_t(r)] == to);
        CHECK(theirs->before[size_t(r)] == sent);
        sent += to;
        none += to == 0;
        if (p == r) continue;
        most = std::max(most, to);
        others += mine->from[size_t(p)];
      }
      CHECK(sent == uint64_t(n));
      busiest = std::max({busiest, others, uint64_t(n) - mine->to[size_t(r)]});
      room = std::max(room, mine->room);
    }
    CHECK(uneven_totals(n).busiest == busiest);
    CHECK(uneven_totals(n).room == room);
    if (n == 1) continue;
    CHECK(none > 0);
    CHECK(most > 1);
    // A pair has a block on average, and nobody so many that it alone is measured.
    CHECK(busiest < uint64_t(n) * 2 + 1);
  }
  CHECK(uneven_share(0, 4)->to == std::vector<uint32_t>{1, 3, 0, 0});  // the documented ones
  CHECK(uneven_share(1, 4)->to == std::vector<uint32_t>{1, 0, 1, 2});
  CHECK(uneven_share(2, 4)->to == std::vector<uint32_t>{2, 2, 0, 0});
  CHECK(uneven_share(3, 4)->to == std::vector<uint32_t>{2, 1, 1, 0});
}

TEST_CASE("skewed: the blocks of experts, the same seen from both ends, and their way back",
          "[bench]") {
  for (int n = 1; n <= 64; ++n) {
    INFO(n);
    uint64_t back = 0;
    for (int r = 0; r < n; ++r) {
      for (const SendPattern of : {SendPattern::dispatch, SendPattern::combine, SendPattern::hot}) {
        const auto mine = uneven_share(r, n, of);
        uint64_t sent = 0;
        for (int p = 0; p < n; ++p) {
          const auto theirs = uneven_share(p, n, of);
          CHECK(theirs->from[size_t(r)] == mine->to[size_t(p)]);
          CHECK(theirs->before[size_t(r)] == sent);
          sent += mine->to[size_t(p)];
        }
        CHECK(sent == mine->sends);
        CHECK(mine->sends <= uneven_totals(n, of).input);
        CHECK(mine->room <= uneven_totals(n, of).room);
        if (of == SendPattern::combine)
          back += sent;
        else
          CHECK(sent == uint64_t(n));
      }
      CHECK(uneven_share(r, n, SendPattern::combine)->to ==
            uneven_share(r, n, SendPattern::dispatch)->from);
      CHECK(uneven_share(r, n, SendPattern::combine)->from ==
            uneven_share(r, n, SendPattern::dispatch)->to);
    }
    CHECK(back == uint64_t(n) * uint64_t(n));
    const std::vector<uint32_t> zipf = zipf_blocks(0, n);
    CHECK(std::is_sorted(zipf.rbegin(), zipf.rend()));
    CHECK(hot_blocks(0, n)[0] == uint32_t(n + 1) / 2);
  }
  CHECK(zipf_blocks(3, 8) == std::vector<uint32_t>{3, 1, 1, 1, 1, 1, 0, 0});  // the documented ones
  CHECK(zipf_blocks(0, 4) == std::vector<uint32_t>{2, 1, 1, 0});
  CHECK(zipf_back_blocks(0, 4) == std::vector<uint32_t>{2, 2, 2, 2});
  CHECK(zipf_back_blocks(3, 4) == std::vector<uint32_t>{0, 0, 0, 0});
  CHECK(hot_blocks(1, 8) == std::vector<uint32_t>{4, 1, 1, 1, 1, 0, 0, 0});
  CHECK(hot_blocks(0, 5) == std::vector<uint32_t>{3, 1, 1, 0, 0});
}

TEST_CASE("patterns: sizes, factors, and which numbers of ranks", "[bench]") {
  CHECK(size_point(kDispatch, 100, 4, 4).bytes == 96);
  CHECK(bus_factor(kDispatch, 4) == 6.0 / 4);   // rank 0 takes 2 of each of three
  CHECK(bus_factor(kCombine, 4) == 6.0 / 4);    // and sends them back
  CHECK(bus_factor(kHotExpert, 4) == 6.0 / 4);  // the same of half
  CHECK(bus_factor(kHotExpert, 8) == 28.0 / 8);
  CHECK(bus_factor(kDispatch, 1) == 0);
  CHECK(buffer_shape(kCombine, 10, {0, 4, 0}).input == 80);
  CHECK(buffer_shape(kCombine, 10, {3, 4, 0}).input == 0);
  CHECK(buffer_shape(kCombine, 10, {3, 4, 0}).output == 50);  // 2, 1, 1, and room for one
  CHECK(most_input(kCombine, 10, 4) == 80);
  CHECK(most_output(kDispatch, 10, 4) == 80);
  CHECK_FALSE(has_expectation(kHotExpert));
  CHECK_FALSE(has_in_place_form(kCombine));
  CHECK(size_point(kAllToAllV, 100, 4, 4).count == 6);
  CHECK(size_point(kAllToAllV, 100, 4, 4).bytes == 96);
  CHECK(size_point(kHypercube, 100, 4, 4).bytes == 96);
  CHECK(buffer_shape(kAllToAllV, 10, {0, 4, 0}).input == 40);
  CHECK(buffer_shape(kAllToAllV, 10, {0, 4, 0}).output == 60);  // 1 + 1 + 2 + 2
  CHECK(buffer_shape(kAllToAllV, 10, {1, 4, 0}).output == 70);  // 3, none, 2, 1
  CHECK(most_output(kAllToAllV, 10, 4) == 70);
  CHECK(bus_factor(kAllToAllV, 4) == 6.0 / 4);  // rank 1 takes 3 + 2 + 1
  CHECK(bus_factor(kAllToAllV, 1) == 0);
  CHECK(bus_factor(kHypercube, 4) == 3.0 / 4);
  CHECK(bus_factor(Collective::send_recv, 4) == 1);
  CHECK_FALSE(has_in_place_form(kAllToAllV));
  CHECK(has_in_place_form(kHypercube));
  for (int n : {1, 2, 4, 8, 1024}) CHECK(check_ranks(kHypercube, n));
  for (int n : {3, 5, 6, 7, 12}) CHECK(check_ranks(kHypercube, n).error().code == ErrorCode::usage);
  CHECK(check_ranks(kAllToAllV, 7));
}

TEST_CASE("a size that fits keeps every rank's buffers within the room", "[bench]") {
  for (const BenchOp& op : bench_ops())
    for (const int n : {1, 2, 4, 64})
      for (const uint64_t asked : {uint64_t(0), uint64_t(64), uint64_t(1 << 20)}) {
        const uint64_t room = 2 << 20;
        const SizePoint fits = fitting_size(op, asked, n, 4, room);
        INFO(name_of(op) << " of " << n << " ranks, " << asked << " bytes");
        CHECK(4 * most_input(op, fits.count, n) <= room);
        CHECK(4 * most_output(op, fits.count, n) <= room);
        const SizePoint plain = size_point(op, asked, n, 4);
        CHECK(fits.count <= plain.count);
        if (!is_uneven(op)) CHECK(fits.count == plain.count);
      }
  // 64 ranks send rank 0 half of 64 blocks each: 2048 blocks, in place of 64.
  CHECK(fitting_size(kHotExpert, 1 << 20, 64, 4, 2 << 20).count == 256);
  CHECK(fitting_size(kHotExpert, 1 << 20, 64, 4, 2 << 20).bytes == 65536);
}

}  // namespace verify_bench_op_tests
