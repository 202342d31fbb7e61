// The help of commands, made of the tables. Any thread.
#pragma once
#include <string>
#include <vector>

#include "base/env.h"
#include "cmd/cli/command.h"

namespace collctl::cmd {

// Help on one command, or on all when null. `topic`: empty for a text that fits on a screen, else
// one of is_help_topic(). `columns`: of the reader's screen; lines are 40 to 80 long, but for
// examples, which can be copied as they stand.
std::string help_text(const Command* command, const std::string& topic, int columns = 80);
// The topics that are no option's name, with blanks between.
std::string help_topic_words();

// Completions of shells and manual pages, made of the tables. Any thread.

std::string completion_script(const std::string& shell);
struct ManPage {
  std::string file_name, content;
};
std::vector<ManPage> man_pages();
Status write_man_pages(const std::string& folder);
// A knob's help with the words of the options that it names.
std::string knob_help(const base::Knob& knob);
// The section ENVIRONMENT: every knob.
std::string environment_section();

}  // namespace collctl::cmd
