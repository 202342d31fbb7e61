// A document as a person reads it in a terminal.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/judge/finding.h"
#include "cmd/text/hosts.h"
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
  TextMatrix matrix{.indent = {}, .rows = {.title = "host", .left = true}};
  for (const std::string& check : table.checks)
    matrix.columns.push_back({.title = check, .left = true});
  size_t good = 0, folded = 0;
  for (const auto& row : table.rows) {
    const bool plain = std::all_of(row.begin() + 1, row.end(), [](const std::string& said) {
      return said == "ok" || said == "-";
    });
    if (plain && ++good > kMostRows) {
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

bool says(const Finding& finding, const Culprit& culprit) {
  return finding.status == FindingStatus::fail && finding.at.kind == culprit.kind &&
         finding.message.ends_with(culprit.evidence) && subject_name(finding.at) == culprit.name;
}

// Who is at fault, each with what to do where a finding says just that of it.
std::string culprits_text(const Judgement& judged, size_t width,
                          std::set<const Finding*>& told_there) {
  std::string text;
  for (const Culprit& culprit : judged.culprits) {
    text += "  " + wrapped(format("{} {}: {}", subject_word(culprit.kind), culprit.name,
                                  evidence_alone(culprit)),
                           4, width);
    const auto same = std::find_if(judged.checks.begin(), judged.checks.end(),
                                   [&](const Finding& finding) { return says(finding, culprit); });
    if (same == judged.checks.end()) continue;
    told_there.insert(&*same);
    if (!same->remedy.empty()) text += "    " + wrapped("-> " + same->remedy, 7, width);
  }
  return text.empty() ? text : "at fault:\n" + text;
}

bool is_listed(const Finding& finding, FindingStatus status) {
  if (finding.message.empty()) return false;
  if (status == FindingStatus::warn && finding.odd && finding.status == FindingStatus::pass)
    return true;
  return finding.status == status &&
         (status != FindingStatus::not_tested || finding.code != ErrorCode{});
}

// Those of one check that say the same of several hosts are one entry, and so are checks that say
// the same.
std::string findings_text(const Judgement& judged, FindingStatus status, const char* title,
                          const TextStyle& style, size_t width,
                          const std::set<const Finding*>& told_before) {
  struct Said {
    std::string words, remedy;
    bool of_hosts = false;
    auto operator<=>(const Said&) const = default;
  };
  NamesBy<std::pair<std::string, Said>> by_check;  // hosts by check and words
  for (const Finding& finding : judged.checks) {
    if (!is_listed(finding, status) || told_before.contains(&finding)) continue;
    const std::string& host = finding.at.host.name;
    const bool named = host.empty() || finding.message.find(host) != std::string::npos;
    auto& hosts = by_check[{finding.name, {finding.message, finding.remedy, !named}}];
    if (!named) hosts.push_back(host);
  }
  NamesBy<Said> entries;  // checks by all that is said
  std::map<std::string, size_t> count, left_out;
  for (const auto& [key, hosts] : by_check.groups()) {
    const auto& [check, said] = key;
    if (count[check]++ >= kMostEntries && !style.whole) {
      ++left_out[check];
      continue;
    }
    Said whole = said;
    if (said.of_hosts) whole.words = format("{}: {}", folded_hosts(hosts), said.words);
    entries[whole].push_back(check);
  }
  NamesBy<std::string> lines;  // by remedy
  for (const auto& [said, checks] : entries.groups())
    lines[said.remedy].push_back(format("{}: {}", joined(checks), said.words));
  std::string text;
  for (const auto& [remedy, all] : lines.groups()) {
    for (const std::string& line : all) text += "  " + wrapped(line, 4, width);
    if (!remedy.empty()) text += "    " + wrapped("-> " + remedy, 7, width);
  }
  for (const auto& [check, more] : left_out)
    text += "  " + wrapped(format("{}: and {} more", check, more), 4, width);
  return text.empty() ? text : format("{}:\n", title) + text;
}

std::vector<std::string> hosts_at_fault(const Judgement& judged) {
  std::vector<std::string> names;
  for (const Culprit& culprit : judged.culprits)
    if (culprit.host.named()) names.push_back(culprit.host.name);
  if (judged.culprits.empty())
    for (const Finding& finding : judged.checks)
      if (finding.status == FindingStatus::fail && finding.at.kind == SubjectKind::host &&
          finding.at.host.named())
        names.push_back(finding.at.host.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::string verdict_coloured(const Verdict& verdict, const Console* console,
                             const std::string& words) {
  if (console == nullptr) return words;
  const char* const colour = verdict.ok() ? "32" : verdict.incomplete() ? "1;33" : "1;31";
  const size_t end = words.find_last_not_of('\n') + 1;
  return console->out_colour(colour, words.substr(0, end)) + words.substr(end);
}

std::string verdict_words(const Judgement& judged, size_t hosts, const std::string& summary) {
  const Verdict& verdict = judged.verdict;
  if (verdict.ok()) return "passed";
  if (verdict.incomplete()) return "passed, but not everything that was asked for was tested";
  std::string text = "FAILED";
  if (verdict.error()) return text + ", the run broke off";
  if (verdict.code() != ErrorCode::failed) text += format(" ({})", base::code_name(verdict.code()));
  if (const auto bad = hosts_at_fault(judged); !bad.empty() && hosts > 1)
    text += format(": {} of {} ({})", bad.size(), counted(hosts, "host"), folded_hosts(bad));
  return summary.empty() ? text : format("{}: {}", text, summary);
}

std::string document_text(const Document& document, const TextStyle& style) {
  if (document.own_text) return document.own_text(style);
  const size_t width = std::max(style.width, kLeastWidth);
  std::string text;
  if (!style.quiet) text = wrapped(document.heading, 2, width);
  add_parts(document, false, style, width, text);
  std::set<const Finding*> told;
  const Judgement& judged = document.judged;
  add_block(text, culprits_text(judged, width, told));
  add_block(text, findings_text(judged, FindingStatus::fail, "failed", style, width, told));
  add_block(text, findings_text(judged, FindingStatus::warn, "to know", style, width, told));
  add_block(text,
            findings_text(judged, FindingStatus::not_tested, "not tested", style, width, told));
  add_parts(document, true, style, width, text);
  text = shown(std::move(text));
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
