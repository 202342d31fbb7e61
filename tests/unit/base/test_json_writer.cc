#include "base/json_writer.h"

#include <vector>

#include "tests/catch.h"

namespace base_json_writer_tests {

using collctl::JsonWriter;

TEST_CASE("lists have values, or objects that somebody fills", "[json_writer]") {
  const std::vector<int> numbers{1, 2};
  JsonWriter json;
  json.begin_object().list("as_they_are", numbers).list("none", std::vector<int>());
  json.list("twice", numbers, [](int each) { return 2 * each; });
  json.objects("objects", numbers, [&](int each) { json.field("n", each); });
  CHECK(json.end_object().take() ==
        R"({"as_they_are":[1,2],"none":[],"twice":[2,4],"objects":[{"n":1},{"n":2}]})");
}

TEST_CASE("a field is null where nothing is known", "[json_writer]") {
  JsonWriter json;
  json.begin_object().field_or_null("a", true, 3).field_or_null("b", false, 3);
  CHECK(json.end_object().take() == R"({"a":3,"b":null})");
}

}  // namespace base_json_writer_tests
