#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/format.h"
#include "cmd/cli/help.h"
#include "tests/catch.h"
#include "tests/places.h"

namespace cli_generate_tests {

using namespace collctl;
using namespace collctl::cmd;
namespace fs = std::filesystem;

namespace {

// The checkout.
const fs::path kRoot = test::source_folder();

std::string content(const fs::path& path) {
  std::ifstream in(path);
  INFO(path.string());
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("the checked-in completions are those of the tables", "[cmd]") {
  CHECK(content(kRoot / "completions/collctl.bash") == completion_script("bash"));
  CHECK(content(kRoot / "completions/_collctl") == completion_script("zsh"));
  CHECK(content(kRoot / "completions/collctl.fish") == completion_script("fish"));
}

TEST_CASE("the checked-in manual pages are those of the tables", "[cmd]") {
  size_t pages = 0;
  for (const ManPage& page : man_pages()) {
    INFO(page.file_name);
    CHECK(content(kRoot / "man" / page.file_name) == page.content);
    ++pages;
  }
  CHECK(size_t(std::distance(fs::directory_iterator(kRoot / "man"), fs::directory_iterator{})) ==
        pages);
}

TEST_CASE("the reference's table has every command, and no other") {
  const std::string page = content(kRoot / "docs/reference.md");
  const size_t begin = page.find("## Commands");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(page.substr(begin, page.find("\n## ", begin) - begin));
  std::multiset<std::string> there, expected;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    // The words in the first cell.
    std::string cell = line.substr(0, line.find('|', 1));
    for (char& c : cell)
      if (c == '`' || c == '|' || c == ',') c = ' ';
    std::istringstream words(cell);
    for (std::string word; words >> word;) there.insert(word);
  }
  for (const Command& command : commands())
    if (!command.hidden) expected.insert(command.name);
  CHECK(there == expected);
}

TEST_CASE("every option stands in help, manual and completions of its commands", "[cmd]") {
  const std::string bash = completion_script("bash"), zsh = completion_script("zsh"),
                    fish = completion_script("fish");
  for (const Command& command : commands()) {
    if (command.hidden) continue;
    const std::string full = help_text(&command, "all");
    for (const Option& option : options()) {
      if (!applies(option, command)) continue;
      const std::string name = format("--{}", option.name);
      INFO(command.name << " " << name);
      CHECK(mentions(full, name) == !option.hidden);
      if (option.hidden) continue;
      CHECK(mentions(help_text(&command, option.name), name));
      CHECK(mentions(bash, name));
      CHECK(mentions(zsh, name));
      CHECK(mentions(fish, format("-l {}", option.name)));
      // Its default stands in help, whatever line it wraps to.
      if (takes_value(option))
        CHECK(mentions(full, format("[{}", std::string(option.fallback).substr(0, 4))));
    }
    CHECK(mentions(help_text(nullptr, ""), command.name));
  }
}

TEST_CASE("hidden things stay hidden", "[cmd]") {
  for (const auto& text : {help_text(nullptr, "all"), completion_script("bash"),
                           completion_script("zsh"), completion_script("fish")}) {
    CHECK_FALSE(mentions(text, "__rank"));
    CHECK_FALSE(mentions(text, "COLLCTL_FAULT"));
  }
  for (const ManPage& page : man_pages()) CHECK_FALSE(mentions(page.content, "FAULT"));
}

TEST_CASE("help fits a terminal", "[cmd]") {
  const size_t columns = GENERATE(40, 60, 80, 120);
  // Those can be copied as they stand.
  std::set<std::string> examples;
  std::vector<std::string> texts;
  for (const char* topic : {"", "all", "output", "exit-codes", "examples"}) {
    texts.push_back(help_text(nullptr, topic, int(columns)));
    for (const Command& command : commands()) {
      texts.push_back(help_text(&command, topic, int(columns)));
      for (const Example& example : command.examples)
        if (columns < 80) examples.insert(std::string("  ") + example.line);
    }
  }
  for (const auto& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK((line.size() <= std::min<size_t>(columns, 80) || examples.contains(line)));
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

}  // namespace cli_generate_tests
