// One record per command and one per option. The parser, help, man pages and completions all come
// out of these two tables (commands.cc), so that a name stands in one place only. Pure data, built
// once; any thread may read.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace collctl::base {
class Record;
}

namespace collctl::cmd {

enum class ValueKind : uint8_t {
  flag,      // present or not
  count,     // how often (-vv)
  integer,   // minimum..maximum
  number,    // a decimal number, minimum..maximum
  duration,  // seconds, or with units: 500ms, 90s, 2m, 1h30m
  size,      // bytes: 8, 1K, 4M, 1G
  choice,    // one of `allowed`
  choices,   // several of `allowed`, comma separated
  limit,     // NUMBER[@SIZE]
  text,
  file,
  directory
};

enum class Group : uint8_t { launch, hosts, sizes, measure, select, output, general };
inline constexpr int kGroupCount = 7;
const char* group_title(Group group);

// Where an option may stand.
inline constexpr uint32_t kBench = 1;            // run <collective>, <collective>
inline constexpr uint32_t kProgram = 4;          // run -- program
inline constexpr uint32_t kReading = 8;          // env, version
inline constexpr uint32_t kGenerate = 16;        // completion, man
inline constexpr uint32_t kDoctor = 32;          // doctor
inline constexpr uint32_t kTopo = 64;            // topo
inline constexpr uint32_t kPlan = 128;           // plan
inline constexpr uint32_t kTimedTask = 256;      // of kTask those that time as collectives do
inline constexpr uint32_t kTask = 512;           // ranks do it, with a report of its own
inline constexpr uint32_t kReport = 1024;        // report
inline constexpr uint32_t kCheck = 2048;         // check
inline constexpr uint32_t kStatus = 4096;        // status
inline constexpr uint32_t kFirstOwn = 1u << 16;  // from here on: one task each (cmd/rank_tasks.cc)
inline constexpr uint32_t kAnywhere = ~0u;

struct Option;
// The member that an option fills, and its way to ranks (cmd/cli/bind.h has `to` and `alike`).
struct Binding {
  const void* record = nullptr;  // stands for the type of record that it is a member of; or none
  bool alike = false;
  Status (*read)(const Option& option, const std::vector<std::string>& given,
                 void* record) = nullptr;
  void (*field)(base::Record& io, const Option& option, const char* name, void* record) = nullptr;
};

struct Option {
  const char* name = "";  // long name without dashes
  char letter = 0;
  ValueKind kind = ValueKind::flag;
  const char* value = "";  // its name in help: N, FILE, ...
  // May stand behind a number or limit. "%": 80% is 0.8.
  std::string_view unit = "";
  const char* fallback = "";  // the default as help shows it; parsed when it is a legal value
  double minimum = 0, maximum = 0;
  std::vector<std::string> allowed = {};  // the words of choice(s); words besides numbers elsewhere
  // Other programs' words, with blanks between and around, and ours.
  std::vector<std::pair<std::string, std::string>> synonyms = {};
  Group group = Group::general;
  uint32_t scopes = 0;
  bool repeatable = false;
  bool hidden = false;
  const char* help = "";  // one short line
  const char* more = "";  // further sentences for the long help and the manual
  Binding fills = {};
};

// Where a command may stand, and what its words are.
enum class CommandKind : uint8_t {
  plain,       // collctl NAME
  run,         // collctl run NAME, or -- and a program
  collective,  // collctl NAME and collctl run NAME
  task,        // likewise, with a report of its own
  internal,    // started by collctl itself
};

struct Example {
  const char* line;
  const char* what;
};

struct ParsedLine;
class Console;

struct Command {
  const char* name = "";
  CommandKind kind = CommandKind::plain;
  const char* arguments = "";  // words after the name; lines separated by \n
  uint32_t scopes = 0;
  const char* summary = "";
  const char* description = "";
  std::vector<Example> examples = {};
  uint32_t under_run = 0;  // of the options that it takes as `run NAME`; 0: `scopes`
  int words = 0;           // that must follow it
  std::vector<std::string> known_words = {};  // the legal ones, if not any
  ValueKind word_kind = ValueKind::text;      // file, directory: what shells complete
  bool hidden = false;
  bool unlisted = false;                   // not in the lists of --help, which are a screen long
  int most_words = 0;                      // that may follow it; 0: `words`
  bool draws_to_stdout = false;            // its -o - is a picture; else it is --json
  std::string (*more_manual)() = nullptr;  // further sections of its page
  // The exit code, or an error that is printed once. Null: internal.
  Result<int> (*run)(const ParsedLine& line, Console& console) = nullptr;
};

// THE two tables (cmd/commands.cc, cmd/options.cc). use_tables comes first, once, before other
// threads; what it is given lives as long as the process.
void use_tables(std::span<const Command> commands, std::span<const Option> options,
                const char* version);
std::span<const Command> commands();
std::span<const Option> options();
const char* version_of_tables();
const Command* find_command(std::string_view name);
// The option of that name where it may stand; one name can mean different things to two commands.
// The first row that may stand there is the command's: `run`'s own come before its tasks'.
const Option* find_option(std::string_view name, uint32_t scopes = kAnywhere);
inline bool applies(const Option& option, const Command& command) {
  return find_option(option.name, command.scopes) == &option;
}
inline bool takes_value(const Option& option) {
  return option.kind != ValueKind::flag && option.kind != ValueKind::count;
}
inline bool stands_under_run(const Command& command) {
  return command.kind == CommandKind::collective || command.kind == CommandKind::task;
}
// The collective or task of that name, or null: what can stand after run.
const Command* find_collective(std::string_view name);

// The exit codes as help and manual show them.
struct ExitCodeLine {
  const char* code;
  const char* meaning;
};
std::span<const ExitCodeLine> exit_code_lines();

}  // namespace collctl::cmd
