#include "cmd/command_line.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/format.h"
#include "base/rank_env.h"
#include "cmd/cli/help.h"
#include "cmd/cli/parse.h"
#include "cmd/report/report.h"
#include "cmd/root_commands.h"
#include "cmd/text/provenance.h"
#include "cmd/variables.h"
#include "launcher/remote/agent_protocol.h"

namespace collctl::cmd {
namespace {

// Whether an error should also be a JSON document, even when the line could not be parsed.
bool json_wanted(const std::vector<std::string>& arguments) {
  const auto end = std::ranges::find(arguments, "--");
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
  const auto end = std::ranges::find(arguments, "--");
  for (auto it = arguments.begin(); it != end; ++it) {
    if (*it == kOption && it + 1 != end) word = *(it + 1);
    if (it->starts_with("--color=")) word = it->substr(kOption.size() + 1);
  }
  return word == "always" ? Colours::always : word == "never" ? Colours::never : Colours::automatic;
}

Result<int> dispatch(const std::vector<std::string>& arguments, Console& console) {
  COLL_ASSIGN(const ParsedLine line, parse(arguments));
  if (line.help) {
    if (!line.help_topic.empty() && !is_help_topic(line.help_topic))
      return usage(format("no help about '{}'; expected {}", line.help_topic, help_topics()))
          .within("help");
    console.out(help_text(line.command, line.help_topic, console.out_width()));
    return 0;
  }
  if (line.command == nullptr) {
    console.err(help_text(nullptr, "", console.out_width()));
    return int(ErrorCode::usage);
  }
  if (line.command->run == nullptr)
    return usage(format("{} is started by collctl run, not by hand", line.command->name));
  COLL_TRY(look_at_variables(line, console));
  return line.command->run(line, console);
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
  begin_provenance(arguments);
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
