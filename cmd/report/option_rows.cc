// The options that say what is printed and written.
#include "cmd/cli/option_rows.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

void add_file_option(std::vector<Option>& t, uint32_t scopes, const char* help, const char* more) {
  t.push_back({.name = "output",
               .letter = 'o',
               .kind = ValueKind::file,
               .value = "FILE",
               .fallback = "none",
               .group = Group::output,
               .scopes = scopes,
               .repeatable = true,
               .help = help,
               .more = more});
}

void add_output_options(std::vector<Option>& t) {
  const Adder add{t, Group::output, kLaunch};
  add({.name = "json",
       .scopes = kLaunch | kReading | kDoctor | kTopo | kPlan | kReport,
       .help = "one JSON object on standard output"});
  add({.name = "csv",
       .scopes = kCollectives | kReport,
       .help = "comma separated rows on standard output"});
  add({.name = "format",
       .kind = ValueKind::choice,
       .value = "NAME",
       .fallback = "table",
       .allowed = {"table", "json", "jsonl", "csv", "nccl-tests"},
       .scopes = kCollectives,
       .help = "what standard output holds",
       .more = "nccl-tests: header, columns and footer of nccl-tests 2.19, for programs that read "
               "those. What was not measured is 0.00 there, as its header says."});
  constexpr const char* kDrawn = "report: .json .jsonl .csv .html .svg, - for stdout";
  add_file_option(
      t, kProgram, kDrawn,
      "The ending says which. With a program: .json only. A collective's .jsonl grows line by "
      "line while it is measured; other files appear whole or not at all. .svg draws curves over "
      "size, or the matrix of window-test and rails; both of these also write .xml (JUnit) and "
      ".prom (Prometheus). -o - is --json.");
  add_file_option(
      t, kCollectives, kDrawn,
      "The ending says which. A .jsonl grows line by line while it is measured; the others "
      "appear whole or not at all. .svg draws curves over size. -o - is --json.");
  add_file_option(t, kTimedTask, kDrawnChecks, kDrawnAndMonitored);
  add_file_option(t, kReport, kDrawnChecks, kDrawnAndMonitored);
  add_file_option(t, kDoctor, kCheckedFiles, kMonitoredFiles);
  add_file_option(t, kPlan, kUndrawnFiles, kWholeFiles);
  add_file_option(
      t, kCheck, kCheckedFiles,
      "The ending says which: .xml is JUnit, .prom a textfile for Prometheus' node_exporter. A "
      ".jsonl of --soak grows by a line for each round; other files appear whole or not at all. "
      "-o - is --json.");
  add({.name = "plot",
       .scopes = kCollectives,
       .help = "draw bus bandwidth over size below the table"});
  add({.name = "wide",
       .scopes = kCollectives | kReport | kPlan,
       .help = "all columns of the table, however wide",
       .more =
           "Without it the table fits COLUMNS, the terminal or 100 characters: columns are left "
           "out, of a collective first those that say the same in every row, and the footer names "
           "them."});
  add({.name = "exit-zero",
       .scopes = kReport,
       .help = "exit 0 even if the run failed",
       .more = "A report that cannot be read is an error all the same."});
  add({.name = "diff",
       .scopes = kReport,
       .help = "FILE is two: what differs in the second from the first",
       .more =
           "Findings that came and went, then timings and paths that stand in both, the worst "
           "ratio first. A figure that a busy host spoilt counts below a fifth alone, and single "
           "connections not at all. The exit code is 1 when something is slower than --below "
           "and than figures of its kind scatter by, or a failure came, 8 when something was "
           "measured in the first only."});
  add({.name = "below",
       .kind = ValueKind::number,
       .value = "F",
       .unit = "%",
       .fallback = "0.9",
       .minimum = 0,
       .maximum = 1,
       .scopes = kReport,
       .help = "with --diff: less than F times the first is slower"});
  add({.name = "quiet",
       .scopes = kLaunch | kDoctor | kTopo | kPlan,
       .help = "no header, progress or notes"});
  add({.name = "verbose",
       .letter = 'v',
       .kind = ValueKind::count,
       .scopes = kLaunch | kDoctor | kTopo,
       .help = "log at INFO; -vv at TRACE",
       .more = "With doctor: how each host was reached. With topo: nothing is folded, and links of "
               "idle GPUs are named."});
}

}  // namespace collctl::cmd
