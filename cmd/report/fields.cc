#include "cmd/report/read.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/judge/json.h"
#include "cmd/judge/stragglers.h"
#include "cmd/measure/fields.h"

namespace collctl::cmd {

namespace {

constexpr double kMostUs = 1e15, kMostGBps = 1e12;

void timing_fields(Record& io, const char* key, Timing& t, bool& percentiles) {
  if (!io.has(key, t.measured)) return;
  io.object(key, [&] {
    if (io.reading()) t.measured = true;
    io.field("time_us", t.time_us, 0, kMostUs);
    if (io.has("p50_us", percentiles)) {
      if (io.reading()) percentiles = true;
      io.field("p50_us", t.p50_us, 0, kMostUs);
      io.field("p99_us", t.p99_us, 0, kMostUs);
      io.field("min_us", t.min_us, 0, kMostUs);
      io.field("max_us", t.max_us, 0, kMostUs);
      if (io.has("unsteady", t.unsteady)) io.field("unsteady", t.unsteady);
    }
    io.field("algbw_GBps", t.algbw_GBps, 0, kMostGBps);
    io.field("busbw_GBps", t.busbw_GBps, 0, kMostGBps);
    if (!io.null("wrong", t.wrong < 0)) io.field("wrong", t.wrong, 0);
    io.field("slowest_rank", t.slowest_rank, -1, kMostRankNumber);
    if (io.has("ranks_us", t.slowest_us > 0))
      io.object("ranks_us", [&] {
        io.field("fastest", t.fastest_us, 0, kMostUs);
        io.field("mean", t.mean_us, 0, kMostUs);
        io.field("slowest", t.slowest_us, 0, kMostUs);
      });
  });
}

// The best of what another library was set up to do, and all of it.
void versus_fields(Record& io, const char* key, Timing& t) {
  if (!io.has(key, !t.versus.empty())) return;
  io.object(key, [&] {
    VersusTiming best = t.versus.empty() ? VersusTiming() : t.versus[0];
    double ratio = t.ratio();
    io.field("name", best.name);
    io.field("time_us", best.time_us, 0, kMostUs);
    io.field("ratio", ratio);
    io.field("variant", best.variant);
    io.objects("variants", t.versus, [&](VersusTiming& each) {
      if (io.reading()) each.name = best.name;
      io.field("name", each.variant);
      io.field("time_us", each.time_us, 0, kMostUs);
    });
  });
}

// null: not known.
void bytes_field(Record& io, const char* name, uint64_t& bytes) {
  if (!io.null(name, bytes == 0)) io.field(name, bytes);
}

void cost_fields(Record& io, StartCost& cost) {
  bytes_field(io, "buffer_bytes", cost.buffer_bytes);
  bytes_field(io, "taken_bytes", cost.taken_bytes);
}

}  // namespace

static void fields(Record& io, Comparison& other) {
  io.field("name", other.name);
  io.field("ratio_geometric_mean", other.ratio);
  io.field("ratio_lowest", other.lowest);
  io.field("timings", other.timings);
}

static void fields(Record& io, SlowestGroups& slowest) {
  io.objects("groups", slowest.groups, [&](SlowestGroups::Group& group) {
    io.field("group", group.group);
    io.field("times_slowest", group.times);
  });
  io.field("bytes", slowest.largest_bytes);
  io.field("group", slowest.at_largest);
  io.field("ratio_to_fastest", slowest.ratio);
}

static void fields(Record& io, Straggler& late) {
  std::string kind = subject_word(late.at.kind), name = straggler_name(late);
  io.field("kind", kind);
  io.field("name", name);
  io.field("host", late.at.host);
  if (late.at.rank >= 0) io.field("rank", late.at.rank);
  if (late.at.peer_rank >= 0) {
    io.field("peer", late.at.peer);
    io.field("peer_rank", late.at.peer_rank);
  }
  io.field("share", late.share);
  io.field("usual_share", late.usual);
  io.field("why", late.why);
}

void fields(Record& io, LossLine& loss) {
  io.field("ranks", loss.lost.ranks, size_t(kMostRankNumber), 0, kMostRankNumber);
  io.field("host", loss.lost.host);
  io.field("why", loss.lost.why);
  io.field("remedy", loss.lost.remedy);
  io.field("ranks_left", loss.ranks_left, 1, kMostRankNumber);
  io.field("rows_before", loss.at_row);
  if (loss.lost.ranks.empty()) io.fail("ranks", "at least one");
}

void header_fields(Record& io, BenchReport& report) {
  BenchSpec& spec = report.spec;
  if (io.reading()) report.header.emplace();
  BenchHeader none;  // the run never began
  BenchHeader& header = report.header ? *report.header : none;
  std::string schema = "collctl.bench/1", op = spec.soak ? "soak" : name_of(spec.collective);
  io.unless_empty("schema", schema);
  io.field("version", header.version);
  io.unless_empty("date", report.made.date);
  io.unless_empty("command", report.made.command);
  if (io.has("iterations", !spec.soak)) io.field("iterations", spec.iterations, 0);
  io.field("op", op);
  if (io.reading()) {
    spec.soak = header.soak = op == "soak";
    if (!spec.soak) op_field(io, "op", spec.collective);
    header.collective = spec.collective;
  }
  if (spec.soak) {
    io.field("seed", spec.soak_seed);
    io.field("operations", spec.soak_operations, 0, 1'000'000'000);
  }
  header_fields(io, header);
  if (!io.reading()) return;
  spec.window = header.windows.has_value();
  for (const GroupLine& group : header.groups)
    for (const int rank : group.ranks)
      if (rank < 0 || rank >= header.ranks) io.fail("groups", "ranks of the job");
  if (const auto rule = parse_split(header.split))
    spec.split = *rule;
  else
    io.fail("split", "a rule of --split");
}

void row_fields(Record& io, BenchReport& report, BenchRow& row) {
  BenchSpec& spec = report.spec;
  std::string op = row.has_op ? name_of(row.op) : "none";
  io.field("bytes", row.bytes);
  io.field("count", row.count);
  io.name("dtype", row.type, kernels::kDataTypeCount, kernels::name_of);
  io.field("redop", op);
  if (io.reading()) {
    row.has_op = op != "none";
    if (row.has_op) io.name("redop", row.op, kernels::kRedOpCount, kernels::name_of);
  }
  io.field("root", row.root, -1, kMostRankNumber);
  io.field("algorithm", row.algorithm);
  io.field("protocol", row.protocol);
  io.field("channels", row.channels, 0, 1 << 20);
  if (io.has("straight", spec.window)) io.field("straight", row.direct);
  group_fields(io, row);
  if (io.has("ranks", row.ranks > 0)) io.field("ranks", row.ranks, 1, kMostRankNumber);
  if (io.has("warmup", row.warmup > 0)) io.field("warmup", row.warmup);
  timing_fields(io, "out_of_place", row.out_of_place, spec.sync_each);
  timing_fields(io, "in_place", row.in_place, spec.sync_each);
  if (io.has("expected", row.expected.has_value())) {
    if (io.reading()) row.expected.emplace();
    io.object("expected", [&] {
      fields(io, *row.expected);
      if (io.reading() || row.standard() == nullptr) return;
      double efficiency = row.expected->efficiency(row.first_timing());
      io.field("efficiency", efficiency);
      if (!row.out_of_place.measured || !row.in_place.measured) return;
      efficiency = row.expected->efficiency(row.in_place);
      io.field("efficiency_in_place", efficiency);
    });
  }
  io.unless_empty("tuner", row.tuned);
  const bool first = row.out_of_place.measured;
  versus_fields(io, "vs", first ? row.out_of_place : row.in_place);
  if (first) versus_fields(io, "vs_in_place", row.in_place);
}

void closing_fields(Record& io, BenchReport& report) {
  if (io.reading()) report.closing.emplace();
  if (!report.closing) return;
  BenchClosing& closing = *report.closing;
  if (io.has("memory", closing.costs)) {
    if (io.reading()) closing.costs = true;
    io.object("memory", [&] {
      io.object("collctl", [&] { cost_fields(io, closing.own_cost); });
      io.object("vs", [&] {
        io.field("variant", closing.other_variant);
        cost_fields(io, closing.other_cost);
      });
    });
    io.object("start", [&] {
      io.field("collctl_s", closing.own_cost.seconds, 0, 1e9);
      io.field("vs_s", closing.other_cost.seconds, 0, 1e9);
    });
  }
  if (io.has("vs_not_measured", !report.spec.versus.empty()))
    io.field("vs_not_measured", closing.left_out);
  io.unless_empty("busy_hosts", closing.busy);
  if (io.has("stragglers", !closing.waits.empty()))
    io.object("stragglers", [&] {
      std::vector<Straggler> late = stragglers(closing.waits);
      if (!io.reading()) io.list("late", late, [&](Straggler& one) { io.field("late", one); });
      io.field("ranks", closing.waits);
    });
  if (io.has("throttled", report.header && report.header->device != "cpu"))
    io.field("throttled", closing.throttled);
}

void results_fields(Record& io, BenchReport& report) {
  io.objects("results", report.rows, [&](BenchRow& row) { row_fields(io, report, row); });
  if (Comparison other = compared(report); !io.reading() && other.timings != 0)
    io.field("compared", other);
  if (SlowestGroups slowest = slowest_groups(report); !io.reading() && slowest.measured != 0)
    io.object("slowest_groups", [&] { fields(io, slowest); });
  io.unless_empty("lost", report.losses);
  closing_fields(io, report);
  io.unless_empty("faults", report.faults);
}

namespace {

// Fields on which the table's columns depend.
void conclude_spec(BenchReport& report) {
  BenchSpec& spec = report.spec;
  spec.max_bytes = 0;
  spec.ops.clear();
  spec.roots.clear();
  const auto add = [](auto& list, const auto& value) {
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  };
  bool out = false, in = false, versus = false, expected = false;
  for (const BenchRow& row : report.rows) {
    spec.max_bytes = std::max(spec.max_bytes, row.bytes);
    out = out || row.out_of_place.measured;
    in = in || row.in_place.measured;
    versus = versus || !row.out_of_place.versus.empty() || !row.in_place.versus.empty();
    expected = expected || row.expected;
    add(spec.types, row.type);
    add(spec.ops, row.op);
    add(spec.roots, row.root);
  }
  spec.in_place = out && in ? InPlace::both : in ? InPlace::in_place : InPlace::out_of_place;
  spec.expects = expected;
  if (versus || (report.header && !report.header->versus.empty())) spec.versus = {"default"};
  if (report.header && !report.header->versus.empty() &&
      report.header->versus.rfind(kRivalNames[int(Rival::nccl)], 0) != 0)
    spec.rival = Rival::mpi;
}

void read_measured(Record& io, BenchReport& report) {
  report.spec.types.clear();
  header_fields(io, report);
  results_fields(io, report);
  conclude_spec(report);
  // "nccl 2.28.9: default, ring" is how it was set up.
  report.closing->other = report.header->versus.substr(0, report.header->versus.find(':'));
}

// Rows measured before the run broke off; the exit code is the one that it ended with.
Result<SavedReport> read_error(Record& io) {
  Error error{ErrorCode::failed, ""};
  int exit_code = 0;
  error_fields(io, error, exit_code);
  COLL_TRY(io.status());
  if (!io.has("measured", true))
    return Error(ErrorCode::usage, "it is about a run that broke off before anything was measured")
        .within(error.chain());
  SavedReport saved{.verdict = {{}, std::move(error)}, .exit_code = exit_code};
  io.object("measured", [&] { read_measured(io, saved.report); });
  COLL_TRY(io.status());
  return saved;
}

}  // namespace

Result<SavedReport> read_report(const std::string& text) {
  COLL_ASSIGN(Record io, Record::read(text));
  std::string schema;
  io.field("schema", schema);
  COLL_TRY(io.status());
  if (schema == "collctl.error/1") return read_error(io);
  if (schema != "collctl.bench/1")
    return Error(ErrorCode::usage, format("schema '{}'; expected collctl.bench/1", schema),
                 "a report is what a collective writes with --json or -o FILE.json");
  SavedReport saved{.verdict = {{}, std::nullopt}, .exit_code = 0};
  read_measured(io, saved.report);
  io.object("verdict", [&] { saved.verdict = read_verdict(io, std::nullopt); });
  COLL_TRY(io.status());
  saved.exit_code = saved.verdict.exit_code();
  return saved;
}

}  // namespace collctl::cmd
