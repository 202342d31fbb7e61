#include "cmd/text/table.h"

#include <algorithm>

#include "base/format.h"
#include "base/split.h"

namespace collctl::cmd {
namespace {

constexpr const char* kColumnGap = "  ";

std::string padded(const std::string& text, size_t width, bool left) {
  return left ? format("{:<{}}", text, width) : format("{:>{}}", text, width);
}

size_t width_of_columns(const std::vector<TableColumn>& columns) {
  size_t width = 1;  // the # of the titles
  for (const TableColumn& column : columns) width += 2 + column.width();
  return columns.empty() ? 0 : width - 2;
}

// The text in lines of at most `width`, broken at spaces where there are any.
std::vector<std::string> broken(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size() || lines.empty();) {
    size_t end = std::min(text.size(), at + width);
    if (end < text.size()) {
      const size_t space = text.rfind(' ', end);
      if (space != std::string::npos && space > at) end = space;
    }
    lines.push_back(text.substr(at, end - at));
    at = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  return lines;
}

std::string block(const TextMatrix& matrix, size_t begin, size_t end) {
  std::string text;
  for (size_t row = 0; row <= matrix.rows.cells.size(); ++row) {
    const auto at = [&](const TableColumn& column) {
      return padded(row == 0 ? column.title : column.cells[row - 1], column.width(), column.left);
    };
    std::string line = matrix.indent + at(matrix.rows);
    for (size_t i = begin; i < end; ++i) line += kColumnGap + at(matrix.columns[i]);
    text += trimmed(std::move(line));
  }
  return text;
}

}  // namespace

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string wrapped_text(const std::string& text, size_t indent, size_t width) {
  std::string out, line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  return line.empty() ? out : out + std::string(indent, ' ') + line + "\n";
}

size_t TableColumn::width() const {
  size_t most = std::max(title.size(), unit.size());
  for (const std::string& cell : cells) most = std::max(most, cell.size());
  return most;
}

std::vector<TableColumn> titled(std::initializer_list<std::string_view> titles) {
  std::vector<TableColumn> columns;
  for (std::string_view title : titles) {
    TableColumn& column = columns.emplace_back();
    column.left = title.starts_with('<');
    title.remove_prefix(column.left);
    const size_t bar = std::min(title.find('|'), title.size());
    column.title = title.substr(0, bar);
    if (bar < title.size()) column.unit = title.substr(bar + 1);
  }
  return columns;
}

std::string table_text(std::vector<TableColumn> columns,
                       const std::vector<std::string_view>& expendable, size_t width,
                       std::string_view mark) {
  constexpr size_t kReadable = 40, kLeast = 24;  // of a last column that wraps
  std::string left_out;
  const auto leave_out = [&](std::string_view title) {
    if (std::erase_if(columns, [&](const TableColumn& each) { return each.title == title; }) > 0)
      left_out += format("{}{}", left_out.empty() ? "" : ", ", title);
  };
  const auto before_last = [&] { return width_of_columns(columns) - columns.back().width(); };
  const auto room = [&] { return width - std::min(width, before_last()); };
  for (const std::string_view title : expendable)
    if (room() < std::min(columns.back().width(), kReadable)) leave_out(title);
  if (room() < std::min(columns.back().width(), kLeast)) leave_out(columns.back().title);
  const size_t last = columns.size() - 1, last_width = std::max(room(), kLeast);

  std::string titles(mark), units(mark), text;
  for (size_t i = 0; i < columns.size(); ++i) {
    const char* gap = i == 0 ? "" : kColumnGap;
    titles += gap + padded(columns[i].title, columns[i].width(), columns[i].left);
    units += gap + padded(columns[i].unit, columns[i].width(), columns[i].left);
  }
  const bool has_units =
      std::ranges::any_of(columns, [](const TableColumn& each) { return !each.unit.empty(); });
  text = trimmed(titles) + (has_units ? trimmed(units) : "");
  for (size_t row = 0; row < columns[0].cells.size(); ++row) {
    std::string line(mark.size(), ' ');
    for (size_t i = 0; i < last; ++i)
      line += padded(columns[i].cells[row], columns[i].width(), columns[i].left) + kColumnGap;
    const std::string margin(line.size(), ' ');
    const std::string& words = columns[last].cells[row];
    if (!columns[last].left) {
      text += trimmed(line + padded(words, columns[last].width(), false));
      continue;
    }
    for (const std::string& part : broken(words, last_width)) {
      text += trimmed(line + part);
      line = margin;
    }
  }
  if (!left_out.empty())
    text += mark.empty() ? format("Columns left out: {} (a larger COLUMNS has room)\n", left_out)
                         : format("# Columns left out: {} (see --wide)\n", left_out);
  return text;
}

std::string comment_lines(const std::string& text, size_t width) {
  constexpr size_t kUsualWidth = 80, kLeast = 30;
  if (width >= kUsualWidth) return text;
  std::string fitted;
  for (const std::string_view each : base::lines_of(text)) {
    const std::string line(each);
    if (line.size() <= width || line[0] != '#') {
      fitted += line + "\n";
      continue;
    }
    std::string lines =
        wrapped_text(line.substr(line.find_first_not_of("# ")), 4, std::max(width, kLeast));
    for (size_t begin = 0; begin < lines.size(); begin = lines.find('\n', begin) + 1)
      lines[begin] = '#';
    lines.erase(1, 2);  // the first begins as others do
    fitted += lines;
  }
  return fitted;
}

std::string matrix_text(const TextMatrix& matrix, size_t width) {
  const auto& columns = matrix.columns;
  const size_t head = matrix.indent.size() + matrix.rows.width();
  size_t all = head, widest = 1;
  for (const TableColumn& each : columns) {
    all += 2 + each.width();
    widest = std::max(widest, 2 + each.width());
  }
  if (all <= width) return block(matrix, 0, columns.size());
  // As many side by side as fit, evenly spread.
  const size_t most = std::max<size_t>(1, (std::max(width, head) - head) / widest);
  const size_t blocks = (columns.size() + most - 1) / most;
  const size_t each = (columns.size() + blocks - 1) / blocks;
  std::string text;
  for (size_t begin = 0; begin < columns.size(); begin += each)
    text += (begin > 0 ? "\n" : "") + block(matrix, begin, std::min(begin + each, columns.size()));
  return text;
}

}  // namespace collctl::cmd
