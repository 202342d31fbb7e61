#include "cmd/document/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/whole_file.h"
#include "cmd/text/file.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

using Ordered = nlohmann::ordered_json;
using Cells = std::vector<std::pair<std::string, std::string>>;

std::string cell_text(const Ordered& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

// Values of an object; keys of inner objects have their parent's before them.
void add_cells(const Ordered& object, const std::string& parent, Cells& cells) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      add_cells(value, parent + key + ".", cells);
    else
      cells.emplace_back(parent + key, cell_text(value));
  }
}

// Where the list is: of a job that broke off in what was measured before.
Ordered& findings_in(Ordered& all) {
  return all.contains("measured") && all["measured"].is_object() ? all["measured"] : all;
}

Rows rows_in(const Ordered& all, const std::string& key) {
  Rows rows;
  std::vector<Cells> found;
  if (all.contains(key) && all[key].is_array())
    for (const Ordered& entry : all[key]) {
      add_cells(entry, "", found.emplace_back());
      for (const auto& [title, text] : found.back())
        if (std::ranges::find(rows.titles, title) == rows.titles.end())
          rows.titles.push_back(title);
    }
  for (const Cells& cells : found) {
    std::vector<std::string>& row = rows.cells.emplace_back(rows.titles.size());
    for (const auto& [title, text] : cells)
      row[size_t(std::ranges::find(rows.titles, title) - rows.titles.begin())] = text;
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

std::string csv_of(const Document& document) {
  if (!document.csv.empty()) return document.csv;
  const Rows rows = rows_of(document.json, document.rows);
  std::string text = csv_line(rows.titles);
  for (const auto& row : rows.cells) text += csv_line(row);
  return text;
}

std::string lines(const Document& document) {
  Ordered all = Ordered::parse(document.json), list = Ordered::array();
  if (Ordered& from = findings_in(all); from.contains(document.rows)) {
    list = std::move(from[document.rows]);
    from.erase(document.rows);
  }
  std::string text = all.dump() + "\n";
  for (const Ordered& entry : list) text += entry.dump() + "\n";
  return text;
}

std::string json_text(const Document& document) {
  return document.json.ends_with('\n') ? document.json : document.json + "\n";
}

std::string picture_of(const Document& document) {
  return document.svg;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Rows rows_of(const std::string& json, const std::string& key) {
  Ordered all = Ordered::parse(json);
  return rows_in(findings_in(all), key);
}

std::string lists_text(const std::string& json, size_t width) {
  Ordered whole = Ordered::parse(json);
  const Ordered& all = findings_in(whole);
  std::string text;
  for (const auto& [key, value] : all.items())
    if (!value.is_structured()) text += format("# {}: {}\n", key, cell_text(value));
  for (const auto& [key, value] : all.items()) {
    if (!value.is_array() || value.empty() || !value.front().is_object()) continue;
    const Rows rows = rows_in(all, key);
    std::vector<TableColumn> columns;
    for (size_t c = 0; c < rows.titles.size(); ++c) {
      TableColumn column{.title = rows.titles[c], .left = true};
      for (const auto& row : rows.cells) column.cells.push_back(first_line(row[c]));
      // Lists in lists are for programs.
      const bool nested = std::ranges::any_of(column.cells, [](const std::string& cell) {
        return cell.starts_with("[{") || cell.starts_with("[[");
      });
      if (!nested) columns.push_back(std::move(column));
    }
    if (!columns.empty()) text += format("#\n# {}\n", key) + table_text(columns, {}, width);
  }
  return text;
}

Document document_with(std::string json, std::string rows) {
  Document document;
  document.judged = judgement_of(json);
  document.json = std::move(json);
  document.rows = std::move(rows);
  return document;
}

std::span<const FileKind> file_kinds() {
  static constexpr FileKind kKinds[] = {
      {Format::json, ".json", json_text},
      {Format::jsonl, ".jsonl", lines},
      {Format::csv, ".csv", csv_of},
      {Format::html, ".html", page_of},
      {Format::svg, ".svg", picture_of, {.pictures = true}},
      {Format::junit, ".xml", junit_of, {.monitoring = true}},
      {Format::prometheus, ".prom", prometheus_of, {.monitoring = true}}};
  return kKinds;
}

std::vector<FileKind> file_kinds_of(FileKinds kinds) {
  std::vector<FileKind> list(file_kinds().begin(), file_kinds().end());
  std::erase_if(list, [&](const FileKind& kind) {
    return (kind.only.pictures && !kinds.pictures) || (kind.only.monitoring && !kinds.monitoring);
  });
  return list;
}

std::string document_as(Format format, const Document& document) {
  const auto kind = std::ranges::find(file_kinds(), format, &FileKind::format);
  return kind == file_kinds().end() ? csv_of(document) : kind->made(document);
}

Status write_documents(const std::vector<OutputFile>& files, const Document& document) {
  Status first;
  for (const OutputFile& file : files) {
    Status written =
        file.format == Format::svg && document.svg.empty()
            ? Error(ErrorCode::unavailable,
                    format("cannot write {}: there is nothing to draw", file.path))
            : base::write_file_atomically(file.path, document_as(file.format, document));
    if (!written && first) first = std::move(written);
  }
  return first;
}

void print_document(const Document& document, const OutputOptions& output, Console& console) {
  const size_t width = output.wide ? kNoWidth : size_t(console.out_width());
  console.out(output.format == Format::text
                  ? document_text(document, {.width = width,
                                             .whole = output.verbosity > 0,
                                             .quiet = output.quiet,
                                             .console = &console})
                  : document_as(output.format, document));
}

Status deliver(const Document& document, const OutputOptions& output, Console& console) {
  print_document(document, output, console);
  return write_documents(output.files, document);
}

}  // namespace collctl::cmd
