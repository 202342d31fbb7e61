// The grammar of a hostfile line: hosts, options, and errors with their place. Pure; internal to
// the hostfile. Places are byte offsets into the line; people see them as columns from 1.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts/hostfile.h"

namespace collctl::launcher {

struct SourceLine {
  std::string file;  // as the user knows it: "hosts.txt", "stdin", "-H"
  int number = 1;
  std::string_view text;  // without comment and line end

  std::string where(size_t at) const;  // "hosts.txt:3:12"
  // "hosts.txt:3:12: <sentence>", with the marked line as hint.
  Error mistake(size_t at, const std::string& sentence) const;
  // "... expected <what>, got '<what stands there>'"
  Error expected(size_t at, const std::string& what) const;
};

bool is_blank(char c);
size_t skip_blanks(std::string_view text, size_t at);
// The end of the word that begins at `at`: the next blank or, with `commas`, the next comma that
// stands outside brackets.
size_t word_end(std::string_view text, size_t at, bool commas);
std::optional<int> whole_number(std::string_view digits, int least, int most);
bool is_group_name(std::string_view name);

// [user@]HOST[:N], ranges expanded.
struct HostWord {
  std::vector<std::string> names;  // at least one
  std::string user;
  std::optional<int> slots;
};
Result<HostWord> parse_host_word(const SourceLine& line, size_t from, size_t to);

// A host's attribute besides name and slots, as text; the order is that of printing.
struct Attribute {
  const char* name;
  const char* expected;
  bool (*read)(const std::string& value, HostSpec& spec);  // false: not legal
  std::string (*text)(const HostSpec& spec);               // empty: not said
};
std::span<const Attribute> attributes();

// option=value words from `at` to the end of the line, into the spec. `ignored` gets the names of
// options of other launchers that have no meaning here, with their places.
struct IgnoredOption {
  std::string name;
  size_t at = 0;
};
Status parse_host_options(const SourceLine& line, size_t at, HostSpec& spec,
                          std::vector<IgnoredOption>& ignored);

}  // namespace collctl::launcher
