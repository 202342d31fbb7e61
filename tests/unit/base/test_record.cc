// Records by one description: what is written is read again, and mistakes are named.
#include "base/record.h"

#include <functional>
#include <limits>

#include "base/format.h"
#include "tests/catch.h"

namespace base_record_tests {

using namespace collctl;

namespace {

enum class Colour : uint8_t { red, green };
const char* colour_word(Colour colour) {
  return colour == Colour::red ? "red" : "green";
}

struct Part {
  int64_t low = 0;
  uint64_t high = 0;
};
struct Sample {
  static constexpr const char* kRecord = "sample";
  bool flag = false;
  int small = 0;
  uint16_t port = 0;
  double figure = 0;
  std::string text;
  Colour colour = Colour::red;
  Colour by_number = Colour::red;
  Part part;
  std::vector<Part> parts;
  std::vector<std::vector<int>> teams;
  std::vector<std::string> words;
  std::optional<int> maybe, may_miss;
  std::string inner = "{}";
};

void fields(Record& io, Part& part) {
  io.field("low", part.low);
  io.field("high", part.high);
}

void fields(Record& io, Sample& sample) {
  io.field("flag", sample.flag);
  io.field("small", sample.small, -3, 7);
  io.field("port", sample.port);
  io.field("figure", sample.figure, -1, 1);
  io.field("text", sample.text, 8);
  io.name("colour", sample.colour, 2, colour_word);
  io.number("by_number", sample.by_number, 2);
  io.field("part", sample.part);
  io.field("parts", sample.parts, 2);
  io.list("teams", sample.teams, [&](std::vector<int>& team) { io.field("teams", team); });
  io.field("words", sample.words, 3, 4);
  io.field("maybe", sample.maybe, 0, 9);
  io.unless_empty("may_miss", sample.may_miss, 0, 9);
  io.document("inner", sample.inner);
}

Sample full() {
  Sample sample;
  sample.flag = true;
  sample.small = -3;
  sample.port = 65535;
  sample.figure = 0.1234567890123;
  sample.text = "a\"\n\xc3\xa9";
  sample.colour = sample.by_number = Colour::green;
  sample.part = {std::numeric_limits<int64_t>::min(), std::numeric_limits<uint64_t>::max()};
  sample.parts = {{1, 2}, {-1, 0}};
  sample.teams = {{0, 1}, {}, {2}};
  sample.words = {"a", "bcde"};
  sample.maybe = 9;
  sample.may_miss = 0;
  sample.inner = R"({"k":[1,null]})";
  return sample;
}

}  // namespace

TEST_CASE("json record: what is written is read again, exactly") {
  const std::string text = json_of(full());
  const auto back = record_of<Sample>(text);
  REQUIRE(back.ok());
  CHECK(json_of(*back) == text);
  CHECK(back->figure == full().figure);
  CHECK(back->part.high == full().part.high);
  CHECK(back->part.low == full().part.low);
  CHECK(back->teams == full().teams);
  CHECK(back->colour == Colour::green);
  CHECK(text.starts_with(R"({"flag":true,"small":-3,"port":65535,)"));  // in the order of fields
  const std::string empty = json_of(Sample());
  CHECK(empty.find(R"("maybe":null)") != std::string::npos);
  CHECK(empty.find("may_miss") == std::string::npos);
  const auto none = record_of<Sample>(empty);
  REQUIRE(none.ok());
  CHECK_FALSE(none->maybe);
  CHECK_FALSE(none->may_miss);
  // Bytes that are no text are replaced.
  Sample odd;
  odd.text = "\xff";
  CHECK(record_of<Sample>(json_of(odd))->text == "\xef\xbf\xbd");
}

TEST_CASE("json record: every mistake is an error that names the field") {
  const std::string good = json_of(full());
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> cases = {
      {"flag", {"\"flag\":true", "\"flag\":1"}},
      {"small", {"\"small\":-3", "\"small\":-4"}},
      {"small", {"\"small\":-3", "\"small\":8"}},
      {"small", {"\"small\":-3", "\"small\":1.5"}},
      {"small", {"\"small\":-3", "\"small\":\"1\""}},
      {"small", {"\"small\":-3", "\"small\":18446744073709551615"}},
      {"port", {"65535", "65536"}},
      {"port", {"65535", "-1"}},
      {"figure", {"0.1234567890123", "1.5"}},
      {"figure", {"0.1234567890123", "null"}},
      {"text", {"\"text\":\"a", "\"text\":\"123456789"}},
      {"colour", {"\"green\"", "\"blue\""}},
      {"by_number", {"\"by_number\":1", "\"by_number\":2"}},
      {"part", {"\"part\":{", "\"part\":7,\"x\":{"}},
      {"low", {"\"low\":1,", "\"low\":true,"}},
      {"high", {"\"high\":2", "\"high\":-2"}},
      {"parts", {"\"parts\":[", "\"parts\":[{\"low\":0,\"high\":0},"}},
      {"teams", {"[2]", "[\"2\"]"}},
      {"teams", {"[2]", "2"}},
      {"words", {"\"bcde\"", "\"bcdef\""}},
      {"words", {"\"bcde\"", "\"b\",\"c\",\"d\""}},
      {"maybe", {"\"maybe\":9", "\"maybe\":10"}},
      {"maybe", {"\"maybe\":9", "\"perhaps\":9"}},
      {"may_miss", {"\"may_miss\":0", "\"may_miss\":-1"}},
      {"inner", {"{\"k\"", "[],\"x\":{\"k\""}}};
  for (const auto& [name, change] : cases) {
    INFO(name << ": " << change.second);
    std::string bad = good;
    const size_t at = bad.find(change.first);
    REQUIRE(at != std::string::npos);
    bad.replace(at, change.first.size(), change.second);
    const auto read = record_of<Sample>(bad);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::usage);
    CHECK(read.error().message.find("'" + name + "'") != std::string::npos);
  }
}

TEST_CASE("json record: what is no object is refused, however deep or long") {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("3"), json_of(full()) + "x",
        std::string(100000, '['), std::string("{\"a\":\xff}"),
        "{\"a\":" + std::string(50, '[') + std::string(50, ']') + "}",
        "{\"a\":\"" + std::string(Record::kMostDocument, 'x') + "\"}"}) {
    const auto read = record_of<Sample>(text);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::usage);
  }
}

TEST_CASE("record: bytes have all that is in JSON, and nothing but all of it") {
  for (const Sample& sample : {full(), Sample()}) {
    const Bytes bytes = encoded(sample);
    const auto back = decoded<Sample>(bytes);
    REQUIRE(back.ok());
    CHECK(json_of(*back) == json_of(sample));
    CHECK(encoded(*back) == bytes);
    for (size_t cut = 0; cut < bytes.size(); ++cut)
      CHECK_FALSE(decoded<Sample>(ByteView(bytes).first(cut)).ok());
    Bytes longer = bytes;
    longer.push_back(0);
    const auto refused = decoded<Sample>(longer);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::lost);
    CHECK(refused.error().message ==
          format("malformed sample of {} bytes (bytes behind its end)", longer.size()));
  }
  // As wide as the types are, the lowest byte first.
  const Part part{-2, 0x0102};
  CHECK(encoded(part) == Bytes{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  //
                               2, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("record: bytes out of bounds are an error that names the field") {
  const std::vector<std::pair<std::string, std::function<void(Sample&)>>> cases = {
      {"small", [](Sample& bad) { bad.small = 8; }},
      {"small", [](Sample& bad) { bad.small = -4; }},
      {"figure", [](Sample& bad) { bad.figure = 1.5; }},
      {"figure", [](Sample& bad) { bad.figure = std::numeric_limits<double>::quiet_NaN(); }},
      {"text", [](Sample& bad) { bad.text = "123456789"; }},
      {"colour", [](Sample& bad) { bad.colour = Colour(2); }},
      {"by_number", [](Sample& bad) { bad.by_number = Colour(2); }},
      {"parts", [](Sample& bad) { bad.parts.emplace_back(); }},
      {"words", [](Sample& bad) { bad.words = {"abcde"}; }},
      {"maybe", [](Sample& bad) { bad.maybe = 10; }}};
  for (const auto& [name, change] : cases) {
    Sample bad = full();
    change(bad);
    const auto read = decoded<Sample>(encoded(bad));
    INFO(name);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.find("'" + name + "'") != std::string::npos);
  }
  // A flag is 0 or 1; a list has no more elements than there are bytes.
  Bytes bytes = encoded(full());
  bytes[0] = 2;
  CHECK_FALSE(decoded<Sample>(bytes).ok());
  std::vector<int> list;
  const Bytes endless{0xff, 0xff, 0x0f, 0, 1, 0, 0, 0};
  Record io{ByteView(endless)};
  io.field("list", list);
  CHECK_FALSE(io.status().ok());
  CHECK(list.empty());
}

}  // namespace base_record_tests
