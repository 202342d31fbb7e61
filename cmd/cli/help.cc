// Help out of the tables: what fits on a screen first, --help all has everything, --help TOPIC a
// part.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "cmd/cli/help.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

constexpr size_t kWidth = 80;
constexpr std::ptrdiff_t kScreen = 40;  // lines
constexpr const char* kEverywhere[] = {"hosts", "hostfile", "json", "output", "verbose"};
constexpr int kFewCommands = 3;
// The options that most people use, where a command's do not fit on a screen.
constexpr const char* kUsual[] = {
    "ranks",   "ranks-per-host", "env",       "timeout",   "dry-run", "hosts",  "hostfile",
    "nodes",   "min-bytes",      "max-bytes", "bytes",     "iters",   "dtype",  "op",
    "message", "algo",           "device",    "net",       "from",    "save",   "matrix",
    "graph",   "diff",           "vs",        "min-busbw", "json",    "output", "verbose"};
constexpr std::array<const char*, kGroupCount> kGroupTopics{
    "launch", "hosts", "sizes", "measure", "choices", "output", "general"};

std::string wrapped(const std::string& text, size_t indent) {
  return wrapped_text(text, indent, kWidth);
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

// Mostly one line: the default where there is room for it.
std::string usual_option(const Option& option) {
  constexpr size_t kColumn = 30;
  std::string names = format("  {}", option_names(option));
  names.resize(std::max(names.size() + 2, kColumn), ' ');
  const std::string line = names + option.help, standard = default_of(option);
  const bool room = !standard.empty() && line.size() + 1 + standard.size() <= kWidth;
  if (room || line.size() <= kWidth) return line + (room ? " " + standard : "") + "\n";
  return names + wrapped(option.help, kColumn).substr(kColumn);
}

// Few other commands have it: that is why somebody asks this one. Collectives count as one.
bool is_own(const Option& option) {
  int others = 0;
  bool collectives = false;
  for (const Command& command : commands()) {
    if (command.hidden || !applies(option, command)) continue;
    if (command.kind == CommandKind::collective)
      collectives = true;
    else
      ++others;
  }
  return !collectives && others <= kFewCommands;
}

// A command's own options and those that belong to all; without any of its own those that most
// people use.
std::string usual_options(const Command& command) {
  const auto among = [](const auto& list, const Option& option) {
    return std::find(std::begin(list), std::end(list), std::string_view(option.name)) !=
           std::end(list);
  };
  std::string own, usual, everywhere;
  for (const Option& option : options()) {
    if (option.hidden || !applies(option, command)) continue;
    if (command.kind != CommandKind::run && is_own(option))
      own += usual_option(option);
    else if (among(kUsual, option))
      (among(kEverywhere, option) ? everywhere : usual) += usual_option(option);
  }
  if (own.empty()) return "\nMost used:\n" + usual + everywhere;
  return format("\nOptions of {}:\n{}\nOf most commands:\n{}", command.name, own, everywhere);
}

// `only`: one group, or all when negative.
std::string option_list(const Command& command, bool full, int only = -1) {
  std::string text;
  for (int g = 0; g < kGroupCount; ++g) {
    std::string part;
    if (only >= 0 && g != only) continue;
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
    text += format("{} collctl {}", text.empty() ? "Usage:" : "      ", command.name);
    if (end > at) text += " " + arguments.substr(at, end - at);
    text += "\n";
    at = end + 1;
  }
  return text;
}

std::string example_lines(const Command& command) {
  std::string text;
  for (const Example& example : command.examples) {
    const std::string line = format("  {}", example.line), what = format("# {}\n", example.what);
    const bool fits = line.size() + 2 + what.size() <= kWidth + 1;
    text += line + (fits ? "  " : "\n      ") + what;
  }
  return text.empty() ? text : format("\nExamples:\n{}", text);
}

// The topics that say something about a command.
std::string topics_of(const Command& command) {
  std::string text = "all";
  for (int g = 0; g < kGroupCount; ++g)
    if (!option_list(command, false, g).empty()) text += format(", {}", kGroupTopics[size_t(g)]);
  if (!command.examples.empty()) text += ", examples";
  return text + ", exit-codes, or an option's name";
}

std::string exit_codes() {
  std::string text = "\nExit codes:\n";
  for (const ExitCodeLine& line : exit_code_lines())
    text += format("  {:>5}  {}\n", line.code, line.meaning);
  return text;
}

std::string command_list(CommandKind kind, bool others) {
  std::string text;
  for (const Command& command : commands())
    if (!command.hidden && (command.kind == kind) != others)
      text += format("  {:<14}  {}\n", command.name, command.summary);
  return text;
}

std::string command_head(const Command& command, bool full) {
  std::string text = usage_lines(command);
  text += format("\n{}", full ? wrapped(command.description, 0) : format("{}\n", command.summary));
  if (command.kind == CommandKind::run) {
    text += "\nCollectives: ";
    std::string names;
    for (const Command& other : commands())
      if (stands_under_run(other) && !other.hidden)
        names += format("{}{}", names.empty() ? "" : " ", other.name);
    text += wrapped(names, 13).substr(13);
  }
  return text;
}

// Empty when the topic says nothing about this command.
std::string topic_text(const Command& command, const std::string& topic) {
  const auto group = std::find(kGroupTopics.begin(), kGroupTopics.end(), topic);
  if (group != kGroupTopics.end())
    return option_list(command, true, int(group - kGroupTopics.begin()));
  if (topic == "examples") return example_lines(command);
  if (topic == "exit-codes") return exit_codes();
  const Option* option = find_option(topic, command.scopes);
  return option == nullptr || option->hidden ? "" : "\n" + option_help(*option, true);
}

// All of it where that fits on a screen, else the options a line each, else the usual ones.
std::string command_help(const Command& command) {
  const auto fits = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n') <= kScreen;
  };
  const std::string more = format("\ncollctl {} --help TOPIC says more: ", command.name);
  const std::string topics = more.substr(1) + topics_of(command);
  std::string text =
      command_head(command, false) + option_list(command, false) + example_lines(command);
  if (text += "\n" + wrapped(topics, 0); fits(text)) return text;
  const std::string first =
      command.examples.empty() ? "" : format("\nExample:\n  {}\n", command.examples[0].line);
  text = command_head(command, false) + usual_options(command) + "\n" + wrapped(topics, 0);
  return text + (fits(text + example_lines(command)) ? example_lines(command) : first);
}

}  // namespace

bool is_help_topic(const std::string& word) {
  return word == "all" || word == "examples" || word == "exit-codes" ||
         std::find(kGroupTopics.begin(), kGroupTopics.end(), word) != kGroupTopics.end() ||
         find_option(word) != nullptr;
}

std::string help_topic_words() {
  std::string text = "all";
  for (const char* topic : kGroupTopics) text += format(" {}", topic);
  return text + " examples exit-codes";
}

std::string help_topics() {
  std::string text = "all";
  for (const char* topic : kGroupTopics) text += format(", {}", topic);
  return text + ", examples, exit-codes or an option's name";
}

std::string help_text(const Command* command, const std::string& topic) {
  if (command == nullptr || command->hidden) {
    if (topic == "exit-codes") return exit_codes().substr(1);
    std::string text =
        "collctl launches ranks, runs collectives among them and judges the result.\n\nUsage: "
        "collctl <command> [options]\n\nCommands:\n";
    text += command_list(CommandKind::collective, true);
    text += "\nCollectives, here or with -H on hosts; one rank per GPU, or per core:\n";
    text += command_list(CommandKind::collective, false);
    text +=
        "\nExamples:\n"
        "  collctl run -n 4 allreduce\n"
        "  collctl allreduce -H node01,node02\n"
        "  collctl run -n 2 -- hostname\n";
    if (topic == "all") text += exit_codes();
    return text + "\ncollctl <command> -h shows its options.\n";
  }
  if (!topic.empty() && topic != "all")
    if (const std::string part = topic_text(*command, topic); !part.empty()) return part.substr(1);
  if (topic != "all") return command_help(*command);
  std::string text = command_head(*command, true) + option_list(*command, true);
  text += example_lines(*command);
  if ((command->scopes & (kBench | kProgram | kTask)) != 0) text += exit_codes();
  return text;
}

}  // namespace collctl::cmd
