// A document as a person reads it in a terminal.
#include <algorithm>

#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostRows = 64;     // of hosts with nothing but ok; bad ones are all shown
constexpr size_t kMostEntries = 10;  // of one check, unless all is asked for
constexpr size_t kLeastWidth = 40;

// Begins where the line stands; what does not fit goes on below, after `indent` spaces.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  const std::string lines = wrapped_text(text, indent, std::max(width, indent + 20));
  return lines.empty() ? "\n" : lines.substr(indent);
}

std::string text_of(const Facts& facts, size_t width) {
  std::string text;
  for (const std::string& line : facts.lines) text += wrapped(line, 2, width);
  return text;
}

std::string text_of(const Table& table, size_t width) {
  return table.columns.empty() || table.columns[0].cells.empty()
             ? ""
             : table_text(table.columns, table.expendable, width, "");
}

std::string text_of(const Grid& grid, size_t width) {
  return (grid.title.empty() ? "" : wrapped(grid.title, 2, width)) +
         matrix_text(grid.matrix, width);
}

std::string text_of(const HostTable& table, size_t width) {
  TextMatrix matrix{.rows = {.title = "host", .left = true}};
  for (const std::string& check : table.checks)
    matrix.columns.push_back({.title = check, .left = true});
  size_t good = 0, folded = 0;
  for (const auto& row : table.rows) {
    if (HostTable::is_plain(row) && ++good > kMostRows) {
      ++folded;
      continue;
    }
    matrix.rows.cells.push_back(row[0]);
    for (size_t i = 0; i < matrix.columns.size(); ++i)
      matrix.columns[i].cells.push_back(row[i + 1]);
  }
  std::string text = matrix_text(matrix, width);
  if (folded > 0) text += format("and {} more hosts with nothing but ok\n", folded);
  return text;
}

std::string text_of(const EvidenceList& measured, size_t width) {
  std::string text;
  for (const auto& [what, found, against] : measured)
    text += "  " + wrapped(format("{}: {}{}{}", what, found,
                                  against.empty() ? "" : "; held against ", against),
                           4, width);
  return text.empty() ? text : "measured:\n" + text;
}

std::string text_of(const Drawn& drawn, size_t width) {
  return drawn.lines(width);
}

// Without what a terminal obeys.
std::string shown(std::string text) {
  for (char& c : text)
    if ((uint8_t(c) < ' ' && c != '\n') || c == 0x7f) c = '?';
  return text;
}

std::string text_of(const Section& section, size_t width) {
  std::string text = format("{}:\n", section.title);
  for (const Section::Entry& entry : section.entries) {
    for (const auto& [head, words] : entry.lines)
      text += "  " + wrapped(format("{}: {}", head, words), 4, width);
    if (!entry.remedy.empty()) text += "    " + wrapped("-> " + entry.remedy, 7, width);
  }
  return text;
}

// Parts stand apart by an empty line.
void add_block(std::string& text, const std::string& block) {
  if (!block.empty()) text += (text.empty() ? "" : "\n") + block;
}

void add_parts(const Document& document, bool after, const TextStyle& style, size_t width,
               std::string& text) {
  for (const DocumentPart& part : document.parts)
    if (part.after == after && part.shown != (style.whole ? Shown::brief : Shown::whole))
      add_block(text,
                std::visit([&](const auto& what) { return text_of(what, width); }, part.what));
}

}  // namespace

bool HostTable::is_plain(const std::vector<std::string>& row) {
  return std::all_of(row.begin() + 1, row.end(),
                     [](const std::string& cell) { return cell == "ok" || cell == "-"; });
}

std::string verdict_coloured(const Verdict& verdict, const Console* console,
                             const std::string& words) {
  if (console == nullptr) return words;
  const char* const colour = verdict.ok() ? "32" : verdict.incomplete() ? "1;33" : "1;31";
  const size_t end = words.find_last_not_of('\n') + 1;
  return console->out_colour(colour, words.substr(0, end)) + words.substr(end);
}

std::string document_text(const Document& document, const TextStyle& style) {
  if (document.own_text) return document.own_text(style);
  const size_t width = std::max(style.width, kLeastWidth);
  std::string text;
  if (!style.quiet && !document.heading.empty()) text = wrapped(document.heading, 2, width);
  add_parts(document, false, style, width, text);
  const Judgement& judged = document.judged;
  for (const Section& section : sections_of(judged, style.whole ? SIZE_MAX : kMostEntries))
    add_block(text, text_of(section, width));
  add_parts(document, true, style, width, text);
  text = shown(std::move(text));
  if (document.has_verdict)
    add_block(text,
              verdict_coloured(judged.verdict, style.console,
                               wrapped("verdict: " + verdict_words(judged, document.hosts.size(),
                                                                   document.summary),
                                       2, width)));
  if (style.tells_error && judged.verdict.error())
    text += "  " + wrapped(plain(judged.verdict.error()->chain()), 4, width);
  return text;
}

}  // namespace collctl::cmd
