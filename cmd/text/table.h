// Tables that fit a width. A table leaves columns out and says which; a matrix, whose columns are
// all alike, goes on below instead. Pure. Threads: any.
#pragma once
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace collctl::cmd {

inline constexpr size_t kNoWidth = size_t{1} << 20;  // all in one line

struct TableColumn {
  std::string title = {}, unit = {};
  bool left = false;                    // its cells begin at one place; else they end there
  std::vector<std::string> cells = {};  // by row
  size_t width() const;
};

// Columns by their titles: "<host" has cells that begin at one place, "NCCL|GB/s" a unit.
std::vector<TableColumn> titled(std::initializer_list<std::string_view> titles);

// Title lines begin with the mark, others with blanks. Beyond `width` the `expendable` are left out
// in that order, then the last column wraps, or is left out as well; a line at the end names what
// is missing.
std::string table_text(std::vector<TableColumn> columns,
                       const std::vector<std::string_view>& expendable, size_t width,
                       std::string_view mark = "#");

// A line without spaces at its end, and ended.
std::string trimmed(std::string line);

// Words of the text in lines that fit, each after `indent` spaces.
std::string wrapped_text(const std::string& text, size_t indent, size_t width);

// Lines that are longer than a narrow width (less than 80) go on below, behind "#  ".
std::string comment_lines(const std::string& text, size_t width);

struct TextMatrix {
  std::string indent = {};
  TableColumn rows = {};                  // their names, and above them the corner
  std::vector<TableColumn> columns = {};  // without units
};
// Columns that do not fit beside the others stand in further blocks with the same rows.
std::string matrix_text(const TextMatrix& matrix, size_t width);

}  // namespace collctl::cmd
