#include "cmd/cli/command.h"

#include "base/check.h"

namespace collctl::cmd {
namespace {

struct Tables {
  std::span<const Command> commands;
  std::span<const Option> options;
  const char* version = "";
};
Tables& tables() {
  static Tables in_use;
  return in_use;
}

constexpr ExitCodeLine kExitCodes[] = {
    {"0", "all that was asked for was done and passed"},
    {"1", "done, and the answer is no: below a threshold"},
    {"2", "usage: a bad option or value; nothing was started"},
    {"3", "this machine or a host cannot: no device, library, permission, limit"},
    {"4", "launch failed: a host could not be reached, or a rank not started"},
    {"5", "a rank, peer or link failed or was lost during the run"},
    {"6", "a deadline passed: start-up or a collective hung"},
    {"7", "wrong data"},
    {"8", "what was tested passed, but something asked for was not tested"},
    {"70", "a defect of collctl itself"},
    {"128+N", "ended by signal N after cleaning up"},
};

}  // namespace

std::span<const ExitCodeLine> exit_code_lines() {
  return kExitCodes;
}

void use_tables(std::span<const Command> commands, std::span<const Option> options,
                const char* version) {
  tables() = {commands, options, version};
}

std::span<const Command> commands() {
  COLL_CHECK(!tables().commands.empty());
  return tables().commands;
}

std::span<const Option> options() {
  COLL_CHECK(!tables().options.empty());
  return tables().options;
}

const char* version_of_tables() {
  return tables().version;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : commands())
    if (name == command.name) return &command;
  return nullptr;
}

const Command* find_collective(std::string_view name) {
  const Command* command = find_command(name);
  return command != nullptr && stands_under_run(*command) ? command : nullptr;
}

const Option* find_option(std::string_view name, uint32_t scopes) {
  for (const Option& option : options())
    if (name == option.name && (option.scopes & scopes) != 0) return &option;
  return nullptr;
}

const char* group_title(Group group) {
  switch (group) {
    case Group::launch:
      return "Launch options";
    case Group::hosts:
      return "Hosts";
    case Group::sizes:
      return "Sizes";
    case Group::measure:
      return "Measurement";
    case Group::select:
      return "Choices";
    case Group::output:
      return "Output";
    case Group::general:
      return "General";
  }
  return "";
}

}  // namespace collctl::cmd
