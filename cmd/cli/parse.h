// From words on the command line to a parsed line: parse() finds the command and checks every value
// against the tables. The meaning of the values stands beside the records that they fill
// (cmd/*/options.h). All errors have code usage. Threads: values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/command.h"
#include "cmd/cli/values.h"

namespace collctl::cmd {

struct ParsedLine {
  const Command* command = nullptr;     // null: no command was given
  const Command* collective = nullptr;  // of run <collective> and of the direct form
  bool help = false;                    // -h or --help is there
  std::string help_topic;               // the word after it, see is_help_topic()
  bool has_program = false;             // a -- was there
  std::vector<std::string> program;
  std::vector<std::string> words;  // neither options nor their values, without the collective
  std::map<std::string, std::vector<std::string>> given;  // by long name; flags hold an entry each
  std::vector<std::string> notes;  // words taken as something else, for standard error
  bool nccl_tests = false;         // options stand there as nccl-tests has them
  bool ranks_by_gpus = false;      // by -g and -t: of one process, where others start several

  bool has(const std::string& option) const { return given.count(option) != 0; }
  // The last value given, or the table's default.
  std::string text(const std::string& option) const;
  std::vector<std::string> all(const std::string& option) const;
  int times(const std::string& option) const;
  // A number that parse() has checked (number_of() in values.h); `otherwise` when not given and the
  // default is no number.
  double number(const std::string& option, double otherwise) const;
  const Option& row(const std::string& option) const;
  // The first of these options that is given, or null.
  const char* first_of(std::initializer_list<const char*> names) const;
  // Refuses others that do not go together with `option`. Error: usage, for the first that is
  // given.
  struct Excluded {
    const char *option, *why;
  };
  Status exclusive(const char* option, std::initializer_list<Excluded> others) const;
};

// `arguments` without the program's name.
inline Error usage(std::string message) {
  return {ErrorCode::usage, std::move(message)};
}

// Words that --help takes: all, a group of options, examples, exit-codes, an option's name.
bool is_help_topic(const std::string& word);
// "all, launch, ...", without the options.
std::string help_topics();

Result<ParsedLine> parse(const std::vector<std::string>& arguments);
// The options of one command, by CLI11 (split.cc): fills `given` and `words`.
Status parse_options(const Command& command, const std::vector<std::string>& arguments,
                     ParsedLine& line);
// The option that a word such as -n or --ranks (without a joined value) is, or null.
const Option* option_of_word(const Command& command, const std::string& word);
// With the one that may be meant.
Error unknown_command(const std::string& word);
// The nearest of the names, or "" when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace collctl::cmd
