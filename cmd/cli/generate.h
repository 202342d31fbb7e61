// Completions of shells and manual pages, made of the tables. Any thread.
#pragma once
#include <string>
#include <vector>

#include "base/env.h"
#include "cmd/cli/command.h"

namespace collctl::cmd {

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
