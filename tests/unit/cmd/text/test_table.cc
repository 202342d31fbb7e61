#include "cmd/text/table.h"

#include <algorithm>
#include <sstream>

#include "tests/catch.h"

namespace text_table_tests {

using namespace collctl::cmd;

namespace {

const std::vector<TableColumn> kColumns{
    {.title = "size", .unit = "(B)", .cells = {"8", "1024"}},
    {.title = "algo", .left = true, .cells = {"ring", "tree-split"}},
    {.title = "time", .unit = "(us)", .cells = {"7.1", "12.25"}},
    {.title = "why", .left = true, .cells = {"short", "a reason that goes on for long enough"}}};

size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t most = 0;
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

}  // namespace

TEST_CASE("a table has titles, units and all of its columns where they fit", "[cmd]") {
  CHECK(table_text(kColumns, {"algo"}, kNoWidth) ==
        "#size  algo         time  why\n"
        "# (B)               (us)\n"
        "    8  ring          7.1  short\n"
        " 1024  tree-split  12.25  a reason that goes on for long enough\n");
}

TEST_CASE("columns have their side and their unit by their titles", "[cmd]") {
  const auto columns = titled({"<host", "NCCL|GB/s", "<"});
  REQUIRE(columns.size() == 3);
  CHECK((columns[0].title == "host" && columns[0].unit.empty() && columns[0].left));
  CHECK((columns[1].title == "NCCL" && columns[1].unit == "GB/s" && !columns[1].left));
  CHECK((columns[2].title.empty() && columns[2].unit.empty() && columns[2].left));
}

TEST_CASE("a table that is too wide leaves columns out and says so", "[cmd]") {
  CHECK(table_text(kColumns, {"algo"}, 51) ==
        "#size   time  why\n"
        "# (B)   (us)\n"
        "    8    7.1  short\n"
        " 1024  12.25  a reason that goes on for long enough\n"
        "# Columns left out: algo (see --wide)\n");
  // The last one wraps before it goes.
  CHECK(table_text(kColumns, {"algo"}, 40) ==
        "#size   time  why\n"
        "# (B)   (us)\n"
        "    8    7.1  short\n"
        " 1024  12.25  a reason that goes on for\n"
        "              long enough\n"
        "# Columns left out: algo (see --wide)\n");
  CHECK(table_text(kColumns, {"algo"}, 30) ==
        "#size   time\n"
        "# (B)   (us)\n"
        "    8    7.1\n"
        " 1024  12.25\n"
        "# Columns left out: algo, why (see --wide)\n");
}

TEST_CASE("a matrix that is too wide goes on in blocks of equal size", "[cmd]") {
  TextMatrix matrix{.indent = "  ", .rows = {.title = "from", .left = true, .cells = {"a", "b"}}};
  for (const char* name : {"n0", "n1", "n2", "n3"})
    matrix.columns.push_back({.title = name, .cells = {"1.5", "-"}});
  CHECK(matrix_text(matrix, 26) ==
        "  from   n0   n1   n2   n3\n"
        "  a     1.5  1.5  1.5  1.5\n"
        "  b       -    -    -    -\n");
  CHECK(matrix_text(matrix, 25) ==
        "  from   n0   n1\n"
        "  a     1.5  1.5\n"
        "  b       -    -\n"
        "\n"
        "  from   n2   n3\n"
        "  a     1.5  1.5\n"
        "  b       -    -\n");
  for (size_t width = 11; width < 30; ++width)
    CHECK(widest_line(matrix_text(matrix, width)) <= width);
  CHECK(widest_line(matrix_text(matrix, 1)) == 11);  // a column is the least
}

}  // namespace text_table_tests
