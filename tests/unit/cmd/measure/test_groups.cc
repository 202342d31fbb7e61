// --split: who is in which group, and whole benches whose groups run at the same time.
#include "cmd/measure/groups.h"

#include <cstdlib>
#include <set>

#include "tests/how_much.h"
#include "tests/unit/cmd/measure/gpu_bench.h"

namespace measure_groups_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using collctl::runtime::testing::set_up_gpus;
using kernels::Collective;

namespace {

SplitRule rule(const std::string& text) {
  auto parsed = parse_split(text);
  INFO(text);
  REQUIRE(parsed);
  return *parsed;
}

BenchSpec in_groups(const BenchOp& op, const std::string& split) {
  BenchSpec spec = small_bench(op);
  spec.split = rule(split);
  return spec;
}

// Every group has each size once, next to those of the others, and all of it is right.
void check_rows(const BenchOutcome& outcome, size_t groups, const BenchOp& op) {
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.headers.size() == 1);
  CHECK(outcome.sink.headers[0].groups.size() == groups);
  const auto& rows = outcome.sink.rows;
  REQUIRE(rows.size() % groups == 0);
  CHECK(!rows.empty());
  for (size_t i = 0; i < rows.size(); i += groups) {
    int slowest = 0;
    double most_us = 0;
    for (size_t g = 0; g < groups; ++g)
      most_us = std::max(most_us, rows[i + g].first_timing().time_us);
    for (size_t g = 0; g < groups; ++g) {
      const BenchRow& row = rows[i + g];
      CHECK(row.group == int(g));
      const auto& ranks = outcome.sink.headers[0].groups[g].ranks;
      CHECK(row.group_ranks == int(ranks.size()));
      CHECK(std::count(ranks.begin(), ranks.end(), row.first_timing().slowest_rank) == 1);
      slowest += row.slowest_group;
      if (row.slowest_group) CHECK(row.first_timing().time_us == most_us);
    }
    CHECK(slowest == (groups > 1 ? 1 : 0));
  }
  CHECK(wrong_timings(outcome) == (op == Collective::barrier ? groups : 0));
}

}  // namespace

TEST_CASE("rules of --split, as text and as groups", "[split]") {
  using G = Groups;
  CHECK(groups_of(rule("2"), 5) == G{{0, 1}, {2, 3}, {4}});
  CHECK(groups_of(rule("div:2"), 4) == G{{0, 1}, {2, 3}});
  CHECK(groups_of(rule("mod:2"), 5) == G{{0, 2, 4}, {1, 3}});
  CHECK(groups_of(rule("and:0x1"), 4) == G{{0, 2}, {1, 3}});
  CHECK(groups_of(rule("and:0"), 3) == G{{0, 1, 2}});
  CHECK(groups_of(rule("or:0x1"), 4) == G{{0, 1}, {2, 3}});
  CHECK(groups_of(rule("8"), 3) == G{{0, 1, 2}});
  CHECK(groups_of(rule("1"), 2) == G{{0}, {1}});
  CHECK(groups_of(rule("ranks:0-1,4/2-3"), 5) == G{{0, 1, 4}, {2, 3}});
  CHECK(groups_of(rule("ranks:2/0-1"), 3) == G{{0, 1}, {2}});
  const RankSite sites[] = {{7, 0}, {7, 1}, {9, 0}, {7, 0}, {9, 0}};
  CHECK(groups_of(rule("host"), sites) == G{{0, 1, 3}, {2, 4}});
  CHECK(groups_of(rule("numa"), sites) == G{{0, 3}, {1}, {2, 4}});
  CHECK(group_of({{0, 2}, {1}}, 1) == 1);
  CHECK(group_of({{0, 2}, {1}}, 5) == -1);
  CHECK(group_name(1, {4, 5, 7}) == "group 1 (ranks 4-5,7)");
  CHECK(group_name(0, {3}) == "group 0 (rank 3)");
  for (const char* text :
       {"2", "mod:3", "and:0x7", "or:0x10", "host", "numa", "ranks:0-3,8/4-7", ""})
    CHECK(rule(text).text() == text);
  CHECK(!rule(""));
  CHECK(rule("and:7").text() == "and:0x7");
  for (const char* text : {"0",
                           "-1",
                           "mod:0",
                           "x",
                           "2x",
                           "mod:",
                           "hosts",
                           "and:-1",
                           "or:",
                           "0x",
                           "mod:99999999999",
                           "1048577",
                           "ranks:",
                           "ranks:0,0",
                           "ranks:1",
                           "ranks:0/",
                           "ranks:0//1",
                           "ranks:0-65536",
                           "ranks:3-1",
                           "ranks:0;1",
                           "ranks:-1",
                           "ranks:0-"}) {
    const auto parsed = parse_split(text);
    INFO(text);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == ErrorCode::usage);
    CHECK(parsed.error().message.find(text[0] == 'r' ? "ranks:0-3,8/4-7" : "mod:2") !=
          std::string::npos);
  }
  CHECK(rule("ranks:0/1").fits(2));
  for (const int ranks : {1, 3})
    CHECK(rule("ranks:0/1").fits(ranks).error().code == ErrorCode::usage);
  CHECK(rule("mod:2").fits(3));
}

TEST_CASE("a bench in groups: every collective, even and uneven, every row right", "[split]") {
  int turn = 0;
  for (const BenchOp& op : bench_ops())
    for (const auto& [split, ranks] :
         {std::pair{"2", 4}, std::pair{"mod:2", 3}, std::pair{"1", 2}, std::pair{"3", 5}}) {
      // An even and an uneven one for each operation, by turns.
      const int number = turn++;
      if (!test::nightly() && number / 2 % 2 != number / 4 % 2) continue;
      const BenchSpec spec = in_groups(op, split);
      const Groups groups = groups_of(spec.split, ranks);
      if (!check_groups(spec, groups)) continue;
      const BenchOutcome outcome = run_bench(spec, ranks);
      INFO(name_of(op) << " --split " << split << " of " << ranks << ": " << outcome.first_error());
      check_rows(outcome, groups.size(), op);
    }
}

TEST_CASE("a bench in groups with windows, groups of operations, samples, several algorithms",
          "[split]") {
  BenchSpec spec = in_groups(Collective::all_reduce, "2");
  SECTION("windows") {
    spec.window = true;
  }
  SECTION("operations as one") {
    spec.grouped = 3;
  }
  SECTION("samples") {
    spec.sync_each = true;
  }
  SECTION("without a warm-up") {
    spec.warmup = 0;
  }
  SECTION("in place") {
    spec.in_place = InPlace::in_place;
  }
  SECTION("algorithms") {
    spec.algorithms = {"ring", "tree", "one-shot"};
  }
  SECTION("hosts are one") {
    spec.split = rule("host");
  }
  const BenchOutcome outcome = run_bench(spec, 5);
  INFO(outcome.first_error());
  check_rows(outcome, spec.split.by == SplitBy::host ? 1 : 3, spec.collective);
  const BenchHeader& header = outcome.sink.headers[0];
  CHECK(header.ranks == 5);
  CHECK(header.split == spec.split.text());
  std::set<int> ends;
  for (const LinkLine& link : header.links) {
    CHECK(group_of(groups_of(spec.split, 5), link.from) ==
          group_of(groups_of(spec.split, 5), link.to));
    ends.insert(link.from);
  }
  if (spec.window && spec.split.by != SplitBy::host) {
    REQUIRE(header.windows);
    CHECK(header.windows->teams == std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4}});
  }
}

TEST_CASE("what a group cannot do is refused for all, before it begins", "[split]") {
  const auto refused = [](const BenchSpec& spec, int ranks) {
    const BenchOutcome outcome = run_bench(spec, ranks);
    REQUIRE(outcome.errors.size() == size_t(ranks));
    for (const Error& error : outcome.errors) CHECK(error.code == ErrorCode::usage);
    return outcome.first_error();
  };
  BenchSpec spec = in_groups(Collective::broadcast, "2");
  spec.roots = {1};
  CHECK(refused(spec, 3) ==
        "--split: group 1 (rank 2): --root 1: expected 0..0 or all, because it has 1 rank");
  spec.roots = {-1};
  CHECK(refused(spec, 3).find("have not equally many ranks") != std::string::npos);
  CHECK(run_bench(spec, 4).errors.empty());
  // An algorithm that serves one group's number of ranks and not the other's serves no row.
  BenchSpec choices = in_groups(Collective::all_gather, "3");
  choices.algorithms = {"doubling", "ring"};
  const BenchOutcome outcome = run_bench(choices, 5);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  std::map<std::string, std::set<int>> groups;
  for (const BenchRow& row : outcome.sink.rows) groups[row.algorithm].insert(row.group);
  for (const auto& [algorithm, which] : groups) {
    INFO(algorithm);
    CHECK(which == std::set<int>{0, 1});
  }
}

TEST_CASE("wrong data in one group: its faults in the job's numbers", "[split][bench_faults]") {
  BenchSpec spec = in_groups(Collective::all_reduce, "mod:2");
  spec.min_bytes = spec.max_bytes = 64 << 10;
  spec.in_place = InPlace::out_of_place;
  spec.algorithms = {"ring"};
  spec.protocols = {"simple"};
  // Ranks 0, 2, 4, 6 of seven are a group; its rank 3 is 6, and no other group has a rank 3.
  ::setenv("COLLCTL_FAULT", "missing:rank=3:channel=0:step=0", 1);
  const BenchOutcome outcome = run_bench(spec, 7);
  ::unsetenv("COLLCTL_FAULT");
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.rows.size() == 2);
  CHECK(outcome.sink.rows[0].out_of_place.wrong > 0);
  CHECK(outcome.sink.rows[1].out_of_place.wrong == 0);
  REQUIRE(outcome.sink.faults.size() == 4);
  std::set<int> ranks;
  for (const DataFault& fault : outcome.sink.faults) {
    INFO(fault.message);
    CHECK(fault.message.starts_with("group 0 (ranks 0,2,4,6): "));
    CHECK(fault.message.find("lack the contribution of rank 4") != std::string::npos);
    CHECK(fault.message.find("went wrong at rank 6") != std::string::npos);
    CHECK(fault.peer == 4);
    ranks.insert(fault.rank);
  }
  CHECK(ranks == std::set<int>{0, 2, 4, 6});
}

TEST_CASE("a rank that fails ends the job on all ranks, in all groups, with its reason",
          "[split][bench_faults]") {
  struct FailingSink : KeepingSink {
    void phase(int rank, const std::string& name) override {
      if (rank == 3 && name == "measure") throw std::runtime_error("thrown by a test");
    }
  };
  BenchSpec spec = in_groups(Collective::all_reduce, "2");
  spec.op_timeout_s = 20;
  std::vector<FailingSink> sinks{5};
  const auto errors = run_bench_ranks(spec, sinks, false);
  REQUIRE(errors.size() == 5);
  int own = 0;
  for (const Error& error : errors) {
    INFO(error.chain());
    own += error.chain().find("thrown by a test") != std::string::npos;
    CHECK(error.chain().find("rank 1 ") == std::string::npos);
  }
  CHECK(own == 5);
}

TEST_CASE("a bench in groups of GPU ranks", "[split][gpu]") {
  for (const int ranks : {2, 3}) {
    set_up_gpus(ranks);
    BenchSpec spec = gpu_bench(Collective::all_reduce);
    spec.split = rule("mod:2");
    spec.cuda_graph = ranks == 2 ? 0 : 2;
    const BenchOutcome outcome = run_gpu_bench(spec, ranks);
    INFO(outcome.first_error());
    check_rows(outcome, 2, spec.collective);
    CHECK(outcome.sink.headers[0].device == "cuda");
  }
  CHECK(nothing_held());
}

TEST_CASE("a spec with groups, and its rows, mean the same when read again", "[split]") {
  for (const char* text : {"2", "mod:2", "and:0x3", "or:0x3", "host", "numa", ""}) {
    BenchSpec spec = in_groups(Collective::all_reduce, text);
    auto again = record_of<BenchSpec>(json_of(spec));
    REQUIRE(again);
    CHECK(again->split.text() == text);
  }
  std::string broken = json_of(in_groups(Collective::all_reduce, "mod:2"));
  broken.replace(broken.find("mod:2"), 5, "mod:x");
  CHECK(!record_of<BenchSpec>(broken));
  BenchRow row;
  row.group = 2;
  row.group_ranks = 3;
  row.slowest_group = true;
  row.out_of_place.measured = true;
  KeepingSink sink;
  REQUIRE(sink.record(encode_record(row)));
  REQUIRE(sink.rows.size() == 1);
  CHECK(sink.rows[0].group == 2);
  CHECK(sink.rows[0].group_ranks == 3);
  CHECK(sink.rows[0].slowest_group);
}

}  // namespace measure_groups_tests
