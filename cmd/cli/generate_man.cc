// Manual pages in man(7) markup, out of the tables: collctl.1 and one page per command. No date
// stands in them, so that the same tables always make the same pages.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/env.h"
#include "base/format.h"
#include "base/split.h"
#include "base/whole_file.h"
#include "cmd/cli/help.h"

namespace collctl::cmd {
namespace {

// Text that no line of markup can be mistaken for; every dash is one that can be copied.
std::string roff_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else
      out += c;
  }
  return out.compare(0, 1, ".") == 0 ? format("\\&{}", out) : out;
}

std::string bold(const std::string& text) {
  return std::string("\\fB") + roff_escaped(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return std::string("\\fI") + roff_escaped(text) + "\\fR";
}

std::string heading(const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  // Names of variables and lists of words are too long to be spread over a line.
  return format(".TH {} 1 \"\" \"collctl {}\" \"User Commands\"\n.ad l\n", upper,
                version_of_tables());
}

std::string option_entry(const Option& option) {
  std::string text = ".TP\n";
  if (option.letter != 0) text += bold(format("-{}", option.letter)) + ", ";
  text += bold(format("--{}", option.name));
  if (takes_value(option)) text += std::string(" ") + italic(option.value);
  std::string what = option.help;
  what[0] = char(std::toupper(uint8_t(what[0])));
  text += std::string("\n") + roff_escaped(what) + ".\n";
  if (*option.more != 0) text += roff_escaped(option.more) + "\n";
  if (!option.allowed.empty() && option.kind != ValueKind::integer) {
    std::string words;
    for (const auto& word : option.allowed) words += (words.empty() ? "" : ", ") + bold(word);
    text += "One of " + words + ".\n";
  }
  if (option.repeatable) text += "May be given several times.\n";
  if (takes_value(option))
    text += std::string("Default: ") + roff_escaped(option.fallback) + ".\n";
  else if (option.group != Group::general)
    text += "Default: off.\n";
  return text;
}

std::string option_sections(const Command& command) {
  std::string text = ".SH OPTIONS\n";
  for (int g = 0; g < kGroupCount; ++g) {
    std::string part;
    for (const Option& option : options())
      if (!option.hidden && option.group == Group(g) && applies(option, command))
        part += option_entry(option);
    if (!part.empty()) text += format(".SS {}\n{}", group_title(Group(g)), part);
  }
  return text;
}

std::string exit_section() {
  std::string text = ".SH EXIT CODES\n";
  for (const ExitCodeLine& line : exit_code_lines())
    text += std::string(".TP\n") + bold(line.code) + "\n" + roff_escaped(line.meaning) + "\n";
  return text + ".PP\nWhen several apply, the worst is given: 70, 7, 5, 6, 4, 3, 1, 8. Under\n" +
         bold("run -- program") +
         "\nthe code of the first rank that failed is passed on, or 128 and the number of the "
         "signal that ended it.\n";
}

std::string example_section(const std::vector<Example>& examples) {
  if (examples.empty()) return "";
  std::string text = ".SH EXAMPLES\n";
  for (const Example& example : examples)
    text += std::string(".TP\n") + bold(example.line) + "\n" + roff_escaped(example.what) + "\n";
  return text;
}

std::string see_also(const Command* own) {
  std::string text = ".SH SEE ALSO\n";
  std::vector<std::string> names;
  if (own != nullptr) names.emplace_back("collctl");
  for (const Command& command : commands()) {
    const bool sibling = own != nullptr && own->kind == CommandKind::collective &&
                         command.kind == CommandKind::collective;
    if (!command.hidden && &command != own && !sibling)
      if (own == nullptr || command.kind != CommandKind::collective)
        names.push_back(format("collctl-{}", command.name));
  }
  for (size_t i = 0; i < names.size(); ++i)
    text += format(".BR {} (1){}\n", roff_escaped(names[i]), i + 1 < names.size() ? "," : "");
  return text;
}

std::string command_page(const Command& command) {
  const std::string name = format("collctl-{}", command.name);
  std::string text = heading(name);
  text += std::string(".SH NAME\n") + roff_escaped(name) + " \\- " + roff_escaped(command.summary) +
          "\n.SH SYNOPSIS\n";
  const char* head = "";
  for (const std::string_view arguments : base::split(command.arguments, '\n')) {
    text += head + bold(format("collctl {}", command.name)) + " " +
            roff_escaped(std::string(arguments)) + "\n";
    head = ".br\n";
  }
  text += std::string(".SH DESCRIPTION\n") + roff_escaped(command.description) + "\n";
  text += option_sections(command);
  const bool runs = (command.scopes & (kBench | kProgram | kTask)) != 0;
  if (runs) text += exit_section();
  if (runs) text += ".SH ENVIRONMENT\nThe knobs are described in\n.BR collctl (1).\n";
  if (command.more_manual != nullptr) text += command.more_manual();
  return text + example_section(command.examples) + see_also(&command);
}

std::string main_page() {
  std::string text = heading("collctl");
  text +=
      ".SH NAME\ncollctl \\- launch ranks, run collective operations, judge the result\n"
      ".SH SYNOPSIS\n" +
      bold("collctl") + " " + italic("command") + " [" + italic("options") +
      "]\n.SH DESCRIPTION\n"
      "One program that starts the ranks of a job, here or on hosts by SSH, lets them run\n"
      "collective operations on GPUs or CPU cores over NVLink, PCIe, shared memory, RDMA or\n"
      "sockets, checks every result and says by its exit code whether all is well.\nResults go to "
      "standard output, everything else to standard error.\n"
      ".SH COMMANDS\n";
  for (const Command& command : commands())
    if (!command.hidden)
      text +=
          std::string(".TP\n") + bold(command.name) + "\n" + roff_escaped(command.summary) + "\n";
  text += exit_section() + environment_section();
  const Command* run = find_command("run");
  return text + example_section(run->examples) + see_also(nullptr);
}

}  // namespace

// "a,b,c" of an option that takes several, else "a, b or c".
std::string knob_help(const base::Knob& knob) {
  std::string text = knob.help;
  const size_t open = text.find('{'), close = text.find('}');
  if (open == std::string::npos || close == std::string::npos) return text;
  const Option* option = find_option(text.substr(open + 1, close - open - 1));
  COLL_CHECK_NOTE(option != nullptr, "a knob's help names no option");
  std::vector<std::string> words = option->allowed;
  std::erase(words, "all");
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool several = option->kind == ValueKind::choices, last = i + 1 == words.size();
    list += (i == 0 ? "" : several ? "," : last ? " or " : ", ") + words[i];
  }
  return text.replace(open, close + 1 - open, list);
}

std::string environment_section() {
  std::string text =
      ".SH ENVIRONMENT\nEach knob is the variable shown. The name in parentheses is NCCL's, "
      "honoured when ours is unset.\n" +
      bold("collctl env") + "\nshows what is in force.\n";
  for (const base::Knob& knob : base::knobs()) {
    if ((knob.flags & base::kHidden) != 0) continue;
    text += std::string(".TP\n") + bold(format("COLLCTL_{}", knob.name));
    if (*knob.nccl_name != 0) text += format(" ({})", roff_escaped(knob.nccl_name));
    text += std::string("\n") + roff_escaped(knob_help(knob)) + ".\n";
    if (*knob.default_value != 0)
      text += std::string("Default: ") + roff_escaped(knob.default_value) + ".\n";
  }
  return text + ".TP\n" + bold("NO_COLOR") + "\nset and not empty: no colours.\n";
}

std::vector<ManPage> man_pages() {
  std::vector<ManPage> pages{{"collctl.1", main_page()}};
  for (const Command& command : commands())
    if (!command.hidden)
      pages.push_back({format("collctl-{}.1", command.name), command_page(command)});
  return pages;
}

Status write_man_pages(const std::string& folder) {
  for (size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      return base::errno_error(ErrorCode::unavailable, format("cannot make the folder {}", part),
                               errno);
    if (slash == std::string::npos) break;
  }
  for (const ManPage& page : man_pages())
    COLL_TRY(base::write_file_atomically(folder + "/" + page.file_name, page.content));
  return {};
}

}  // namespace collctl::cmd
