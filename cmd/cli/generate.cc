// Completion scripts for bash, zsh and fish, out of the tables.

#include "base/check.h"
#include "base/format.h"
#include "cmd/cli/help.h"

namespace collctl::cmd {
namespace {

std::vector<const Command*> visible() {
  std::vector<const Command*> list;
  for (const Command& command : commands())
    if (!command.hidden) list.push_back(&command);
  return list;
}

std::vector<const Option*> options_of(const Command& command) {
  std::vector<const Option*> list;
  for (const Option& option : options())
    if (!option.hidden && applies(option, command)) list.push_back(&option);
  return list;
}

std::string words(const std::vector<std::string>& list) {
  std::string text;
  for (const auto& word : list) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string command_words(bool of_run) {
  std::vector<std::string> names;
  for (const Command* command : visible())
    if (!of_run || stands_under_run(*command)) names.emplace_back(command->name);
  return words(names);
}

// For single quotes in a shell.
std::string escaped(const std::string& text, const char* special) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (std::string_view(special).find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

bool names_hosts(const Option& option) {
  return std::string_view(option.name) == "hosts";
}

std::string dashed(const Option& option) {
  return option.letter != 0 ? format("-{}|--{}", option.letter, option.name)
                            : format("--{}", option.name);
}

// Values that may follow an option, as one bash case: words, files, folders.
std::string bash_values() {
  std::string text;
  for (const Option& option : options()) {
    // The first of its name: bash would not look further.
    if (option.hidden || !takes_value(option) || find_option(option.name) != &option) continue;
    std::string action;
    if (names_hosts(option))
      action = "_collctl_list \"$(_collctl_hosts)\"";
    else if (option.kind == ValueKind::choices)
      action = format("_collctl_list '{}'", words(option.allowed));
    else if (!option.allowed.empty())
      action = format("COMPREPLY=($(compgen -W '{}' -- \"$current\"))", words(option.allowed));
    else if (option.kind == ValueKind::file)
      action = "COMPREPLY=($(compgen -f -- \"$current\"))";
    else if (option.kind == ValueKind::directory)
      action = "COMPREPLY=($(compgen -d -- \"$current\"))";
    else
      action = "COMPREPLY=()";
    text += format("    {}) {}; return ;;\n", dashed(option), action);
  }
  return text + format("    --help) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n",
                       help_topic_words());
}

// The last word of a list behind its commas; hosts that this user's SSH knows.
constexpr const char* kBashLists = R"(_collctl_list() {
  local before=
  [[ $current != *,* ]] || before=${current%,*},
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${current##*,}"))
}
_collctl_hosts() {
  {
    awk '!/^[|@#]/ {n = split($1, names, ","); for (i = 1; i <= n; ++i) print names[i]}' \
      ~/.ssh/known_hosts /etc/ssh/ssh_known_hosts
    awk 'tolower($1) == "host" {for (i = 2; i <= NF; ++i) if ($i !~ /[*?!]/) print $i}' ~/.ssh/config
  } 2>/dev/null | sed 's/^\[//; s/\]:[0-9]*$//' | sort -u
}
)";

std::string bash_script() {
  std::string text = "# bash completion for collctl; made by: collctl completion bash\n";
  text += kBashLists;
  text +=
      "_collctl() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=${COMP_WORDS[1]} word i\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += format(
      "    COMPREPLY=($(compgen -W '{} help --help --version' -- \"$current\"))\n    return\n",
      command_words(false));
  text += format(
      "  elif [ \"$command\" = help ]; then\n"
      "    COMPREPLY=($(compgen -W '{}' -- \"$current\"))\n    return\n",
      command_words(false));
  text +=
      "  fi\n"
      "  # After -- the words are a program and its arguments.\n"
      "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
      "    if [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
      "      if [ $((i + 1)) -eq \"$COMP_CWORD\" ]; then\n"
      "        COMPREPLY=($(compgen -c -f -- \"$current\"))\n"
      "      else\n"
      "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "      fi\n"
      "      return\n"
      "    fi\n"
      "  done\n"
      "  case $previous in\n";
  text += bash_values();
  text += "  esac\n  case $command in\n";
  for (const Command* command : visible()) {
    std::string list;
    for (const Option* option : options_of(*command)) {
      list += format("--{} ", option->name);
      if (option->letter != 0) list += format("-{} ", option->letter);
    }
    list.pop_back();
    text += format(
        "    {})\n      if [[ $current == -* ]]; then\n"
        "        COMPREPLY=($(compgen -W '{}' -- \"$current\"))\n",
        command->name, list);
    std::string others;
    if (command->kind == CommandKind::run) others = format("-W '{}'", command_words(true));
    if (!command->known_words.empty()) others = format("-W '{}'", words(command->known_words));
    if (command->word_kind == ValueKind::directory) others = "-d";
    if (command->word_kind == ValueKind::file) others = "-f";
    if (!others.empty())
      text += format("      else\n        COMPREPLY=($(compgen {} -- \"$current\"))\n", others);
    text += "      fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -o filenames -F _collctl collctl\n";
}

std::string zsh_option(const Option& option) {
  const std::string help = escaped(option.help, "[]:\\");
  std::string value;
  if (takes_value(option)) {
    std::string action;
    if (names_hosts(option))
      action = "_sequence _hosts";
    else if (option.kind == ValueKind::choices)
      action = "_sequence compadd - " + words(option.allowed);
    else if (!option.allowed.empty())
      action = format("({})", words(option.allowed));
    else if (option.kind == ValueKind::file)
      action = "_files";
    else if (option.kind == ValueKind::directory)
      action = "_files -/";
    value = format(":{}:{}", escaped(option.value, ":[]\\"), action);
  }
  const std::string repeat = option.repeatable || option.kind == ValueKind::count ? "*" : "";
  const char* joined = takes_value(option) ? "=" : "";
  std::string text = format("    '{}--{}{}[{}]{}'", repeat, option.name, joined, help, value);
  if (option.letter != 0)
    text += format(" \\\n    '{}-{}{}[{}]{}'", repeat, option.letter,
                   takes_value(option) ? "+" : "", help, value);
  return text;
}

std::string zsh_script() {
  std::string text =
      "#compdef collctl\n"
      "# zsh completion for collctl; made by: collctl completion zsh\n"
      "_collctl_commands() {\n  local -a list\n  list=(\n";
  for (const Command* command : visible())
    text += format("    '{}:{}'\n", command->name, escaped(command->summary, ":\\"));
  text +=
      "  )\n  _describe command list\n}\n_collctl() {\n"
      "  if (( CURRENT == 2 )); then\n    _collctl_commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command* command : visible()) {
    text += format("  {})\n", command->name);
    if (command->kind == CommandKind::run)
      text +=
          "    # After -- the words are a program and its arguments.\n"
          "    local at=${words[(i)--]}\n"
          "    if (( at < CURRENT )); then\n"
          "      words=(\"${(@)words[at+1,-1]}\")\n"
          "      (( CURRENT -= at ))\n"
          "      _normal\n"
          "      return\n"
          "    fi\n";
    text += "    _arguments -s";
    for (const Option* option : options_of(*command)) text += " \\\n" + zsh_option(*option);
    if (command->kind == CommandKind::run)
      text += format(" \\\n    '1:collective:({})'", command_words(true));
    if (!command->known_words.empty())
      text += format(" \\\n    '1:word:({})'", words(command->known_words));
    if (command->word_kind == ValueKind::directory) text += " \\\n    '1:folder:_files -/'";
    if (command->word_kind == ValueKind::file) text += " \\\n    '1:file:_files'";
    text += " ;;\n";
  }
  return text +
         "  esac\n}\n"
         "if [ \"$funcstack[1]\" = _collctl ]; then\n  _collctl \"$@\"\nelse\n"
         "  compdef _collctl collctl\nfi\n";
}

std::string fish_script() {
  std::string text =
      "# fish completion for collctl; made by: collctl completion fish\n"
      "complete -c collctl -f\n";
  const std::string all = command_words(false);
  for (const Command* command : visible())
    text += format("complete -c collctl -n 'not __fish_seen_subcommand_from {}' -a {} -d '{}'\n",
                   all, command->name, escaped(command->summary, ""));
  for (const Command* command : visible())
    if (stands_under_run(*command))
      text += format(
          "complete -c collctl -n '__fish_seen_subcommand_from run; and not "
          "__fish_seen_subcommand_from {}' -a {} -d '{}'\n",
          command_words(true), command->name, escaped(command->summary, ""));
  for (const Command* command : visible()) {
    if (!command->known_words.empty())
      text += format("complete -c collctl -n '__fish_seen_subcommand_from {}' -a '{}'\n",
                     command->name, words(command->known_words));
    if (command->word_kind == ValueKind::directory)
      text +=
          "complete -c collctl -n '__fish_seen_subcommand_from man' -a "
          "'(__fish_complete_directories)'\n";
    if (command->word_kind == ValueKind::file)
      text += format("complete -c collctl -n '__fish_seen_subcommand_from {}' -F\n", command->name);
  }
  // One line per option, for all the commands that have it.
  for (const Option& option : options()) {
    if (option.hidden) continue;
    std::vector<std::string> names;
    for (const Command* command : visible())
      if (applies(option, *command)) names.emplace_back(command->name);
    text += "complete -c collctl";
    if (names.size() < visible().size())
      text += format(" -n '__fish_seen_subcommand_from {}'", words(names));
    if (option.letter != 0) text += format(" -s {}", option.letter);
    text += format(" -l {}", option.name);
    if (names_hosts(option))
      text += " -x -a '(__fish_append , (__fish_print_hostnames))'";
    else if (option.kind == ValueKind::choices)
      text += format(" -x -a '(__fish_append , {})'", words(option.allowed));
    else if (!option.allowed.empty())
      text += format(" -x -a '{}'", words(option.allowed));
    else if (option.kind == ValueKind::file)
      text += " -r -F";
    else if (option.kind == ValueKind::directory)
      text += " -x -a '(__fish_complete_directories)'";
    else if (takes_value(option))
      text += " -x";
    text += format(" -d '{}'\n", escaped(option.help, ""));
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  COLL_CHECK(shell == "fish");
  return fish_script();
}

}  // namespace collctl::cmd
