#include "cmd/report/document_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cmd/report/report.h"

namespace collctl::cmd {
namespace {

using Ordered = nlohmann::ordered_json;
using Cells = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark}
body{font:14px/1.45 "DejaVu Sans",Verdana,"Segoe UI",Helvetica,Arial,sans-serif;margin:2em;
background:Canvas;color:CanvasText}
h1{font-size:1.3em}
.ok{color:#2e7d32;font-weight:bold}
.bad{color:#c4162a;font-weight:bold}
pre{font:12px/1.35 "DejaVu Sans Mono",Consolas,Menlo,monospace;overflow-x:auto}
svg{max-width:100%;height:auto}
div{overflow-x:auto}
table{border-collapse:collapse;font-size:12px}
th,td{border:1px solid #9aa4b2;padding:2px 7px;text-align:left;vertical-align:top}
td.number{text-align:right}
)";

std::string cell_text(const Ordered& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// What an object holds, the keys of objects inside with their parent's before them.
void add_cells(const Ordered& object, const std::string& parent, Cells& cells) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      add_cells(value, parent + key + ".", cells);
    else
      cells.emplace_back(parent + key, cell_text(value));
  }
}

struct Rows {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> cells;  // by row and title
};

Rows rows_of(const Ordered& all, const std::string& key) {
  Rows rows;
  std::vector<Cells> found;
  if (all.contains(key))
    for (const Ordered& entry : all[key]) {
      add_cells(entry, "", found.emplace_back());
      for (const auto& [title, text] : found.back())
        if (std::find(rows.titles.begin(), rows.titles.end(), title) == rows.titles.end())
          rows.titles.push_back(title);
    }
  for (const Cells& cells : found) {
    std::vector<std::string>& row = rows.cells.emplace_back(rows.titles.size());
    for (const auto& [title, text] : cells)
      row[size_t(std::find(rows.titles.begin(), rows.titles.end(), title) -
                 rows.titles.begin())] = text;
  }
  return rows;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string text = cells[i];
    if (text.find_first_of(",\"\n\r") != std::string::npos) {
      for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
        text.insert(at, 1, '"');
      text = '"' + text + '"';
    }
    line += (i == 0 ? "" : ",") + text;
  }
  return line + "\n";
}

std::string html_escaped(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

bool is_figure(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos;
}

std::string html_table(const Rows& rows) {
  if (rows.cells.empty()) return "";
  std::string html = "<div><table>\n<tr>";
  for (const std::string& title : rows.titles) html += format("<th>{}</th>", html_escaped(title));
  for (const auto& row : rows.cells) {
    html += "</tr>\n<tr>";
    for (const std::string& cell : row)
      html += format("<td{}>{}</td>",
                     cell == "fail"    ? " class=\"bad\""
                     : is_figure(cell) ? " class=\"number\""
                                       : "",
                     html_escaped(cell));
  }
  return html + "</tr>\n</table></div>\n";
}

// The verdict, or the error of a run that broke off.
std::string html_verdict(const Ordered& all) {
  if (!all.contains("verdict"))
    return all.contains("message")
               ? format("<p class=\"bad\">{}</p>\n", html_escaped(cell_text(all["message"])))
               : "";
  const Ordered& verdict = all["verdict"];
  if (verdict.value("ok", false)) return "<p class=\"ok\">passed</p>\n";
  std::string text;
  for (const Ordered& reason : verdict.value("reasons", Ordered::array()))
    text += format("<p class=\"bad\">{}</p>\n", html_escaped(cell_text(reason["message"])));
  return text.empty() ? "<p class=\"bad\">not passed</p>\n" : text;
}

std::string page(const Document& document, const Ordered& all) {
  const std::string title = html_escaped(document.title);
  std::string html = format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      title, kPageStyle);
  html += html_verdict(all);
  html += document.svg.substr(std::min(document.svg.find("<svg"), document.svg.size()));
  if (!document.text.empty()) html += format("<pre>{}</pre>\n", html_escaped(document.text));
  return html + html_table(rows_of(all, document.rows)) + "</body>\n</html>\n";
}

std::string lines(const Document& document, Ordered all) {
  Ordered list = Ordered::array();
  if (all.contains(document.rows)) {
    list = std::move(all[document.rows]);
    all.erase(document.rows);
  }
  std::string text = all.dump() + "\n";
  for (const Ordered& entry : list) text += entry.dump() + "\n";
  return text;
}

}  // namespace

std::string document_as(Format format, const Document& document) {
  if (format == Format::json)
    return document.json.ends_with('\n') ? document.json : document.json + "\n";
  if (format == Format::svg) return document.svg;
  Ordered all = Ordered::parse(document.json);
  if (!document.list.empty()) all[document.rows] = Ordered::parse(document.list);
  if (format == Format::html) return page(document, all);
  if (format == Format::jsonl) return lines(document, all);
  const Rows rows = rows_of(all, document.rows);
  std::string text = csv_line(rows.titles);
  for (const auto& row : rows.cells) text += csv_line(row);
  return text;
}

Status write_documents(const std::vector<OutputFile>& files, const Document& document) {
  Status first;
  for (const OutputFile& file : files) {
    Status written = write_file_atomically(file.path, document_as(file.format, document));
    if (!written && first) first = std::move(written);
  }
  return first;
}

}  // namespace collctl::cmd
