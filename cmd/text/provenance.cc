#include "cmd/text/provenance.h"

#include <algorithm>
#include <cctype>
#include <ctime>

#include "base/clock.h"
#include "base/format.h"
#include "base/shell.h"
#include "base/version.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kLongestLine = 4096;
constexpr const char* kSecret[] = {"TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "KEY"};

int64_t began_ns = 0;
Provenance& own() {
  static Provenance made{.version = base::kVersion};
  return made;
}

bool names_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](uint8_t c) { return std::toupper(c); });
  // A file's name is none.
  if (name.ends_with("FILE") || name.ends_with("PATH")) return false;
  return std::ranges::any_of(
      kSecret, [&](const char* word) { return name.find(word) != std::string::npos; });
}

}  // namespace

void fields(Record& io, Provenance& made) {
  io.unless_empty("version", made.version);
  io.unless_empty("date", made.date);
  io.unless_empty("command", made.command);
}

const Provenance& provenance() {
  return own();
}

void begin_provenance(const std::vector<std::string>& arguments) {
  began_ns = now_ns();
  own().date = local_date(std::time(nullptr));
  own().command = line_without_secrets(arguments);
}

double seconds_since_begin() {
  return began_ns == 0 ? 0 : base::seconds_since(began_ns);
}

JsonWriter& begin_document(JsonWriter& json, const char* schema) {
  return continue_document(json.begin_object(), schema);
}

JsonWriter& continue_document(JsonWriter& json, const char* schema) {
  json.field("schema", schema);
  Record io(json);
  fields(io, described(own()));
  return json;
}

std::string line_without_secrets(const std::vector<std::string>& arguments) {
  std::string line = "collctl";
  bool hides_next = false;
  for (const std::string& word : arguments) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool hides = names_secret(name);
    std::string shown = word;
    if (hides_next && !word.starts_with("-"))
      shown = "...";
    else if (hides && equals != std::string::npos)
      shown = name + "=...";
    hides_next = hides && equals == std::string::npos && word.starts_with("--");
    line += " " + base::shell_word(shown);
    if (line.size() > kLongestLine) return line.substr(0, kLongestLine) + " ...";
  }
  return line;
}

}  // namespace collctl::cmd
