// Files that set variables for all jobs (base/site_files.h): their contents. The right to write
// them, and the order in which they count: tests/cli/test_site_files.cc.
#include "base/site_files.h"
#include "tests/catch.h"

namespace site_files_tests {

using namespace collctl;
using base::parse_site_text;

TEST_CASE("a site file is lines of NAME=VALUE") {
  const auto said = parse_site_text(
      "# a comment\n\nNCCL_ALGO=ring\r\nFI_PROVIDER=tcp;ofi_rxm\nNCCL_IB_HCA==mlx5_0\n"
      "NCCL_PROTO=\nNCCL_ALGO=tree\nNCCL_NET=a # b");
  REQUIRE(said.problems.empty());
  REQUIRE(said.lines.size() == 5);
  CHECK(said.lines[0].name == "NCCL_ALGO");
  CHECK(said.lines[0].value == "ring");  // the first of two
  CHECK(said.lines[1].value == "tcp;ofi_rxm");
  CHECK(said.lines[2].value == "=mlx5_0");
  CHECK(said.lines[3].value.empty());
  CHECK(said.lines[4].value == "a # b");  // as NCCL: only a line begins a comment
}

TEST_CASE("lines of a site file that set nothing are told by their number") {
  using namespace std::string_literals;
  const auto said =
      parse_site_text("NCCL_ALGO\n=x\n NCCL_A=1\nNCCL_B =1\nexport C=1\n9A=1\nA=\0b\n"s +
                      std::string(5000, 'A') + "=1\nNCCL_OK=1\n");
  REQUIRE(said.lines.size() == 1);
  CHECK(said.lines[0].name == "NCCL_OK");
  REQUIRE(said.problems.size() == 8);
  for (int line = 1; line <= 6; ++line)
    CHECK(said.problems[size_t(line - 1)] == "line " + std::to_string(line) + " is not NAME=VALUE");
  CHECK(said.problems[6] == "line 7 is longer than 4096 bytes, or no text");
  CHECK(said.problems[7] == "line 8 is longer than 4096 bytes, or no text");
}

TEST_CASE("any bytes as a site file") {
  uint32_t x = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      x = x * 1664525 + 1013904223;
      text += "A=\n#\r_9 \0\xff"[(x >> 16) % 10];
    }
    for (const auto& line : parse_site_text(text).lines) {
      CHECK(!line.name.empty());
      CHECK(line.name.find_first_not_of("A_9") == std::string::npos);
      CHECK(line.value.find('\n') == std::string::npos);
    }
  }
}

}  // namespace site_files_tests
