// Findings of window-test: their record between ranks and launcher, the verdict, text and JSON.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/record.h"
#include "cmd/judge/bench.h"
#include "cmd/judge/json.h"
#include "cmd/measure/fields.h"
#include "cmd/text/heat_map.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {

namespace {

constexpr int kMostRanksDrawn = 1024;  // a matrix has the square of it

struct Measure {
  const char* title;
  double WindowPair::*value;
};
constexpr Measure kMeasures[] = {{"put of 8 bytes, us", &WindowPair::put_us},
                                 {"get of 8 bytes, us", &WindowPair::get_us},
                                 {"puts of 1 MiB, GB/s", &WindowPair::put_GBps},
                                 {"gets of 1 MiB, GB/s", &WindowPair::get_GBps}};

// Reports come from ranks and may be wrong: a pair of a larger job has no place in the matrix.
bool in_matrix(const WindowPair& pair, size_t ranks) {
  return size_t(pair.from) < ranks && size_t(pair.to) < ranks;
}

// Lowest, middle and highest of each path: what a large matrix comes down to.
Table path_table(const WindowReport& report) {
  Table table{titled({"<between ranks", "<path", "least", "median", "most", "pairs"})};
  for (const Measure& measure : kMeasures) {
    std::map<std::string, std::vector<double>> paths;
    for (const WindowPair& pair : report.pairs) paths[pair.path].push_back(pair.*measure.value);
    for (auto& [path, values] : paths) {
      std::ranges::sort(values);
      table.add({measure.title, path, four_digits(values.front()),
                 four_digits(values[values.size() / 2]), four_digits(values.back()),
                 std::to_string(values.size())});
    }
  }
  return table;
}

Grid measure_grid(const WindowReport& report, const Measure& measure) {
  const auto ranks = size_t(report.header.ranks);
  Grid grid{.title = measure.title, .matrix = {.rows = {.title = "from\\to"}}};
  for (size_t rank = 0; rank < ranks; ++rank) {
    grid.matrix.rows.cells.push_back(std::to_string(rank));
    grid.matrix.columns.push_back({.title = std::to_string(rank),
                                   .unit = "",
                                   .left = false,
                                   .cells = std::vector<std::string>(ranks, "-")});
  }
  for (const WindowPair& pair : report.pairs)
    if (in_matrix(pair, ranks))
      grid.matrix.columns[size_t(pair.to)].cells[size_t(pair.from)] =
          four_digits(pair.*measure.value);
  return grid;
}

Table ratio_table(const WindowReport& report) {
  Table table{titled({"<collective", "size", "ordinary us", "window us", "ratio"})};
  for (const WindowRatio& row : report.ratios)
    table.add({row.op, human_bytes(row.bytes), four_digits(row.ordinary_us),
               four_digits(row.window_us), four_digits(row.ratio())});
  return table;
}

Table stages_table(const WindowReport& report) {
  Table table{titled({"<stage", "<result", "<looked at"})};
  for (const Finding& check : report.checks) {
    const bool missing = check.status == FindingStatus::not_tested;
    table.add({check.name,
               check.status == FindingStatus::pass   ? "pass"
               : check.status == FindingStatus::fail ? "FAIL"
               : check.code == ErrorCode{}           ? "n/a"
                                                     : "not tested",
               missing                  ? check.message
               : check.measured.empty() ? ""
                                        : format("{} {}", check.measured, check.unit)});
  }
  return table;
}

Facts where_ranks_are(const BenchHeader& header) {
  Facts facts;
  for (const HostLine& host : header.hosts)
    facts.lines.push_back(format("host {}: {} {}", host.host,
                                 host.ranks.size() == 1 ? "rank" : "ranks",
                                 rank_ranges(host.ranks)));
  if (header.device == "cpu" && !header.device_reason.empty())
    facts.lines.push_back("on CPU cores: " + header.device_reason);
  if (!header.note.empty()) facts.lines.push_back("note: " + header.note);
  return facts;
}

std::string window_svg(const WindowReport& report) {
  const auto ranks = size_t(report.header.ranks);
  std::vector<std::string> numbers, names, hosts(ranks);
  for (const HostLine& host : report.header.hosts)
    for (const int rank : host.ranks)
      if (size_t(rank) < ranks) hosts[size_t(rank)] = host.host.name;
  for (size_t rank = 0; rank < ranks; ++rank) {
    numbers.push_back(std::to_string(rank));
    names.push_back(numbers.back() + " " + hosts[rank]);
  }
  std::vector<HeatMap> maps;
  for (const Measure& measure : kMeasures) {
    HeatMap map{.title = measure.title,
                .rows_are = "from rank",
                .columns_are = "to rank",
                .rows = names,
                .columns = numbers,
                .cells = std::vector<HeatCell>(ranks * ranks),
                .less_is_better = std::string_view(measure.title).ends_with("us")};
    for (const WindowPair& pair : report.pairs) {
      if (!in_matrix(pair, ranks)) continue;
      HeatCell& cell = map.cells[size_t(pair.from) * ranks + size_t(pair.to)];
      cell.value = pair.*measure.value;
      cell.kind = pair.path;
      cell.tip =
          format("rank {} of {} to rank {} of {} ({}): put {} us, {} GB/s; get {} us, {} GB/s",
                 pair.from, hosts[size_t(pair.from)], pair.to, hosts[size_t(pair.to)], pair.path,
                 four_digits(pair.put_us), four_digits(pair.put_GBps), four_digits(pair.get_us),
                 four_digits(pair.get_GBps));
    }
    maps.push_back(std::move(map));
  }
  return heat_map_svg(format("collctl window-test: {} ranks, {}", ranks, report.header.device),
                      maps);
}

void write_hosts(JsonWriter& json, const WindowReport& report) {
  json.objects("hosts", report.header.hosts, [&](const HostLine& line) {
    json.field("host", line.host).list("ranks", line.ranks);
  });
}

}  // namespace

void fields(Record& io, WindowPair& pair) {
  io.field("from", pair.from, 0, kMostRankNumber);
  io.field("to", pair.to, 0, kMostRankNumber);
  io.field("path", pair.path);
  io.field("put_us", pair.put_us);
  io.field("get_us", pair.get_us);
  io.field("put_GBps", pair.put_GBps);
  io.field("get_GBps", pair.get_GBps);
}

static void fields(Record& io, WindowRatio& row) {
  double ratio = row.ratio();
  io.field("op", row.op);
  io.field("bytes", row.bytes);
  io.field("ordinary_us", row.ordinary_us);
  io.field("window_us", row.window_us);
  io.field("ratio", ratio);  // for who reads it alone
}

static void time_fields(Record& io, WindowReport& report) {
  io.field("pairs", report.pairs);
  io.field("pairs_left_out", report.pairs_left_out);
  io.field("collectives", report.ratios);
}

void fields(Record& io, WindowReport& report) {
  io.field("checks", report.checks);
  time_fields(io, report);
  io.field("culprits", report.culprits);
}

void fields(Record& io, WindowTestSpec& spec) {
  option_fields(io, spec);
}

Verdict judge(const WindowReport& report, const std::vector<HostEnd>& hosts,
              std::optional<Error> error) {
  std::vector<Finding> findings = report.checks;
  for (Finding& check : findings)
    if (check.code != ErrorCode{}) check.message = format("{}: {}", check.name, check.message);
  if (findings.empty()) findings.emplace_back().leave_out("nothing was tested");
  for (Finding& host : left_out_findings(hosts)) findings.push_back(std::move(host));
  return {findings, std::move(error)};
}

void add_broken_stage(WindowReport& report, const std::string& stage, const Error& error) {
  const bool done =
      std::ranges::any_of(report.checks, [&](const Finding& check) { return check.name == stage; });
  if (stage.empty() || done) return;
  Finding& check = report.checks.emplace_back();
  check.name = stage;
  const std::string message = "the job broke off: " + error.message;
  if (error.code == ErrorCode::interrupted)
    check.leave_out(message);
  else
    check.fail(error.code, message);
}

Document window_document(const WindowReport& report, std::string json) {
  const BenchHeader& header = report.header;
  const bool few = header.ranks <= kMostRanksDrawn && !report.pairs.empty();
  Document document = document_with(std::move(json), "checks");
  document.title = format("collctl window-test: {}", counted(size_t(header.ranks), "rank"));
  document.heading = format(
      "collctl window-test: {} {} {} on {}", header.ranks, header.device == "cpu" ? "CPU" : "GPU",
      header.ranks == 1 ? "rank" : "ranks", counted(header.hosts.size(), "host"));
  document.svg = few ? window_svg(report) : "";
  for (const HostLine& host : header.hosts) document.hosts.push_back(host.host.name);
  document.parts.push_back({where_ranks_are(header)});
  document.parts.push_back({stages_table(report)});
  if (!report.pairs.empty()) {
    document.parts.push_back({path_table(report), few ? Shown::brief : Shown::always});
    if (few)
      for (const Measure& measure : kMeasures)
        document.parts.push_back({measure_grid(report, measure), Shown::whole});
  }
  if (report.pairs_left_out > 0)
    document.parts.push_back(
        {Facts{{format("{} of {} pairs of ranks were timed", report.pairs.size(),
                       report.pairs.size() + report.pairs_left_out)}}});
  if (!report.ratios.empty()) document.parts.push_back({ratio_table(report)});
  return document;
}

std::string window_json(const WindowReport& report, const Verdict& verdict) {
  JsonWriter json;
  begin_document(json, "collctl.window-test/1");
  json.field("version", report.header.version).field("ranks", report.header.ranks);
  json.field("device", report.header.device);
  if (!report.header.device_reason.empty())
    json.field("device_reason", report.header.device_reason);
  write_hosts(json, report);
  Record io(json);
  io.field("checks", described(report.checks));
  time_fields(io, described(report));
  io.field("culprits", described(report.culprits));
  return judged_json(json, verdict);
}

Result<WindowReport> read_window_report(const std::string& json) {
  COLL_ASSIGN(WindowReport report, record_of<WindowReport>(json, "reading a window-test record"));
  COLL_ASSIGN(Record io, Record::read(json));
  BenchHeader& header = report.header;
  io.field("version", header.version);
  io.field("ranks", header.ranks, 0, kMostRankNumber);
  io.field("device", header.device);
  if (io.has("device_reason", true)) io.field("device_reason", header.device_reason);
  io.objects("hosts", header.hosts, [&](HostLine& line) {
    io.field("host", line.host);
    io.field("ranks", line.ranks, Record::kMostEntries, 0, kMostRankNumber);
  });
  COLL_TRY(io.status());
  return report;
}

}  // namespace collctl::cmd
