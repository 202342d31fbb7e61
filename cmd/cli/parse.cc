// Finding the command.
#include "cmd/cli/parse.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "cmd/cli/foreign_options.h"
#include "cmd/cli/values.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

std::vector<std::string> visible_commands() {
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (!command.hidden) names.emplace_back(command.name);
  return names;
}

// `arguments` of run; the word stands at `place`.
Error unknown_collective(const std::vector<std::string>& arguments, size_t place) {
  const std::string& word = arguments[place];
  const bool hosts =
      place > 1 && (arguments[place - 2] == "-H" || arguments[place - 2] == "--hosts");
  const auto known = [](const std::string& each) { return find_collective(each) != nullptr; };
  if (hosts && std::any_of(arguments.begin() + std::ptrdiff_t(place), arguments.end(), known))
    return usage(format("unknown collective '{}'; hosts have commas between them: -H {},{}", word,
                        arguments[place - 1], word));
  std::vector<std::string> names;
  for (const Command& command : commands())
    if (stands_under_run(command) && !command.hidden) names.emplace_back(command.name);
  std::string near = find_collective(meant_command(word)) != nullptr ? meant_command(word) : "";
  // The name of a file is a program's.
  if (near.empty() && word.find_first_of("./") == std::string::npos) near = nearest(word, names);
  if (!near.empty()) return usage(format("unknown collective '{}'; did you mean {}?", word, near));
  return usage(format("unknown collective '{}'; a program goes after --: {}", word,
                      with_program_dashes(arguments, place)));
}

// The first word of run that is neither an option nor its value decides what it runs: what stands
// behind a program's name are the program's options, not mistakes in ours.
Status check_first_word(const ParsedLine& line, const std::vector<std::string>& arguments) {
  if (line.command->kind != CommandKind::run || line.has_program) return {};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() > 1 && word[0] == '-') {
      const Option* option = option_of_word(*line.command, word);
      if (option != nullptr && takes_value(*option)) ++i;
      // --ranks=4, -n4
      const std::string head = word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
      if (option_of_word(*line.command, head) == nullptr) return {};
    } else if (find_collective(word) == nullptr) {
      return unknown_collective(arguments, i);
    } else {
      return {};
    }
  }
  return {};
}

Status place_words(ParsedLine& line, const std::vector<std::string>& arguments) {
  const Command& command = *line.command;
  auto& words = line.words;
  if (command.kind == CommandKind::run && !line.has_program) {
    if (words.empty()) {
      if (line.help) return {};
      return usage(
          "expected a collective or -- and a program; for example: "
          "collctl run -n 4 allreduce");
    }
    line.collective = find_collective(words[0]);
    if (line.collective == nullptr && line.help) return {};
    if (line.collective == nullptr)
      return unknown_collective(arguments,
                                size_t(std::ranges::find(arguments, words[0]) - arguments.begin()));
    words.erase(words.begin());
  }
  if (stands_under_run(command)) line.collective = &command;
  if (line.help) return {};
  const auto most = size_t(std::max(command.words, command.most_words));
  if (words.size() > most) {
    const std::string& word = words[most];
    if (const std::string meant = meant_word(line, word); !meant.empty())
      return usage(format("unexpected '{}'; did you mean {}?", word, meant));
    return usage(
        line.has_program
            ? format("unexpected '{}' before --; the program goes after it", word)
            : format("unexpected '{}'; collctl {} -h shows what it takes", word, command.name));
  }
  if (words.size() < size_t(command.words)) {
    std::string expected = command.arguments;
    for (size_t at = 0; (at = expected.find('\n', at)) != std::string::npos;)
      expected.replace(at, 1, ", or ");
    return usage("expected " + expected);
  }
  if (!command.known_words.empty() && !words.empty() &&
      std::ranges::find(command.known_words, words[0]) == command.known_words.end())
    return usage(format("'{}': expected {}", words[0], joined(command.known_words)));
  if (line.has_program && line.program.empty()) return usage("expected a program after --");
  return {};
}

// run takes the options of both its forms; the ones of the other form have no meaning.
Status check_form(const ParsedLine& line) {
  if (line.command->kind != CommandKind::run || line.help) return {};
  const Command* const task =
      line.collective != nullptr && line.collective->kind == CommandKind::task ? line.collective
                                                                               : nullptr;
  const uint32_t form = line.has_program                          ? kProgram
                        : task != nullptr && task->under_run != 0 ? task->under_run
                        : task != nullptr                         ? task->scopes
                                                                  : kBench;
  for (const auto& [name, values] : line.given) {
    if (find_option(name, form) != nullptr) continue;
    const uint32_t scopes = find_option(name, line.command->scopes)->scopes;
    for (const Command& other : commands())
      if (other.kind == CommandKind::task && (scopes & (kBench | kProgram)) == 0 &&
          (other.scopes & scopes) != 0)
        return usage(format("--{} is for collctl run {}", name, other.name));
    if (line.has_program)
      return usage(format("--{} measures a collective; it has no meaning with a program", name));
    if (task != nullptr && (form & kBench) == 0)
      return usage(format("--{} has no meaning with {}", name, task->name));
    return usage(
        format("--{} has no meaning with a collective; it is for collctl run -- <program>", name));
  }
  return {};
}

size_t edit_distance(const std::string& a, const std::string& b) {
  // Rows of the usual table, kept three deep for neighbours that changed places.
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return text;
}

}  // namespace

Error unknown_command(const std::string& word) {
  std::string near = meant_command(word);
  if (near.empty()) near = nearest(word, visible_commands());
  if (!near.empty()) return usage(format("unknown command '{}'; did you mean {}?", word, near));
  return usage(format("unknown command '{}'; collctl -h lists the commands", word));
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() > 64) return "";
  std::string best;
  // At most a third of the letters may differ; two in words of four to eight, one in shorter ones.
  const size_t most = word.size() < 4 ? 1 : std::max<size_t>(2, word.size() / 3);
  size_t least = std::min(most + 1, word.size());  // never all of them
  for (const auto& name : names) {
    // The beginning of a name, or the name with a dash or underscore more, is as good as near.
    std::string bare = lower(word), bare_name = lower(name);
    for (std::string* text : {&bare, &bare_name})
      text->erase(
          std::remove_if(text->begin(), text->end(), [](char c) { return c == '-' || c == '_'; }),
          text->end());
    size_t distance = edit_distance(lower(word), lower(name));
    if (bare == bare_name)
      distance = 0;
    else if (bare.size() >= 3 && bare_name.compare(0, bare.size(), bare) == 0)
      distance = 1;
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

const Option& ParsedLine::row(const std::string& option) const {
  // An option that the command does not take has its default.
  const Option* row = command != nullptr ? find_option(option, command->scopes) : nullptr;
  if (row == nullptr) row = find_option(option);
  COLL_CHECK(row != nullptr);
  return *row;
}

std::string ParsedLine::text(const std::string& option) const {
  const auto it = given.find(option);
  return it != given.end() ? it->second.back() : row(option).fallback;
}

std::vector<std::string> ParsedLine::all(const std::string& option) const {
  const auto it = given.find(option);
  return it == given.end() ? std::vector<std::string>{} : it->second;
}

int ParsedLine::times(const std::string& option) const {
  const auto it = given.find(option);
  return it == given.end() ? 0 : int(it->second.size());
}

double ParsedLine::number(const std::string& option, double otherwise) const {
  return number_of(row(option), text(option)).value_or(otherwise);
}

const char* ParsedLine::first_of(std::initializer_list<const char*> names) const {
  const auto at = std::ranges::find_if(names, [&](auto* name) { return has(name); });
  return at == names.end() ? nullptr : *at;
}

Status ParsedLine::exclusive(const char* option, std::initializer_list<Excluded> others) const {
  for (const Excluded& other : others)
    if (has(other.option))
      return usage(
          format("--{} with --{}: {}; expected one of the two", other.option, option, other.why));
  return {};
}

Result<ParsedLine> parse(const std::vector<std::string>& arguments) {
  ParsedLine line;
  const auto split = std::ranges::find(arguments, "--");
  std::vector<std::string> ours = with_two_dashes({arguments.begin(), split});
  line.has_program = split != arguments.end();
  if (line.has_program) line.program.assign(split + 1, arguments.end());
  // Help is given whatever else is wrong with the line.
  for (size_t i = 0; i < ours.size(); ++i) {
    const bool joined = ours[i].starts_with("--help=");
    if (ours[i] != "--help" && ours[i] != "-h" && !joined) continue;
    line.help = true;
    const std::string topic = joined ? ours[i].substr(7) : i + 1 < ours.size() ? ours[i + 1] : "";
    // A word after --help that is no topic is a mistake, which help() says; -h takes no topic.
    const bool about =
        ours[i] != "-h" && !topic.empty() && topic[0] != '-' && find_command(topic) == nullptr;
    if (about || is_help_topic(topic)) line.help_topic = topic;
  }
  if (!ours.empty() && (ours[0] == "--version" || ours[0] == "-V")) ours[0] = "version";
  if (ours.empty() || ours[0] == "-h" || ours[0].starts_with("--help")) {
    if (ours.size() > 1) line.command = find_command(ours[1]);  // collctl --help run
    if (line.command != nullptr) line.help_topic.clear();
    if (!ours.empty() || !line.has_program) return line;
    return usage("expected a command before --; to launch a program: collctl run -- <program>");
  }
  if (ours[0].size() > 1 && ours[0][0] == '-')
    return usage(
        format("unknown option {}; the command comes first, for example: "
               "collctl run -n 4 allreduce",
               ours[0]));
  line.command = find_command(ours[0]);
  if (line.command == nullptr) {
    if (line.help) return line;
    return unknown_command(ours[0]);
  }
  ours.erase(ours.begin());
  if (line.has_program && line.command->kind != CommandKind::run)
    return usage(format("{} takes no program; to launch one: collctl run -- <program>",
                        line.command->name))
        .within(line.command->name);
  const auto within = [&](Status status) -> Status {
    if (status.ok()) return status;
    return std::move(status.error()).within(line.command->name);
  };
  if (Status parsed = parse_options(*line.command, ours, line); !parsed.ok()) {
    if (!line.help) COLL_TRY(within(check_first_word(line, ours)));
    if (!line.help) return within(std::move(parsed)).error();
    line.given.clear();
    line.words.clear();
  }
  COLL_TRY(within(place_words(line, ours)));
  if (line.help) return line;
  COLL_TRY(within(take_habits(ours, line)));
  // -o -: the report for programs on standard output. A picture of topo stays one.
  if (const auto files = line.given.find("output");
      files != line.given.end() && find_option("json", line.command->scopes) != nullptr &&
      !line.command->draws_to_stdout && std::erase(files->second, "-") > 0) {
    line.given["json"].push_back("true");
    if (files->second.empty()) line.given.erase(files);
  }
  COLL_TRY(within(check_form(line)));
  for (const auto& [name, values] : line.given)
    for (const auto& value : values)
      COLL_TRY(within(check_value(*find_option(name, line.command->scopes), value)));
  return line;
}

}  // namespace collctl::cmd
