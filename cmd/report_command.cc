// `report`: saved reports again, several as one, one against another, or a folder of checks, with
// the exit code of the run.
#include <cerrno>
#include <fstream>

#include "base/format.h"
#include "base/record.h"
#include "cmd/check/trend.h"
#include "cmd/report/options.h"
#include "cmd/root_commands.h"
#include "cmd/saved.h"
#include "cmd/text/file.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

Result<std::string> content_of(const std::string& path) {
  std::ifstream in(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  if (!in) return base::errno_error(ErrorCode::usage, path, errno);
  std::string text;
  // A text that is too long is refused by its reader.
  char block[64 << 10];
  while (text.size() <= Record::kMostDocument && (in.read(block, sizeof block), in.gcount() > 0))
    text.append(block, size_t(in.gcount()));
  if (in.bad())
    return base::errno_error(ErrorCode::usage, format("{}: cannot be read to its end", path),
                             errno);
  return text;
}

Result<Saved> saved_in(const std::string& path) {
  COLL_ASSIGN(const std::string text, content_of(path));
  auto saved = read_saved(text);
  if (saved) return saved;
  if (saved.error().hint.empty())
    saved.error().hint =
        "a report is what a command writes with --json, -o FILE.json or -o FILE.jsonl";
  return std::move(saved.error()).within(path);
}

// Two files, and a folder, have options of their own.
Status check_words(const ParsedLine& line) {
  if (line.has("diff") && line.words.size() != 2)
    return usage("report --diff compares two files: expected OLD NEW");
  if (!line.has("trend")) {
    const char* given = line.first_of({"host", "last"});
    return given == nullptr ? Status() : usage(format("--{} belongs to --trend", given));
  }
  if (line.has("diff")) return usage("--diff and --trend exclude each other");
  if (line.words.size() != 1)
    return usage("report --trend is of one folder: expected the DIR of check --history");
  return {};
}

Result<Document> trend_in(const ParsedLine& line) {
  const std::string& folder = line.words[0];
  TrendMaker maker;
  COLL_ASSIGN(const HistoryFiles files,
              read_history(folder, size_t(line.number("last", 1000)),
                           [&](const PastCheck& past) { maker.add(past); }));
  COLL_ASSIGN(const Trend trend, maker.make(line.number("below", 0.9), line.all("host")));
  return trend_document(trend, folder, files);
}

Result<Document> shown_document(const ParsedLine& line) {
  std::vector<ComparedRun> runs;
  Document shown;
  for (const std::string& path : line.words) {
    COLL_ASSIGN(Saved saved, saved_in(path));
    shown = saved.document;
    runs.push_back({path, shown.title, std::move(saved.document.judged), std::move(saved.bench),
                    std::move(saved.paths)});
  }
  if (runs.size() == 1) return shown;
  return line.has("diff") ? diff_runs(runs[0], runs[1], line.number("below", 0.9))
                          : merge_runs(runs);
}

}  // namespace

Result<int> report_command(const ParsedLine& line, Console& console) {
  COLL_ASSIGN(const OutputOptions output, interpret_files(line, kAllFiles));
  COLL_TRY(check_words(line));
  COLL_ASSIGN(const Document shown, line.has("trend") ? trend_in(line) : shown_document(line));
  if (output.format == Format::text) {
    const bool one = line.words.size() == 1 && !line.has("trend");
    const std::string made = one ? made_text(shown.judged) : "";
    console.out(
        (made.empty() ? "" : made + "\n") +
        document_text(shown, {.width = line.has("wide") ? kNoWidth : size_t(console.out_width()),
                              .whole = output.verbosity > 0,
                              .tells_error = true,
                              .console = &console}));
  } else {
    console.out(document_as(output.format, shown));
  }
  COLL_TRY(write_documents(output.files, shown));
  return line.has("exit-zero") ? 0 : shown.judged.exit_code;
}

}  // namespace collctl::cmd
