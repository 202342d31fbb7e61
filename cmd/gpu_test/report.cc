// The record of gpu-test, its matrices and heat maps.
#include <algorithm>

#include "base/format.h"
#include "base/record.h"
#include "cmd/gpu_test/gpu_test.h"
#include "cmd/text/heat_map.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

constexpr const char* kGpuSchema = "collctl.gpu-test/1";
constexpr double kMostFigureGBps = 1e9, kMostFigureUs = 1e9;
constexpr size_t kMostLegNodes = 1024, kMostMappedHosts = 4;  // hosts

constexpr FigureWords kFigureWords[] = {
    {"write_GBps", "write", "write by copy engine, GB/s", "GB/s"},
    {"read_GBps", "read", "read by copy engine, GB/s", "GB/s"},
    {"kernel_write_GBps", "kernel-write", "write by kernel, GB/s", "GB/s"},
    {"kernel_read_GBps", "kernel-read", "read by kernel, GB/s", "GB/s"},
    {"both_GBps", "both", "both ways at once by copy engine, sum, GB/s", "GB/s"},
    {"latency_us", "latency", "load of 8 bytes, us", "us"}};
static_assert(std::size(kFigureWords) == kPairFigures);

// Left out when it was not measured.
void figure_field(Record& io, const char* key, double& value, double most = kMostFigureGBps) {
  if (io.has(key, value > 0)) io.field(key, value, 0, most);
}

}  // namespace

static void fields(Record& io, GpuEnd& end) {
  io.field("device", end.device, 64);
  io.field("model", end.model, 256);
  io.field("numa", end.numa, -1, int(kMostLegNodes));
  figure_field(io, "to_all_GBps", end.to_all);
  figure_field(io, "from_all_GBps", end.from_all);
  figure_field(io, "sends_GBps", end.sends_of_all);
  figure_field(io, "gets_GBps", end.gets_of_all);
}

static void fields(Record& io, GpuPair& pair) {
  io.field("from", pair.from, 0, int(kMostGpus));
  io.field("to", pair.to, 0, int(kMostGpus));
  io.unless_empty("path", pair.path, size_t{64});
  io.unless_empty("why", pair.why);
  for (size_t f = 0; f < kPairFigures; ++f)
    figure_field(io, kFigureWords[f].key, pair.figures[f],
                 PairFigure(f) == PairFigure::latency ? kMostFigureUs : kMostFigureGBps);
  io.unless_empty("wrong", pair.wrong, 2 * kPairFigures, size_t{64});
}

static void fields(Record& io, HostLeg& leg) {
  io.field("gpu", leg.gpu, 0, int(kMostGpus));
  io.field("node", leg.node, -1, int(kMostLegNodes));
  io.field("distance", leg.distance, -1, 1 << 20);
  io.field("to_GBps", leg.to_GBps, 0, kMostFigureGBps);
  io.field("from_GBps", leg.from_GBps, 0, kMostFigureGBps);
  io.field("both_GBps", leg.both_GBps, 0, kMostFigureGBps);
  io.field("wrong", leg.wrong);
}

namespace {

std::string figure_cell(double value) {
  return value > 0 ? four_digits(value) : "-";
}

bool is_no_figure(const std::string& cell) {
  return cell == "-";
}

// A GPU by its number and address: "0 4b:00.0".
std::string gpu_end_text(const GpuReport& report, int gpu) {
  return format("{} {}", gpu, report.gpus[size_t(gpu)].device);
}

std::optional<HeatMap> figure_map(const GpuReport& report, PairFigure figure) {
  const FigureWords& words = words_of(figure);
  const size_t count = report.gpus.size();
  HeatMap map{.title = format("{}: {}", report.host, words.text),
              .rows_are = figure == PairFigure::latency ? "by" : "from",
              .columns_are = figure == PairFigure::latency ? "in memory of" : "to",
              .cells = std::vector<HeatCell>(count * count),
              .less_is_better = figure == PairFigure::latency};
  for (size_t g = 0; g < count; ++g) map.rows.push_back(gpu_end_text(report, int(g)));
  map.columns = map.rows;
  bool any = false;
  for (const GpuPair& pair : report.pairs) {
    HeatCell& place = map.cells[size_t(pair.from) * count + size_t(pair.to)];
    place.value = pair.of(figure);
    place.kind = pair.path;
    place.fault = std::ranges::count(pair.wrong, words.name) > 0;
    any |= place.value > 0;
    if (!pair.why.empty()) place.word = "host";
    place.tip = format("{} to {}{}{}: {}", map.rows[size_t(pair.from)],
                       map.columns[size_t(pair.to)], pair.path.empty() ? "" : ", ", pair.path,
                       !pair.why.empty()  ? pair.why
                       : place.value <= 0 ? "not measured"
                                          : format("{} {}{}", four_digits(place.value), words.unit,
                                                   place.fault ? ", wrong data" : ""));
  }
  return any ? std::optional(map) : std::nullopt;
}

}  // namespace

const FigureWords& words_of(PairFigure figure) {
  return kFigureWords[size_t(figure)];
}

void fields(Record& io, GpuReport& report) {
  io.field("host", report.host, 256);
  io.field("bytes", report.bytes);
  io.field("gpus", report.gpus, kMostGpus);
  io.field("pairs", report.pairs, kMostGpus * kMostGpus);
  io.field("legs", report.legs, kMostGpus * kMostLegNodes);
  io.unless_empty("no_kernels", report.no_kernels);
  io.unless_empty("no_nodes", report.no_nodes);
  io.unless_empty("busy", report.busy);
  const int count = int(report.gpus.size());
  const auto is_pair = [&](const GpuPair& pair) {
    return pair.from < count && pair.to < count && pair.from != pair.to;
  };
  if (!std::ranges::all_of(report.pairs, is_pair)) io.fail("pairs", "two GPUs of the host each");
  if (!std::ranges::all_of(report.legs, [&](const HostLeg& leg) { return leg.gpu < count; }))
    io.fail("legs", "a GPU of the host each");
}

std::string gpu_json(const GpuReport& report) {
  JsonWriter json;
  begin_document(json, kGpuSchema);
  Record io(json);
  std::vector<GpuReport> hosts{report};
  io.field("hosts", hosts);
  return json.end_object().take();
}

Result<GpuReport> read_gpu_report(const std::string& json) {
  COLL_ASSIGN(Record io, Record::read(json));
  std::string schema;
  std::vector<GpuReport> hosts;
  io.field("schema", schema, 64);
  if (schema != kGpuSchema) io.fail("schema", kGpuSchema);
  io.field("hosts", hosts, 1);
  if (hosts.size() != 1) io.fail("hosts", "one");
  COLL_TRY(io.status());
  return std::move(hosts[0]);
}

std::optional<Grid> figure_grid(const GpuReport& report, PairFigure figure) {
  const size_t count = report.gpus.size();
  Grid grid{.title = words_of(figure).text, .matrix = {.rows = {.title = "from\\to"}}};
  for (size_t g = 0; g < count; ++g) {
    grid.matrix.rows.cells.push_back(std::to_string(g));
    grid.matrix.columns.push_back({.title = std::to_string(g),
                                   .unit = "",
                                   .left = false,
                                   .cells = std::vector<std::string>(count, "-")});
  }
  bool any = false;
  for (const GpuPair& pair : report.pairs) {
    const double value = pair.of(figure);
    any |= value > 0;
    grid.matrix.columns[size_t(pair.to)].cells[size_t(pair.from)] =
        pair.why.empty() ? figure_cell(value) : "host";
  }
  return any ? std::optional(grid) : std::nullopt;
}

Table gpu_table(const GpuReport& report) {
  Table table{titled({"GPU", "<device", "<model", "NUMA", "to all|GB/s", "from all|GB/s",
                      "sends|all busy", "gets|all busy"}),
              {"model", "NUMA"}};
  for (size_t g = 0; g < report.gpus.size(); ++g) {
    const GpuEnd& end = report.gpus[g];
    table.add({std::to_string(g), end.device, end.model, std::to_string(end.numa),
               figure_cell(end.to_all), figure_cell(end.from_all), figure_cell(end.sends_of_all),
               figure_cell(end.gets_of_all)});
  }
  // For two GPUs only their pair is measured.
  std::erase_if(table.columns, [](const TableColumn& column) {
    return !column.unit.empty() && std::ranges::all_of(column.cells, is_no_figure);
  });
  return table;
}

Table leg_table(const GpuReport& report) {
  Table table{titled({"GPU", "<memory of", "to GPU|GB/s", "from GPU|GB/s", "both|sum", "<"})};
  for (const HostLeg& leg : report.legs)
    table.add({std::to_string(leg.gpu), leg.node < 0 ? "the host" : format("node {}", leg.node),
               figure_cell(leg.to_GBps), figure_cell(leg.from_GBps), figure_cell(leg.both_GBps),
               leg.wrong ? "WRONG DATA" : ""});
  if (std::ranges::none_of(report.legs, &HostLeg::wrong)) table.columns.pop_back();
  return table;
}

Document gpu_document(const GpuReport& report, std::string json) {
  Document document = document_with(std::move(json), "hosts");
  document.title = format("collctl gpu-test: {}", report.host);
  document.has_verdict = false;
  Facts facts;
  for (const GpuPair& pair : report.pairs) {
    for (const std::string& figure : pair.wrong)
      facts.lines.push_back(format("WRONG DATA: {} -> {}, {}", pair.from, pair.to, figure));
    if (!pair.why.empty() && pair.from < pair.to)
      facts.lines.push_back(format("{} - {} by host memory: {}", pair.from, pair.to, pair.why));
  }
  if (report.gpus.size() < 2)
    facts.lines.push_back(report.gpus.empty() ? "no GPU" : "one GPU: there is no pair");
  for (const std::string* why : {&report.no_kernels, &report.no_nodes})
    if (!why->empty()) facts.lines.push_back(*why);
  document.parts.push_back({gpu_table(report)});
  for (size_t f = 0; f < kPairFigures; ++f)
    if (auto grid = figure_grid(report, PairFigure(f)))
      document.parts.push_back({std::move(*grid)});
  document.parts.push_back({leg_table(report)});
  document.parts.push_back({std::move(facts)});
  const bool wrong =
      std::ranges::any_of(report.pairs, [](const GpuPair& pair) { return !pair.wrong.empty(); }) ||
      std::ranges::any_of(report.legs, &HostLeg::wrong);
  document.judged.exit_code = wrong ? int(ErrorCode::bad_data) : 0;
  document.svg = gpus_svg({&report, 1});
  Document pairs;
  pairs.json = json_of(report);
  pairs.rows = "pairs";
  document.csv = document_as(Format::csv, pairs);
  return document;
}

std::string gpus_svg(std::span<const GpuReport> reports) {
  std::vector<HeatMap> maps;
  size_t drawn = 0;
  for (const GpuReport& report : reports) {
    const size_t before = maps.size();
    for (size_t f = 0; f < kPairFigures && drawn < kMostMappedHosts; ++f)
      if (auto map = figure_map(report, PairFigure(f))) maps.push_back(std::move(*map));
    drawn += maps.size() > before ? 1 : 0;
  }
  return maps.empty() ? "" : heat_map_svg("Between GPUs of a host", maps);
}

}  // namespace collctl::cmd
