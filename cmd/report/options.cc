#include "cmd/report/options.h"

#include <unistd.h>
#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/whole_file.h"
#include "cmd/cli/bind.h"
#include "cmd/cli/option_rows.h"
#include "cmd/measure/options.h"
#include "cmd/report/report.h"
#include "cmd/text/file.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

namespace {

using kernels::Collective;

// "80%@1M"; parse() has checked it.
std::optional<Limit> limit_of(const ParsedLine& line, const char* option) {
  if (!line.has(option)) return std::nullopt;
  const std::string text = line.text(option);
  const size_t at = text.find('@');
  Limit limit{.value = *number_of(line.row(option), text.substr(0, at))};
  if (at != std::string::npos) limit.at_bytes = bytes_of(text.substr(at + 1));
  return limit;
}

Status check_limit(const char* name, const std::optional<Limit>& limit, const BenchSpec& spec) {
  if (!limit || !limit->at_bytes) return {};
  BenchSpec widest = spec;  // on hosts it is not known yet how far sizes go
  if (!spec.max_bytes_given && spec.device_request != DeviceRequest::cpu)
    widest.max_bytes = std::max(spec.min_bytes, kMostBytesOnGpus);
  COLL_ASSIGN(const auto sizes, sizes_of(widest));
  if (std::ranges::find(sizes, *limit->at_bytes) != sizes.end()) return {};
  uint64_t near = sizes.front();
  for (uint64_t size : sizes)
    if (size <= *limit->at_bytes) near = size;
  return usage(format("--{}: {} is not among the measured sizes {} .. {}; the nearest is {}", name,
                      option_bytes(*limit->at_bytes), option_bytes(sizes.front()),
                      option_bytes(sizes.back()), option_bytes(near)));
}

Result<Format> format_of_file(const ParsedLine& line, FileKinds kinds, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : name.substr(dot);
  std::vector<FileKind> legal = file_kinds_of(kinds);
  if (line.has_program)
    std::erase_if(legal, [](auto& kind) { return kind.format != Format::json; });
  std::string endings;
  for (size_t i = 0; i < legal.size(); ++i) {
    if (ending == legal[i].ending) return legal[i].format;
    endings += format("{}{}", i == 0 ? "" : i + 1 < legal.size() ? ", " : " or ", legal[i].ending);
  }
  return usage(format("--output {}: expected a name that ends in {}", path, endings));
}

// Format of standard output: --json, --csv, --format.
Result<Format> format_of_output(const ParsedLine& line, const BenchSpec* spec) {
  if (line.has("json") && line.has("csv")) return usage("--json and --csv exclude each other");
  const bool named = line.has("json") || line.has("csv");
  if (named && line.has("format"))
    return usage("--json and --csv are formats themselves; expected one of them or --format");
  if (line.has("json")) return Format::json;
  if (line.has("csv")) return Format::csv;
  const std::string name = line.has("format") ? line.text("format") : "table";
  if (name == "json") return Format::json;
  if (name == "jsonl") return Format::jsonl;
  if (name == "csv") return Format::csv;
  if (name == "table") return Format::text;
  if (spec != nullptr && nccl_tests_program(spec->collective).empty())
    return usage(format("--format {}: nccl-tests has no {}; expected another format", name,
                        name_of(spec->collective)));
  if (spec != nullptr && (!spec->versus.empty() || spec->soak))
    return usage(format("--format {} has no columns for {}; expected another format", name,
                        spec->soak ? "a soak" : "--vs"));
  return Format::nccl_tests;
}

// Those that a health check has as well. The files are read now: what is wrong with them stops
// everything before it starts.
Status read_limits(const ParsedLine& line, OutputOptions& output) {
  Limits& limits = output.limits;
  limits.min_efficiency = limit_of(line, "min-efficiency");
  if (line.has("thresholds")) {
    const std::string file = line.text("thresholds");
    COLL_ASSIGN(const std::string text, base::read_file(file, kMostThresholdText));
    COLL_ASSIGN(Thresholds rows, parse_thresholds(file, text));
    limits.thresholds = std::make_shared<const Thresholds>(std::move(rows));
  }
  if (line.has("baseline")) {
    COLL_ASSIGN(Baseline baseline, read_baseline(line.text("baseline")));
    limits.baseline = std::make_shared<const Baseline>(std::move(baseline));
  }
  if (line.has("save-baseline")) {
    output.save_baseline = line.text("save-baseline");
    // A file that is there already must be a baseline.
    if (::access(output.save_baseline.c_str(), F_OK) == 0)
      COLL_TRY(read_baseline(output.save_baseline));
  }
  return {};
}

}  // namespace

Result<Baseline> read_baseline(const std::string& file) {
  COLL_ASSIGN(const std::string text, base::read_file(file, kMostBaselineText));
  return parse_baseline(file, text);
}

Status save_baseline(const std::string& file, std::span<const BenchReport* const> reports) {
  Baseline baseline;
  if (::access(file.c_str(), F_OK) == 0) {
    COLL_ASSIGN(baseline, read_baseline(file));
  }
  for (const BenchReport* report : reports) add_samples(baseline, *report);
  return base::write_file_atomically(file, baseline_json(baseline));
}

Result<OutputOptions> interpret_output(const ParsedLine& line, const BenchSpec* spec,
                                       FileKinds kinds) {
  OutputOptions output;
  if (spec != nullptr) kinds.pictures = true;
  COLL_ASSIGN(output.format, format_of_output(line, spec));
  COLL_TRY(fill(line, output));
  if (output.plot && output.format != Format::text)
    return usage("--plot draws below the table; it excludes --json, --csv and --format");
  output.verbosity = line.times("verbose");
  for (const auto& path : line.all("output")) {
    COLL_ASSIGN(const Format kind, format_of_file(line, kinds, path));
    for (const auto& other : output.files)
      if (other.path == path) return usage(format("--output {} stands there twice", path));
    output.files.push_back({path, kind});
  }
  if (line.has("trace")) {
    output.trace = line.text("trace");
    for (const OutputFile& other : output.files)
      if (other.path == output.trace)
        return usage(format("--trace {}: --output goes there as well", output.trace));
    COLL_TRY_IN(check_writable(output.trace), "--trace");
  }
  output.limits.min_busbw = limit_of(line, "min-busbw");
  output.limits.max_latency = limit_of(line, "max-latency");
  COLL_TRY(read_limits(line, output));
  if (spec != nullptr) {
    COLL_TRY(check_limit("min-efficiency", output.limits.min_efficiency, *spec));
    COLL_TRY(check_limit("min-busbw", output.limits.min_busbw, *spec));
    COLL_TRY(check_limit("max-latency", output.limits.max_latency, *spec));
    if (output.limits.min_efficiency && !has_expectation(spec->collective))
      return usage(
          format("--min-efficiency: no model knows what {} should take; expected --min-busbw or "
                 "--max-latency",
                 name_of(spec->collective)));
    if (output.limits.min_efficiency && spec->sync_each)
      return usage(
          "--min-efficiency: no model knows what operations take that are waited for one by one "
          "(--sync each); expected --sync block, or --max-latency");
    if (output.limits.min_busbw && spec->collective == Collective::barrier)
      return usage("--min-busbw: a barrier moves no data; expected --max-latency");
  }
  return output;
}

Result<OutputOptions> interpret_files(const ParsedLine& line, FileKinds kinds) {
  COLL_ASSIGN(OutputOptions output, interpret_output(line, nullptr, kinds));
  for (const OutputFile& file : output.files) COLL_TRY(check_writable(file.path));
  return output;
}

// The options that say what is printed and written.

void add_file_option(std::vector<Option>& t, uint32_t scopes, FileKinds kinds, const char* more) {
  static std::map<std::pair<bool, bool>, std::string> helps;  // tables are made once, by one thread
  std::string& help = helps[{kinds.pictures, kinds.monitoring}];
  help = "report:";
  for (const FileKind& kind : file_kinds_of(kinds)) help += format(" {}", kind.ending);
  help += ", - for stdout";
  add_file_option(t, scopes, help.c_str(), more);
}

void add_file_option(std::vector<Option>& t, uint32_t scopes, const char* help, const char* more) {
  const Adder add{t, Group::output, scopes};
  add("o,output", kinds::repeatable(kinds::file()), help, more);
}

void add_output_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::output, kLaunch};
  add.in(kLaunch | kReading | kDoctor | kTopo | kPlan | kReport)(
      "json", flag(), "one JSON object on standard output");
  add.in(kCollectives | kReport)("csv", flag(), "comma separated rows on standard output");
  add.in(kCollectives)("format",
                       one_of("NAME", {"table", "json", "jsonl", "csv", "nccl-tests"}, "table"),
                       "what standard output holds",
                       "nccl-tests: header, columns and footer of nccl-tests 2.19, for programs "
                       "that read those. What was not measured is 0.00 there, as its header says.");
  constexpr FileKinds kDrawn{.pictures = true}, kMonitored{.monitoring = true};
  add_file_option(t, kProgram, kDrawn,
                  "The ending says which. With a program: .json only. A collective's .jsonl grows "
                  "line by line while it is measured; other files appear whole or not at all. .svg "
                  "draws curves over size, or the matrix of window-test and rails; both of these "
                  "also write .xml (JUnit) and .prom (Prometheus). -o - is --json.");
  add_file_option(
      t, kCollectives, kDrawn,
      "The ending says which. A .jsonl grows line by line while it is measured; the others appear "
      "whole or not at all. .svg draws curves over size. -o - is --json.");
  add_file_option(t, kTimedTask, kAllFiles, kDrawnAndMonitored);
  add_file_option(t, kReport, kAllFiles, kDrawnAndMonitored);
  add_file_option(t, kDoctor, kMonitored, kMonitoredFiles);
  add_file_option(t, kPlan | kStatus, FileKinds{}, kWholeFiles);
  add_file_option(t, kCheck, kMonitored,
                  "The ending says which: .xml is JUnit, .prom a textfile for Prometheus' "
                  "node_exporter. A .jsonl of --soak grows by a line for each round; other files "
                  "appear whole or not at all. -o - is --json.");
  add.in(kCollectives)("plot", flag(), to<&OutputOptions::plot>,
                       "draw bus bandwidth over size below the table");
  add.in(kCollectives | kReport | kPlan)(
      "wide", flag(), to<&OutputOptions::wide>, "all columns of the table, however wide",
      "Without it the table fits COLUMNS, the terminal or 100 characters: columns are left out, of "
      "a collective first those that say the same in every row, and the footer names them.");
  add.in(kReport)("exit-zero", flag(), "exit 0 even if the run failed",
                  "A report that cannot be read is an error all the same.");
  add.in(kReport)("diff", flag(), "FILE is two: what differs in the second from the first",
                  "Findings that came and went, then timings and paths that stand in both, the "
                  "worst ratio first. A figure that a busy host spoilt counts below a fifth alone, "
                  "and single connections not at all. The exit code is 1 when something is slower "
                  "than --below and than figures of its kind scatter by, or a failure came, 8 when "
                  "something was measured in the first only.");
  add.in(kReport)("below", number("F", "%", 0, 1, "0.9"),
                  "with --diff: less than F times the first is slower",
                  "With --trend: a speed declines whose last third has less than F times the first "
                  "third, in the median, and less by more than its values scatter.");
  add.in(kReport)("trend", flag(), "FILE is a folder of check --history: what became of hosts",
                  "Failures that are new, that go on and that are gone, hosts that are well again "
                  "(with a line for Slurm that resumes each), and speeds over time. The exit code "
                  "is that of the worst failure, 1 when a speed declines, 8 when a file is damaged "
                  "or a host that failed is in no newer check.");
  add.in(kReport)("host", repeatable(text("NAME")), "with --trend: of this host alone");
  add.in(kReport)("last", integer("N", 1, 1e6, "1000"), "with --trend: the newest N checks");
  add.in(kLaunch | kDoctor | kTopo | kPlan)("quiet", flag(), to<&OutputOptions::quiet>,
                                            "no header, progress or notes");
  add.in(kLaunch | kDoctor | kTopo)("v,verbose", count(), "log at INFO; -vv at TRACE",
                                    "With doctor: how each host was reached. With topo: nothing is "
                                    "folded, and links of idle GPUs are named.");
}

}  // namespace collctl::cmd
