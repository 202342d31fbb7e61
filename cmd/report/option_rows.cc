// The options that say what is printed and written.
#include "cmd/cli/option_rows.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

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
  constexpr const char* kDrawn = "report: .json .jsonl .csv .html .svg, - for stdout";
  add_file_option(t, kProgram, kDrawn,
                  "The ending says which. With a program: .json only. A collective's .jsonl grows "
                  "line by line while it is measured; other files appear whole or not at all. .svg "
                  "draws curves over size, or the matrix of window-test and rails; both of these "
                  "also write .xml (JUnit) and .prom (Prometheus). -o - is --json.");
  add_file_option(
      t, kCollectives, kDrawn,
      "The ending says which. A .jsonl grows line by line while it is measured; the others appear "
      "whole or not at all. .svg draws curves over size. -o - is --json.");
  add_file_option(t, kTimedTask, kDrawnChecks, kDrawnAndMonitored);
  add_file_option(t, kReport, kDrawnChecks, kDrawnAndMonitored);
  add_file_option(t, kDoctor, kCheckedFiles, kMonitoredFiles);
  add_file_option(t, kPlan, kUndrawnFiles, kWholeFiles);
  add_file_option(t, kCheck, kCheckedFiles,
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
                  "with --diff: less than F times the first is slower");
  add.in(kLaunch | kDoctor | kTopo | kPlan)("quiet", flag(), to<&OutputOptions::quiet>,
                                            "no header, progress or notes");
  add.in(kLaunch | kDoctor | kTopo)("v,verbose", count(), "log at INFO; -vv at TRACE",
                                    "With doctor: how each host was reached. With topo: nothing is "
                                    "folded, and links of idle GPUs are named.");
}

}  // namespace collctl::cmd
