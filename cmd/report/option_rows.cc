// The options that say what is printed and written.
#include "cmd/cli/option_rows.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

void add_output_options(std::vector<Option>& t) {
  const Adder add{t, Group::output, kLaunch};
  add({.name = "json",
       .scopes = kLaunch | kReading | kDoctor | kTopo | kPlan,
       .help = "one JSON object on standard output"});
  add({.name = "csv", .scopes = kCollectives, .help = "comma separated rows on standard output"});
  add({.name = "format",
       .kind = ValueKind::choice,
       .value = "NAME",
       .fallback = "table",
       .allowed = {"table", "json", "jsonl", "csv", "nccl-tests"},
       .scopes = kCollectives,
       .help = "what standard output holds",
       .more = "nccl-tests: header, columns and footer of nccl-tests 2.19, for programs that read "
               "those. What was not measured is 0.00 there, as its header says."});
  add({.name = "output",
       .letter = 'o',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kLaunch,
       .repeatable = true,
       .help = "report: .json .jsonl .csv .html .svg, - for stdout",
       .more =
           "The ending says which. A .jsonl grows line by line while it is measured; the others "
           "appear whole or not at all. With a program: .json only. .svg draws curves over "
           "size, or the matrix of window-test; rails has none. -o - is --json."});
  add({.name = "output",
       .letter = 'o',
       .kind = ValueKind::file,
       .value = "FILE",
       .fallback = "none",
       .scopes = kDoctor | kPlan,
       .repeatable = true,
       .help = "report: .json .jsonl .csv .html, - for stdout",
       .more = "The ending says which. The file appears whole or not at all. -o - is --json."});
  add({.name = "plot",
       .scopes = kCollectives,
       .help = "draw bus bandwidth over size below the table"});
  add({.name = "wide",
       .scopes = kCollectives | kReport,
       .help = "all columns of the table, however wide",
       .more =
           "Without it the table fits COLUMNS, the terminal or 100 characters: columns that say "
           "the same in every row are left out first, and the footer names them."});
  add({.name = "exit-zero",
       .scopes = kReport,
       .help = "exit 0 even if the run failed",
       .more = "A report that cannot be read is an error all the same."});
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
