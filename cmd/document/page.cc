// A report as one page (HTML): the verdict and who is at fault first, hosts by checks, pictures,
// then everything. It needs no other file and no network, follows the reader's choice of light or
// dark, and nothing that a host says is markup in it.
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/markup.h"
#include "cmd/document/document.h"
#include "cmd/document/judgement.h"
#include "cmd/text/hosts.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostFindings = 200;  // in words; all of them are in the table at the end
constexpr size_t kMostPlainHosts = 40;

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark;--page:#ffffff;--text:#1c2430;--muted:#566273;--line:#d5dbe3;--head:#f1f4f8;
--good:#1b6e2c;--good-page:#e4f4e6;--bad:#a80f22;--bad-page:#fde7e9;--odd:#7a5200;--odd-page:#fff3d6}
@media (prefers-color-scheme:dark){:root{--page:#14181e;--text:#e7ebf1;--muted:#a3aebd;--line:#364150;--head:#1f262f;
--good:#7bd88f;--good-page:#16301d;--bad:#ff8b95;--bad-page:#401a20;--odd:#f2c35e;--odd-page:#3a2f14}}
body{font:14px/1.5 "DejaVu Sans",Verdana,"Segoe UI",Helvetica,Arial,sans-serif;margin:2em auto;padding:0 1.5em;
max-width:1200px;background:var(--page);color:var(--text)}
h1{font-size:1.4em;margin-bottom:.4em}
h2{font-size:1.1em;margin:1.8em 0 .5em}
.verdict{padding:.6em .9em;border-radius:6px;font-weight:bold;margin:.4em 0}
.ok{color:var(--good)}.verdict.ok{background:var(--good-page)}
.bad{color:var(--bad)}.verdict.bad{background:var(--bad-page)}
.part{color:var(--odd)}.verdict.part{background:var(--odd-page)}
.muted{color:var(--muted)}
li{margin:.35em 0}
li b{margin-right:.4em}
.remedy{display:block;color:var(--muted)}
pre{font:12px/1.4 "DejaVu Sans Mono",Consolas,Menlo,monospace;overflow-x:auto}
.wide{overflow-x:auto;margin:.6em 0}
svg{max-width:100%;height:auto;display:block;margin:.5em 0}
table{border-collapse:collapse;font-size:12.5px}
th,td{border:1px solid var(--line);padding:3px 8px;text-align:left;vertical-align:top}
th{background:var(--head);font-weight:600}
td.number{text-align:right}
td.ok{background:var(--good-page)}td.bad{background:var(--bad-page);font-weight:bold}td.part{background:var(--odd-page)}
details{margin:1.2em 0}
summary{cursor:pointer;font-weight:600}
@media print{details>*{display:block}}
)";

std::string escaped(const std::string& text) {
  return base::escaped_markup(text, [](char c) -> std::string {
    if (c == '\'') return "&#39;";
    const bool control = (uint8_t(c) < ' ' && c != '\n' && c != '\t') || c == 0x7f;
    return std::string(1, control ? '?' : c);
  });
}

bool is_figure(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos;
}

// The colour of a cell by its word; null: none.
const char* colour_of(const std::string& cell) {
  if (cell == "fail" || cell == "FAIL") return "bad";
  if (cell == "pass" || cell == "ok") return "ok";
  if (cell == "warn" || cell == "not-tested" || cell == "not tested" || cell == "not run" ||
      cell == "left out")
    return "part";
  // As a table of the terminal marks what fails, and what is odd or slow.
  if (cell.ends_with(" !")) return "bad";
  if (cell.ends_with(" *")) return "part";
  return is_figure(cell) ? "number" : nullptr;
}

std::string table(const std::vector<std::string>& titles,
                  const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string html = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& title : titles) html += format("<th>{}</th>", escaped(title));
  for (const auto& row : rows) {
    html += "</tr>\n<tr>";
    for (const std::string& cell : row) {
      const char* colour = colour_of(cell);
      html += colour == nullptr ? format("<td>{}</td>", escaped(cell))
                                : format("<td class=\"{}\">{}</td>", colour, escaped(cell));
    }
  }
  return html + "</tr>\n</table></div>\n";
}

std::string verdict_html(const Document& document) {
  const Verdict& verdict = document.judged.verdict;
  const auto& error = verdict.error();
  return format("<p class=\"verdict {}\">{}{}</p>\n",
                verdict.ok()           ? "ok"
                : verdict.incomplete() ? "part"
                                       : "bad",
                escaped(verdict_words(document.judged, document.hosts.size(), document.summary)),
                error ? ": " + escaped(error->chain()) : "");
}

// A list item with its remedy below.
std::string item(const char* colour, const Section::Entry& entry) {
  std::string html;
  for (const auto& [head, words] : entry.lines)
    html += format("{}<b class=\"{}\">{}</b>{}", html.empty() ? "" : "<br>\n", colour,
                   escaped(head), escaped(words));
  return format("<li>{}{}</li>\n", html,
                entry.remedy.empty()
                    ? ""
                    : format("<span class=\"remedy\">&rarr; {}</span>", escaped(entry.remedy)));
}

std::string findings_html(const Judgement& judged) {
  std::vector<Section> sections = sections_of(judged, kMostFindings);
  // Where a document has no checks its verdict has the words.
  if (judged.checks.empty() && !judged.verdict.reasons().empty()) {
    Section& why = sections.emplace_back(Section{.title = "why"});
    for (const Reason& reason : judged.verdict.reasons())
      why.entries.push_back({.lines = {{reason.code, reason.message}}});
  }
  std::string html;
  for (const Section& section : sections) {
    const std::string_view title = section.title;
    html += format("<h2>{}{}</h2>\n<ul>\n", char(std::toupper(title[0])), title.substr(1));
    for (const Section::Entry& entry : section.entries)
      html += item(title == "to know" || title == "not tested" ? "part" : "bad", entry);
    html += "</ul>\n";
  }
  return html;
}

// Table for documents without one: the worst of each check on each host. A link counts at the host
// that it starts from.
HostTable hosts_by_checks(const std::vector<Finding>& checks) {
  HostTable made;
  std::vector<Host> hosts;
  std::map<std::pair<Host, std::string>, FindingStatus> worst;
  const auto add = [](auto& list, const auto& name) {
    if (std::ranges::find(list, name) == list.end()) list.push_back(name);
  };
  const auto rank = [](FindingStatus status) {
    return status == FindingStatus::fail         ? 3
           : status == FindingStatus::not_tested ? 2
           : status == FindingStatus::warn       ? 1
                                                 : 0;
  };
  for (const Finding& finding : checks) {
    if (!finding.at.host.named()) continue;
    if (finding.status == FindingStatus::not_tested && finding.code == ErrorCode{}) continue;
    add(hosts, finding.at.host);
    add(made.checks, finding.name);
    const auto at = worst.try_emplace({finding.at.host, finding.name}, finding.status).first;
    if (rank(finding.status) > rank(at->second)) at->second = finding.status;
  }
  for (const Host& host : hosts) {
    std::vector<std::string>& row = made.rows.emplace_back();
    row.push_back(host.name);
    for (const std::string& check : made.checks) {
      const auto at = worst.find({host, check});
      row.push_back(at == worst.end()                   ? "-"
                    : at->second == FindingStatus::pass ? "ok"
                    : at->second == FindingStatus::fail ? "FAIL"
                                                        : status_word(at->second));
    }
  }
  return made;
}

std::string details(const std::string& summary, const std::string& html) {
  return html.empty() ? ""
                      : format("<details>\n<summary>{}</summary>\n{}</details>\n", summary, html);
}

// Bad hosts first; many with nothing to say are folded.
std::string hosts_html(HostTable hosts) {
  if (hosts.rows.empty() || hosts.checks.empty()) return "";
  const auto failures = [](const auto& row) {
    return std::count(row.begin() + 1, row.end(), "FAIL");
  };
  auto& rows = hosts.rows;
  std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) {
    return failures(a) != failures(b) ? failures(a) > failures(b)
                                      : !HostTable::is_plain(a) && HostTable::is_plain(b);
  });
  const auto first_plain = std::ranges::find_if(rows, HostTable::is_plain);
  std::vector<std::vector<std::string>> folded;
  if (size_t(rows.end() - first_plain) > kMostPlainHosts) {
    folded.assign(first_plain, rows.end());
    rows.erase(first_plain, rows.end());
  }
  hosts.checks.insert(hosts.checks.begin(), "host");
  return "<h2>Hosts</h2>\n" + table(hosts.checks, rows) +
         details(format("{} hosts with nothing but ok", folded.size()),
                 table(hosts.checks, folded));
}

// Without the heads of the files that they could be.
std::string pictures(const std::string& svg) {
  std::string html;
  for (size_t at = 0; (at = svg.find("<svg", at)) != std::string::npos;) {
    const size_t end = svg.find("</svg>", at);
    html += "<div class=\"wide\">" + svg.substr(at, end + 6 - at) + "</div>\n";
    at = end;
  }
  return html;
}

// Without columns that say the same nothing everywhere; rows that differ in their host alone are
// one.
Rows for_people(Rows rows) {
  const auto is_nothing = [](const std::string& cell) {
    return cell.empty() || cell == "false" || cell == "[]";
  };
  for (size_t column = rows.titles.size(); column-- > 0;) {
    if (!std::ranges::all_of(rows.cells, [&](const auto& row) { return is_nothing(row[column]); }))
      continue;
    rows.titles.erase(rows.titles.begin() + long(column));
    for (auto& row : rows.cells) row.erase(row.begin() + long(column));
  }
  const auto at = std::ranges::find(rows.titles, "host");
  if (at == rows.titles.end()) return rows;
  const size_t host = size_t(at - rows.titles.begin());
  NamesBy<std::vector<std::string>> alike;
  for (auto& row : rows.cells) {
    const std::string name = std::exchange(row[host], "");
    std::vector<std::string>& names = alike[row];
    if (!name.empty()) names.push_back(name);
  }
  rows.cells.clear();
  for (auto& [row, names] : alike.groups()) {
    row[host] = folded_hosts(names);
    rows.cells.push_back(std::move(row));
  }
  return rows;
}

// --- parts ---

std::string html_of(const Facts& facts) {
  std::string html;
  for (const std::string& line : facts.lines)
    html += (html.empty() ? "" : "<br>\n") + escaped(line);
  return html.empty() ? "" : format("<p>{}</p>\n", html);
}

std::string html_of(const std::vector<TableColumn>& columns) {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows(columns.empty() ? 0 : columns[0].cells.size());
  for (const TableColumn& column : columns) {
    titles.push_back(column.unit.empty() ? column.title
                                         : format("{}, {}", column.title, column.unit));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(column.cells[i]);
  }
  return table(titles, rows);
}

std::string html_of(const Table& made) {
  return html_of(made.columns);
}

std::string html_of(const Grid& grid) {
  std::vector<TableColumn> columns{grid.matrix.rows};
  columns.insert(columns.end(), grid.matrix.columns.begin(), grid.matrix.columns.end());
  const std::string title =
      grid.title.empty() ? "" : format("<p class=\"muted\">{}</p>\n", escaped(grid.title));
  return title + html_of(columns);
}

std::string html_of(const HostTable& hosts) {
  return hosts_html(hosts);
}

std::string html_of(const EvidenceList& measured) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [what, found, against] : measured) rows.push_back({what, found, against});
  return rows.empty()
             ? ""
             : "<h2>What was measured</h2>\n" + table({"what", "found", "held against"}, rows);
}

std::string html_of(const Drawn& drawn) {
  const std::string text = drawn.lines(kNoWidth);
  return text.empty() ? "" : format("<pre>{}</pre>\n", escaped(text));
}

// With all that -v shows.
std::string parts_html(const Document& document, bool after) {
  std::string html, drawn;
  for (const DocumentPart& part : document.parts) {
    if (part.after != after || part.shown == Shown::brief) continue;
    // A matrix that the picture shows is for those who want its figures.
    const bool pictured = std::holds_alternative<Grid>(part.what) && !document.svg.empty();
    (pictured ? drawn : html) +=
        std::visit([](const auto& what) { return html_of(what); }, part.what);
  }
  return html + details("In figures", drawn);
}

}  // namespace

std::string page_of(const Document& document) {
  const std::string title = escaped(document.title);
  std::string html = format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, kPageStyle);
  const Judgement& judged = document.judged;
  if (const std::string made = made_text(judged); !made.empty())
    html += format("<p class=\"muted\">{}</p>\n", escaped(made));
  if (document.has_verdict) html += verdict_html(document) + findings_html(judged);
  const bool has_hosts = std::ranges::any_of(
      document.parts, [](auto& part) { return std::holds_alternative<HostTable>(part.what); });
  if (!has_hosts) html += hosts_html(hosts_by_checks(judged.checks));
  html += parts_html(document, false) + pictures(document.svg) + pictures(document.more_svg) +
          parts_html(document, true);
  if (document.own_text)
    html += format("<pre>{}</pre>\n", escaped(document.own_text({.whole = true})));
  if (const Rows rows = for_people(rows_of(document.json, document.rows)); !rows.cells.empty())
    html += details("Everything that was looked at", table(rows.titles, rows.cells));
  return html + "</body>\n</html>\n";
}

}  // namespace collctl::cmd
