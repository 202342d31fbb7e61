// docs/json.md beside the reports that are kept in tests/golden: a key of any of them that the page
// does not name, or names with another type, fails.
#include <regex>

#include "tests/unit/cmd/json_page.h"

namespace golden_page_tests {

using namespace collctl::cmd::testing;
namespace fs = std::filesystem;

TEST_CASE("docs/json.md knows every key of the golden reports", "[golden]") {
  std::set<std::string> schemas;
  for (const auto& file : fs::recursive_directory_iterator(
           fs::path(collctl::test::source_folder()) / "tests/golden")) {
    if (file.path().extension() != ".json") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    // Figures that differ from run to run stand there as N.
    const auto document =
        nlohmann::json::parse(std::regex_replace(text.str(), std::regex("\":N\\b"), "\":0"));
    if (!document.is_object() || !document.contains("schema")) continue;  // a trace
    const std::string schema = document["schema"];
    INFO(file.path().string() << ", " << schema);
    schemas.insert(schema);
    CHECK(table_of(schema).size() >= 2);
    CHECK(unknown(document) == "");
  }
  CHECK(schemas.size() >= 14);
}

}  // namespace golden_page_tests
