#include "cmd/command_line.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/rank_env.h"
#include "cmd/agent_main.h"
#include "cmd/report/report.h"
#include "launcher/remote/agent_protocol.h"

namespace collctl::cmd {
namespace {

// Whether an error should also be a JSON document, even when the line could not be parsed.
bool json_wanted(const std::vector<std::string>& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (auto it = arguments.begin(); it != end; ++it) {
    if (*it == "--json" || *it == "-o-" || *it == "--output=-") return true;
    if ((*it == "-o" || *it == "--output") && it + 1 != end && *(it + 1) == "-") return true;
  }
  return false;
}

// For what is said before the line is parsed, too; another word is a mistake that parsing tells.
Colours colours_wanted(const std::vector<std::string>& arguments) {
  constexpr std::string_view kOption = "--color";
  std::string word;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (auto it = arguments.begin(); it != end; ++it) {
    if (*it == kOption && it + 1 != end) word = *(it + 1);
    if (it->starts_with("--color=")) word = it->substr(kOption.size() + 1);
  }
  return word == "always" ? Colours::always : word == "never" ? Colours::never : Colours::automatic;
}

Result<int> generate(const ParsedLine& line, Console& console) {
  if (line.command->id == CommandId::completion) {
    console.out(completion_script(line.words[0]));
    return 0;
  }
  COLL_TRY(write_man_pages(line.words[0]));
  return 0;
}

Result<int> help(const ParsedLine& line, Console& console) {
  const Command* command = line.command;
  std::string topic = line.help_topic;
  if (command != nullptr && command->id == CommandId::help && !line.help) {
    command = line.words.empty() ? nullptr : find_command(line.words[0]);
    if (!line.words.empty() && (command == nullptr || command->hidden))
      return Error(ErrorCode::usage,
                   format("unknown command '{}'; collctl -h lists the commands", line.words[0]))
          .within("help");
    if (line.words.size() > 1) topic = line.words[1];
  }
  if (!topic.empty() && !is_help_topic(topic))
    return Error(ErrorCode::usage, format("no help about '{}'; expected {}", topic, help_topics()))
        .within("help");
  console.out(help_text(command, topic));
  return 0;
}

Result<int> dispatch(const std::vector<std::string>& arguments, Console& console) {
  COLL_ASSIGN(const ParsedLine line, parse(arguments));
  if (line.help) return help(line, console);
  if (line.command == nullptr) {
    console.err(help_text(nullptr, ""));
    return int(ErrorCode::usage);
  }
  switch (line.command->id) {
    case CommandId::run:
    case CommandId::collective:  // the same as under run
    case CommandId::suite:
      return run_command(line, console);
    case CommandId::topo:
      return topo_command(line, console);
    case CommandId::plan:
      return plan_command(line, console);
    case CommandId::report:
      return report_command(line, console);
    case CommandId::doctor:
      return doctor_command(line, console);
    case CommandId::env:
      return env_command(line, console);
    case CommandId::version:
      return version_command(line, console);
    case CommandId::completion:
    case CommandId::man:
      return generate(line, console);
    case CommandId::help:
      return help(line, console);
    case CommandId::rank:
      break;
  }
  return Error(ErrorCode::usage,
               format("{} is started by collctl run, not by hand", line.command->name));
}

int error_exit_code(const Error& error) {
  return error.code == ErrorCode::interrupted ? 128 + error.signal : int(error.code);
}

}  // namespace

int command_line(const std::vector<std::string>& arguments, Console& console) {
  if (arguments.size() == 1 && arguments[0] == base::kRankCommand) return rank_main();
  if (arguments.size() == 1 && arguments[0] == launcher::kAgentCommand) return agent_main();
  if (arguments.size() == 3 && arguments[0] == launcher::kAgentCommand &&
      arguments[1] == "--verify")
    return verify_main(arguments[2], console);
  console.set_colours(colours_wanted(arguments));
  int code = 0;
  Result<int> done = dispatch(arguments, console);
  if (done.ok()) {
    code = *done;
  } else {
    code = error_exit_code(done.error());
    if (json_wanted(arguments)) console.out(error_json(done.error(), code));
    console.print_error(done.error());
  }
  // A reader that has seen enough (head) ends us as SIGPIPE would have, without a word.
  if (console.reader_gone()) return code == 0 ? 128 + 13 : code;
  if (Status written = console.out_status(); !written.ok()) {
    console.print_error(written.error());
    if (code == 0) code = int(written.error().code);
  }
  return code;
}

}  // namespace collctl::cmd
