// Splitting the words of one command into options and the rest. CLI11 does the splitting (long and
// short names, joined values, bundled flags); commands, the first --, and all sentences about
// mistakes are ours, because CLI11's speak of its own notions and differ between its versions.
#include <CLI/CLI.hpp>

#include "base/format.h"
#include "cmd/cli/foreign_options.h"
#include "cmd/cli/parse.h"

namespace collctl::cmd {
namespace {

std::string shown(const Option& option) {
  return format("--{}", option.name);
}

bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

// One sentence for a word with a dash that is no option of this command; `next` stands after it.
Error unknown_option(const Command& command, const std::string& word, const std::string& next) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  // -w node01 or -wnode01
  const bool joined = equals == std::string::npos && name.size() > 2 && name[1] != '-';
  const std::string letter_alone = joined ? name.substr(0, 2) : name;
  const std::string value = equals != std::string::npos ? word.substr(equals + 1)
                            : joined                    ? name.substr(2)
                            : looks_like_option(next)   ? ""
                                                        : next;
  if (const std::string theirs = foreign_option(command, letter_alone, value); !theirs.empty())
    return usage(format("unknown option {}; {}", letter_alone, theirs));
  std::vector<std::string> names;
  for (const Option& option : options())
    if (applies(option, command) && !option.hidden) names.push_back(shown(option));
  const std::string near = name.size() > 2 ? nearest(name, names) : "";
  std::string message = format("unknown option {}", name);
  if (!near.empty())
    message += format("; did you mean {}?", near);
  else
    message += format("; collctl {} -h lists the options", command.name);
  // A known option of other commands: say whose it is.
  for (const Option& option : options()) {
    const std::string letter = option.letter != 0 ? format("-{}", option.letter) : "";
    if ((name != shown(option) && name != letter) || option.hidden) continue;
    std::string where = (option.scopes & kBench) != 0     ? "collctl run <collective>"
                        : (option.scopes & kProgram) != 0 ? "collctl run -- <program>"
                                                          : "other commands";
    return usage(format("unknown option {}; it belongs to {}", name, where));
  }
  return usage(message);
}

}  // namespace

const Option* option_of_word(const Command& command, const std::string& word) {
  for (const Option& option : options()) {
    if (!applies(option, command)) continue;
    if (word == shown(option)) return &option;
    if (option.letter != 0 && word.size() == 2 && word[0] == '-' && word[1] == option.letter)
      return &option;
  }
  return nullptr;
}

Status parse_options(const Command& command, const std::vector<std::string>& arguments,
                     ParsedLine& line) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras(true);
  std::vector<std::pair<const Option*, CLI::Option*>> rows;
  for (const Option& option : options()) {
    if (!applies(option, command)) continue;
    std::string names = shown(option);
    if (option.letter != 0) names = format("-{},{}", option.letter, names);
    // No bound variables: CLI11 would convert the text by rules of its own.
    CLI::Option* made =
        takes_value(option) ? app.add_option(names, CLI::callback_t{}) : app.add_flag(names);
    if (takes_value(option)) made->expected(1);
    made->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    rows.emplace_back(&option, made);
  }
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (!arguments.empty())
      if (const Option* last = option_of_word(command, arguments.back());
          last != nullptr && takes_value(*last))
        return usage(format("{} needs a value: {}", arguments.back(), last->value));
    return usage(error.what());
  }
  const std::vector<std::string> remaining = app.remaining();
  for (size_t i = 0; i < remaining.size(); ++i) {
    if (looks_like_option(remaining[i]))
      return unknown_option(command, remaining[i],
                            i + 1 < remaining.size() ? remaining[i + 1] : "");
    line.words.push_back(remaining[i]);
  }
  for (const auto& [option, made] : rows) {
    if (made->count() == 0) continue;
    for (const std::string& value : made->results()) {
      if (!takes_value(*option) && value != "true")
        return usage(format("{} takes no value", shown(*option)));
      line.given[option->name].push_back(value);
    }
  }
  return {};
}

}  // namespace collctl::cmd
