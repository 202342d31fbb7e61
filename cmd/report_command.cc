// `report`: a saved report as the table that the run printed, with the exit code of the run.
#include <cerrno>
#include <fstream>
#include <iterator>

#include "base/format.h"
#include "base/json_record.h"
#include "cmd/report/read.h"
#include "cmd/root_commands.h"

namespace collctl::cmd {
namespace {

Result<std::string> content_of(const std::string& path) {
  std::ifstream in(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  if (!in) return base::errno_error(ErrorCode::usage, path, errno);
  std::string text;
  // What is too long is refused by who reads it.
  char block[64 << 10];
  while (text.size() <= JsonRecord::kMostDocument &&
         (in.read(block, sizeof block), in.gcount() > 0))
    text.append(block, size_t(in.gcount()));
  if (in.bad()) return Error(ErrorCode::usage, format("{}: cannot be read to its end", path));
  return text;
}

}  // namespace

Result<int> report_command(const ParsedLine& line, Console& console) {
  const std::string& path = line.words[0];
  COLL_ASSIGN(const std::string text, content_of(path));
  auto saved = read_report(text);
  if (!saved) {
    if (saved.error().hint.empty())
      saved.error().hint = "a report is what a collective writes with --json or -o FILE.json";
    return std::move(saved.error()).within(path);
  }
  const BenchReport& report = saved->report;
  console.out(text_header(*report.header, false));
  std::string left_out;
  if (!report.spec.soak) {
    const TextTable table(report.spec, report.header->ranks,
                          line.has("wide") ? TextTable::kWide : console.out_width());
    left_out = table.left_out();
    console.out(table.titles());
    for (const BenchRow& row : report.rows) console.out(table.row(row));
    console.out(variant_tables(report));
  }
  const Error* broke = saved->job_error ? &*saved->job_error : nullptr;
  console.out(text_footer(report, saved->verdict, broke, console, left_out));
  if (broke != nullptr) console.out(format("#   {}\n", broke->chain()));
  return line.has("exit-zero") ? 0 : saved->exit_code;
}

}  // namespace collctl::cmd
