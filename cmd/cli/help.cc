// Help out of the tables: what fits on a screen first, --help all has everything, --help TOPIC a
// part.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/split.h"
#include "cmd/cli/help.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

constexpr size_t kWidest = 80, kNarrowest = 40;
constexpr size_t kBeside = 70;          // from there on words stand beside names, else below
constexpr size_t kBelow = 8;            // where they begin there
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

// Names, then what they mean: from `column` on, or below where a line is too narrow for both.
std::string entry(std::string names, const std::string& words, size_t column, size_t width) {
  const bool below = width < kBeside;
  const size_t indent = below ? kBelow : column;
  if (below || names.size() + 2 > column)
    names += "\n" + std::string(indent, ' ');
  else
    names.resize(column, ' ');
  return words.empty() ? names + "\n" : names + wrapped_text(words, indent, width).substr(indent);
}

std::string option_names(const Option& option) {
  std::string text = option.letter != 0 ? format("-{}, ", option.letter) : "    ";
  text += format("--{}", option.name);
  if (takes_value(option)) text += format(" {}", option.value);
  return text;
}

std::string default_of(const Option& option) {
  if (takes_value(option)) return format("[{}]", option.fallback);
  return option.group == Group::general ? "" : "[off]";
}

constexpr size_t kWords = 30;  // column of an option's words

std::string option_help(const Option& option, bool full, size_t width) {
  std::string what = option.help;
  if (const std::string standard = default_of(option); !standard.empty()) what += " " + standard;
  std::string text = entry(format("  {}", option_names(option)), what, kWords, width);
  if (!full) return text;
  const auto add = [&](const std::string& more) {
    text += wrapped_text(more, width < kBeside ? kBelow : kWords, width);
  };
  if (!option.allowed.empty() && option.kind != ValueKind::integer)
    add(format("one of: {}", joined(option.allowed)));
  if (*option.more != 0) add(option.more);
  if (option.repeatable) add("May be given several times.");
  return text;
}

// Mostly one line: the default where there is room for it.
std::string usual_option(const Option& option, size_t width) {
  std::string names = format("  {}", option_names(option));
  if (width < kBeside) return option_help(option, false, width);
  names.resize(std::max(names.size() + 2, kWords), ' ');
  const std::string line = names + option.help, standard = default_of(option);
  const bool room = !standard.empty() && line.size() + 1 + standard.size() <= width;
  if (room || line.size() <= width) return line + (room ? " " + standard : "") + "\n";
  return names + wrapped_text(option.help, kWords, width).substr(kWords);
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
std::string usual_options(const Command& command, size_t width) {
  const auto among = [](const auto& list, const Option& option) {
    return std::ranges::find(list, std::string_view(option.name)) != std::end(list);
  };
  std::string own, usual, everywhere;
  for (const Option& option : options()) {
    if (option.hidden || !applies(option, command)) continue;
    if (command.kind != CommandKind::run && is_own(option))
      own += usual_option(option, width);
    else if (among(kUsual, option))
      (among(kEverywhere, option) ? everywhere : usual) += usual_option(option, width);
  }
  if (own.empty()) return "\nMost used:\n" + usual + everywhere;
  return format("\nOptions of {}:\n{}\nOf most commands:\n{}", command.name, own, everywhere);
}

// `only`: one group, or all when negative.
std::string option_list(const Command& command, bool full, size_t width, int only = -1) {
  std::string text;
  for (int g = 0; g < kGroupCount; ++g) {
    std::string part;
    if (only >= 0 && g != only) continue;
    for (const Option& option : options())
      if (!option.hidden && option.group == Group(g) && applies(option, command))
        part += option_help(option, full, width);
    if (!part.empty()) text += format("\n{}:\n{}", group_title(Group(g)), part);
  }
  return text;
}

std::string usage_lines(const Command& command, size_t width) {
  std::string text;
  for (const std::string_view arguments : base::split(command.arguments, '\n')) {
    const std::string line = format("collctl {} {}", command.name, arguments);
    const std::string head = text.empty() ? "Usage: " : "       ";
    text += head + wrapped_text(line, head.size(), width).substr(head.size());
  }
  return text;
}

std::string example_lines(const Command& command, size_t width) {
  std::string text;
  for (const Example& example : command.examples) {
    const std::string line = format("  {}", example.line), what = format("# {}", example.what);
    const bool fits = line.size() + 2 + what.size() <= width;
    text += line + (fits ? "  " + what + "\n" : "\n" + wrapped_text(what, 6, width));
  }
  return text.empty() ? text : format("\nExamples:\n{}", text);
}

// The topics that say something about a command.
std::string topics_of(const Command& command) {
  std::string text = "all";
  for (int g = 0; g < kGroupCount; ++g)
    if (!option_list(command, false, kWidest, g).empty())
      text += format(", {}", kGroupTopics[size_t(g)]);
  if (!command.examples.empty()) text += ", examples";
  return text + ", exit-codes, or an option's name";
}

std::string exit_codes(size_t width) {
  std::string text = "\nExit codes:\n";
  for (const ExitCodeLine& line : exit_code_lines())
    text += format("  {:>5}  {}", line.code, wrapped_text(line.meaning, 9, width).substr(9));
  return text;
}

std::string command_list(CommandKind kind, bool others, size_t width) {
  std::string text;
  for (const Command& command : commands())
    if (!command.hidden && !command.unlisted && (command.kind == kind) != others)
      text += entry(format("  {}", command.name), command.summary, 18, width);
  return text;
}

std::string command_head(const Command& command, bool full, size_t width) {
  std::string text = usage_lines(command, width);
  text += "\n" + wrapped_text(full ? command.description : command.summary, 0, width);
  if (command.kind == CommandKind::run) {
    text += "\nCollectives: ";
    std::string names;
    for (const Command& other : commands())
      if (stands_under_run(other) && !other.hidden && !other.unlisted)
        names += format("{}{}", names.empty() ? "" : " ", other.name);
    text += wrapped_text(names, 13, width).substr(13);
  }
  return text;
}

// Empty when the topic says nothing about this command.
std::string topic_text(const Command& command, const std::string& topic, size_t width) {
  const auto group = std::ranges::find(kGroupTopics, topic);
  if (group != kGroupTopics.end())
    return option_list(command, true, width, int(group - kGroupTopics.begin()));
  if (topic == "examples") return example_lines(command, width);
  if (topic == "exit-codes") return exit_codes(width);
  const Option* option = find_option(topic, command.scopes);
  return option == nullptr || option->hidden ? "" : "\n" + option_help(*option, true, width);
}

// All of it where that fits on a screen, else the options a line each, else the usual ones.
std::string command_help(const Command& command, size_t width) {
  const auto fits = [](const std::string& text) {
    return std::ranges::count(text, '\n') <= kScreen;
  };
  const std::string more = format("\ncollctl {} --help TOPIC says more: ", command.name);
  const std::string topics = more.substr(1) + topics_of(command);
  std::string text = command_head(command, false, width) + option_list(command, false, width) +
                     example_lines(command, width);
  if (text += "\n" + wrapped_text(topics, 0, width); fits(text)) return text;
  const std::string first =
      command.examples.empty() ? "" : format("\nExample:\n  {}\n", command.examples[0].line);
  text = command_head(command, false, width) + usual_options(command, width) + "\n" +
         wrapped_text(topics, 0, width);
  const std::string examples = example_lines(command, width);
  return text + (fits(text + examples) ? examples : first);
}

}  // namespace

bool is_help_topic(const std::string& word) {
  return word == "all" || word == "examples" || word == "exit-codes" ||
         std::ranges::find(kGroupTopics, word) != kGroupTopics.end() ||
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

std::string help_text(const Command* command, const std::string& topic, int columns) {
  const size_t width = std::clamp(size_t(std::max(columns, 0)), kNarrowest, kWidest);
  if (command == nullptr || command->hidden) {
    if (topic == "exit-codes") return exit_codes(width).substr(1);
    std::string text = wrapped_text(
        "collctl launches ranks, runs collectives among them and judges the result.", 0, width);
    text += "\nUsage: collctl <command> [options]\n\nCommands:\n";
    text += command_list(CommandKind::collective, true, width);
    text += "\n" + wrapped_text(
                       "Collectives, here or with -H on hosts; one rank per GPU, or per "
                       "core:",
                       0, width);
    text += command_list(CommandKind::collective, false, width);
    text +=
        "\nExamples:\n"
        "  collctl run -n 4 allreduce\n"
        "  collctl allreduce -H node01,node02\n"
        "  collctl run -n 2 -- hostname\n";
    if (topic == "all") text += exit_codes(width);
    return text + "\ncollctl <command> -h shows its options.\n";
  }
  if (!topic.empty() && topic != "all")
    if (const std::string part = topic_text(*command, topic, width); !part.empty())
      return part.substr(1);
  if (topic != "all") return command_help(*command, width);
  std::string text = command_head(*command, true, width) + option_list(*command, true, width);
  text += example_lines(*command, width);
  if ((command->scopes & (kBench | kProgram | kTask)) != 0) text += exit_codes(width);
  return text;
}

}  // namespace collctl::cmd
