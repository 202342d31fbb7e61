// Mutated topology files: never a crash or a hang, every refusal has a position, and whatever was
// taken survives a write and a read. The seed is fixed; each case can be repeated.
#include <algorithm>
#include <cstdio>
#include <random>

#include "tests/catch.h"
#include "tests/unit/topology/data_files.h"
#include "topology/detect/inspect.h"
#include "topology/graph/decide.h"
#include "topology/xml/xml.h"

namespace xml_xml_fuzz_tests {

using namespace collctl::topology;

namespace {

// Pieces that a file is cut and glued at.
const char* const kPieces[] = {"<",
                               ">",
                               "/>",
                               "\"",
                               "&#10;",
                               "&#0;",
                               "-1",
                               "0x",
                               "<pci>",
                               "</pci>",
                               "<gpu",
                               "=\"\"",
                               "<!--",
                               "-->",
                               "<![CDATA[",
                               "]]>",
                               "<?xml?>",
                               "\xff\xfe",
                               "1e999",
                               "<!DOCTYPE a [<!ENTITY b \"c\">]>",
                               "18446744073709551616"};

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : size_t(random()) % limit; };
  for (size_t change = 0, changes = 1 + below(6); change < changes; ++change) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(below(200), text.size() - at);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = char(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(below(text.size() + 1), 200));
        break;
      case 3:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 4:
      case 5:
      case 6:
        // A digit for a digit: well-formed, with other numbers and addresses in it.
        if (const size_t digit = text.find_first_of("0123456789", at); digit != text.npos)
          text[digit] = "0123456789abcdef-x"[below(18)];
        break;
      default:
        text.replace(at, length, kPieces[below(std::size(kPieces))]);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("mutated files are refused with a position or taken whole") {
  std::vector<std::string> texts;
  for (const auto& path : data_files()) texts.push_back(data_text(path));
  int taken = 0, refused = 0, planned = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    const std::string text = mutated(texts[seed % texts.size()], random);
    const auto read = read_xml(text, "f.xml");
    if (!read.ok()) {
      ++refused;
      const std::string& message = read.error().message;
      int line = 0, column = 0;
      if (std::sscanf(message.c_str(), "f.xml:%d:%d: ", &line, &column) != 2 || line < 1 ||
          column < 1 || size_t(line) > size_t(std::count(text.begin(), text.end(), '\n')) + 1)
        FAIL("seed " << seed << ": no position in: " << message);
      continue;
    }
    ++taken;
    const auto again = read_xml(write_xml(read->system), "again");
    if (!again.ok()) FAIL("seed " << seed << ": written file refused: " << again.error().message);
    if (!(again->system == read->system)) FAIL("seed " << seed << ": not equal after writing");
    // A file that was taken can be planned with, or is refused as a whole; never a crash or a hang.
    const auto graph = make_graph(read->system, "f.xml");
    if (!graph.ok()) continue;
    ++planned;
    const Paths paths = effective_paths(*graph, base_paths(*graph), {});
    for (const int a : paths.endpoints())
      for (const int b : paths.endpoints())
        if (paths.at(a, b).gbps < 0 || paths.at(a, b).hops > 200) FAIL("seed " << seed);
    if (inspect(read->system, "f.xml").size() > kMaxFindings) FAIL("seed " << seed);
  }
  // Both happen often, or the mutations prove nothing.
  CHECK(taken > 200);
  CHECK(refused > 1000);
  CHECK(planned > 150);
}

}  // namespace xml_xml_fuzz_tests
