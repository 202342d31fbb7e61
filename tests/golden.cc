#include "tests/golden.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "base/format.h"
#include "base/version.h"
#include "tests/catch.h"
#include "tests/places.h"

namespace fs = std::filesystem;
using collctl::format;

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A line for each member of an object, and for each element that is an object or a list itself.
std::string laid_out(const std::string& json) {
  std::string text;
  std::vector<bool> breaks;  // by bracket that is open
  const auto new_line = [&] { text += "\n" + std::string(breaks.size(), ' '); };
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i], next = i + 1 < json.size() ? json[i + 1] : '\0';
    if (in_string) {
      text += c;
      if (c == '\\') text += json[++i];
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    const bool closes = c == '}' || c == ']';
    if (closes && !breaks.empty()) {
      const bool broken = breaks.back();
      breaks.pop_back();
      if (broken) new_line();
    }
    text += c;
    if (c == '{' || c == '[') {
      breaks.push_back(next != '}' && (c == '{' || next == '{' || next == '['));
      if (breaks.back()) new_line();
    }
    if (c == ',' && !breaks.empty() && breaks.back()) new_line();
  }
  return text;
}

// Not where it is a part of other numbers.
std::string without_version(std::string text) {
  const std::string version = collctl::base::kVersion, numeric = "0123456789.";
  for (size_t at = 0; (at = text.find(version, at)) != std::string::npos; ++at) {
    const size_t end = at + version.size();
    if (at > 0 && numeric.find(text[at - 1]) != std::string::npos) continue;
    if (end < text.size() && numeric.find(text[end]) != std::string::npos) continue;
    text.replace(at, version.size(), "VERSION");
  }
  return text;
}

std::string difference(const std::string& path, const std::string& text) {
  std::string file = (fs::temp_directory_path() / "collctl-golden-XXXXXX").string();
  const int fd = ::mkstemp(file.data());
  REQUIRE(fd >= 0);
  ::close(fd);
  std::ofstream(file, std::ios::binary) << text;
  const std::string old = fs::exists(path) ? path : "/dev/null";
  FILE* diff = ::popen(
      format("diff -u --label '{}' --label printed '{}' '{}'", path, old, file).c_str(), "r");
  REQUIRE(diff != nullptr);
  std::string lines;
  for (int c; (c = std::fgetc(diff)) != EOF;) lines += char(c);
  ::pclose(diff);
  fs::remove(file);
  return lines;
}

}  // namespace

Goldens::Goldens(const std::string& folder)
    : folder_(collctl::test::source_folder() + "/tests/golden/" + folder),
      writes_(std::getenv("COLLCTL_GOLDEN") != nullptr) {
  if (writes_) fs::create_directories(folder_);
}

Goldens::~Goldens() {
  std::vector<fs::path> unheld;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (!held_.contains(entry.path().filename().string())) unheld.push_back(entry.path());
  for (const fs::path& file : unheld) {
    INFO("nothing is held against " << file.string());
    if (writes_)
      fs::remove(file);
    else
      CHECK(false);
  }
}

void Goldens::hold(const std::string& name, std::string text) {
  CHECK(held_.insert(name).second);
  if (name.ends_with(".json") || name.ends_with(".jsonl")) text = laid_out(text);
  text = without_version(std::move(text));
  // When a report was made, and in which folder of its own a test had it.
  static const std::regex date(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d)");
  static const std::regex folder(R"(/tmp/collctl-cli-\w+/)");
  text = std::regex_replace(std::regex_replace(text, date, "DATE"), folder, "FOLDER/");
  const std::string path = folder_ + "/" + name;
  if (writes_) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  if (fs::exists(path) && content(path) == text) return;
  INFO(difference(path, text));
  INFO("where this is wanted: COLLCTL_GOLDEN=write and the same test again");
  CHECK(path == "as its file");
}
