// Lines out of a byte stream, and the placement of ranks on cores.
#include "base/host_facts.h"
#include "launcher/hosts/placement.h"
#include "launcher/local/lines.h"
#include "tests/catch.h"

namespace local_lines_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

std::string rebuilt(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text + (line.open ? "" : "\n");
  return text;
}

}  // namespace

TEST_CASE("lines are whole however the stream is cut") {
  const std::string text = std::string("one\n\nthree\0with null\r\n", 22) + "last";
  for (size_t step = 1; step <= text.size(); ++step) {
    LineSplitter splitter;
    std::vector<Line> lines;
    for (size_t at = 0; at < text.size(); at += step)
      splitter.feed(std::string_view(text).substr(at, step), lines);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].text == "one");
    CHECK(lines[1].text.empty());
    CHECK(lines[2].text == std::string("three\0with null\r", 16));
    auto last = splitter.finish();
    REQUIRE(last.has_value());
    CHECK(last->text == "last");
    CHECK(last->open);
    CHECK_FALSE(splitter.finish().has_value());
  }
}

TEST_CASE("an endless line is handed out in bounded pieces and no byte is lost") {
  std::string text(3 * kMaxLine + 17, 'x');
  for (size_t i = 0; i < text.size(); i += 251) text[i] = char('a' + i % 7);
  text += "\nnext\n";
  LineSplitter splitter;
  std::vector<Line> lines;
  for (size_t at = 0; at < text.size(); at += 65536)
    splitter.feed(std::string_view(text).substr(at, 65536), lines);
  CHECK_FALSE(splitter.finish().has_value());
  for (const Line& line : lines) CHECK(line.text.size() <= kMaxLine);
  CHECK(lines.size() == 5);
  CHECK(rebuilt(lines) == text);
}

TEST_CASE("a line of exactly the bound is one line") {
  LineSplitter splitter;
  std::vector<Line> lines;
  splitter.feed(std::string(kMaxLine, 'x') + "\n", lines);
  REQUIRE(lines.size() == 1);
  CHECK_FALSE(lines[0].open);
}

TEST_CASE("placement on cores and NUMA nodes") {
  // Two nodes of two physical cores with two threads each: 0-3 and 4-7; the second thread of core
  // 0 is 2, and so on. A third node is not allowed.
  base::Processors machine;
  for (int id = 0; id < 10; ++id)
    machine.online.push_back({.id = id,
                              .package = id / 4,
                              .core = id / 4 * 4 + id % 2,
                              .numa = id / 4,
                              .cache_domain = id / 4 * 4});
  const std::vector<int> allowed{0, 1, 2, 3, 4, 5, 6, 7};
  using Places = std::vector<std::vector<int>>;
  CHECK(place_local(2, BindTo::none, allowed, machine) == Places{{}, {}});
  CHECK(place_local(4, BindTo::core, allowed, machine) == Places{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(place_local(2, BindTo::core, allowed, machine) == Places{{0, 2}, {4, 6}});
  CHECK(place_local(3, BindTo::core, {0, 1, 4}, machine) == Places{{0}, {1}, {4}});
  CHECK(place_local(6, BindTo::core, {0, 1, 4}, machine) == Places{{0}, {0}, {1}, {1}, {4}, {4}});
  CHECK(place_local(4, BindTo::numa, {0, 1, 4, 5}, machine) ==
        Places{{0, 1}, {0, 1}, {4, 5}, {4, 5}});
  CHECK(place_local(3, BindTo::numa, {0, 1, 4, 5}, machine) == Places{{0, 1}, {0, 1}, {4, 5}});
  CHECK(place_local(2, BindTo::core, {3, 5}, {}) == Places{{3}, {5}});
  CHECK(place_local(0, BindTo::core, allowed, machine).empty());
  // All allowed cores are shared out, a rank's on one node; then single threads; then nothing.
  CHECK(place_local(2, BindTo::own, allowed, machine) == Places{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(place_local(3, BindTo::own, allowed, machine) == Places{{0, 2}, {1, 3}, {4, 5, 6, 7}});
  CHECK(place_local(2, BindTo::own, {0, 1, 4}, machine) == Places{{0}, {4}});
  CHECK(place_local(5, BindTo::own, allowed, machine) == Places{{0}, {1, 2}, {3}, {4, 6}, {5, 7}});
  CHECK(place_local(2, BindTo::own, {0, 2}, machine) == Places{{0}, {2}});
  CHECK(place_local(9, BindTo::own, allowed, machine) == Places(9));
  CHECK(place_local(2, BindTo::own, {3}, machine) == Places(2));
  CHECK(place_local(1, BindTo::own, allowed, machine) == Places(1));
  CHECK(place_local(0, BindTo::own, allowed, machine).empty());
  REQUIRE(parse_bind_to("numa").ok());
  CHECK(*parse_bind_to("numa") == BindTo::numa);
  CHECK(parse_bind_to("socket").error().code == ErrorCode::usage);
}

TEST_CASE("the processors of this machine are found") {
  const std::vector<int> cores = base::affinity_cores();
  REQUIRE_FALSE(cores.empty());
  const base::Processors& machine = base::host_processors();
  for (const int core : cores) CHECK(machine.find(core) != nullptr);
}

}  // namespace local_lines_tests
