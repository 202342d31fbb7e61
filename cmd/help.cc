// Help out of the tables: short (-h) one line per option, long (--help) everything.
#include <algorithm>

#include "base/format.h"
#include "cmd/command_line.h"

namespace collctl::cmd {
namespace {

constexpr size_t kWidth = 80;

// Words of the text in lines that fit, each after `indent` spaces.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out, line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = space + 1;
  }
  return line.empty() ? out : out + std::string(indent, ' ') + line + "\n";
}

std::string option_names(const Option& option) {
  std::string text = option.letter != 0 ? format("-{}, ", option.letter) : "    ";
  text += format("--{}", option.name);
  if (takes_value(option)) text += format(" {}", option.value);
  return text;
}

std::string allowed_words(const Option& option) {
  std::string words;
  for (const auto& word : option.allowed) words += (words.empty() ? "" : ", ") + word;
  return words;
}

std::string default_of(const Option& option) {
  if (takes_value(option)) return format("[{}]", option.fallback);
  return option.group == Group::general ? "" : "[off]";
}

std::string option_help(const Option& option, bool full) {
  constexpr size_t kColumn = 30;
  std::string text = format("  {}", option_names(option));
  std::string what = option.help;
  if (const std::string standard = default_of(option); !standard.empty()) what += " " + standard;
  text += text.size() + 2 <= kColumn ? std::string(kColumn - text.size(), ' ')
                                     : "\n" + std::string(kColumn, ' ');
  text += wrapped(what, kColumn).substr(kColumn);
  if (!full) return text;
  if (!option.allowed.empty() && option.kind != ValueKind::integer)
    text += wrapped(format("one of: {}", allowed_words(option)), kColumn);
  if (*option.more != 0) text += wrapped(option.more, kColumn);
  if (option.repeatable) text += wrapped("May be given several times.", kColumn);
  return text;
}

std::string option_list(const Command& command, bool full) {
  std::string text;
  for (int g = 0; g < kGroupCount; ++g) {
    std::string part;
    for (const Option& option : options())
      if (!option.hidden && option.group == Group(g) && applies(option, command))
        part += option_help(option, full);
    if (!part.empty()) text += format("\n{}:\n{}", group_title(Group(g)), part);
  }
  return text;
}

std::string usage_lines(const Command& command) {
  std::string text;
  const std::string arguments = command.arguments;
  for (size_t at = 0; at <= arguments.size();) {
    const size_t end = std::min(arguments.find('\n', at), arguments.size());
    text += format("{} collctl {} {}\n", text.empty() ? "Usage:" : "      ", command.name,
                   arguments.substr(at, end - at));
    at = end + 1;
  }
  return text;
}

std::string example_lines(const Command& command) {
  std::string text;
  for (const Example& example : command.examples)
    text += format("  {}\n      {}\n", example.line, example.what);
  return text.empty() ? text : format("\nExamples:\n{}", text);
}

std::string exit_codes() {
  std::string text = "\nExit codes:\n";
  for (const ExitCodeLine& line : exit_code_lines())
    text += format("  {:>5}  {}\n", line.code, line.meaning);
  return text;
}

std::string command_list(CommandId id, bool others) {
  std::string text;
  for (const Command& command : commands())
    if (!command.hidden && (command.id == id) != others)
      text += format("  {:<14}  {}\n", command.name, command.summary);
  return text;
}

}  // namespace

std::string help_text(const Command* command, bool full) {
  if (command == nullptr || command->hidden) {
    std::string text =
        "collctl launches ranks, runs collectives among them and judges the result.\n\nUsage: "
        "collctl <command> [options]\n\nCommands:\n";
    text += command_list(CommandId::collective, true);
    text += "\nCollectives, on this host with one rank per GPU or core (or under run):\n";
    text += command_list(CommandId::collective, false);
    text +=
        "\nExamples:\n"
        "  collctl run -n 4 allreduce\n"
        "  collctl run -n 2 -- hostname\n"
        "  collctl allgather -b 1M -e 16M --json\n";
    if (full) text += exit_codes();
    return text + "\ncollctl <command> -h shows its options, --help says more about them.\n";
  }
  std::string text = usage_lines(*command);
  text +=
      format("\n{}", full ? wrapped(command->description, 0) : format("{}\n", command->summary));
  if (command->id == CommandId::run) {
    text += "\nCollectives: ";
    std::string names;
    for (const Command& other : commands())
      if (find_collective(other.name) != nullptr && !other.hidden)
        names += format("{}{}", names.empty() ? "" : " ", other.name);
    text += wrapped(names, 13).substr(13);
  }
  text += option_list(*command, full);
  text += example_lines(*command);
  if (full && (command->scopes & (kBench | kProgram | kWindowTest | kRails)) != 0)
    text += exit_codes();
  return text;
}

}  // namespace collctl::cmd
