// The command line from its words to its exit code. Called by main (and by tests); one thread.
// Handlers return the exit code, or an error that is printed here, once, as text or JSON.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/text/console.h"
#include "cmd/cli/options.h"

namespace collctl::cmd {

int command_line(const std::vector<std::string>& arguments, Console& console);

// run.cc, collectives.cc
Result<int> run_command(const ParsedLine& line, Console& console);
Result<int> bench_command(const ParsedLine& line, Console& console);
// cmd/window_test/command.cc
Result<int> window_test_command(const ParsedLine& line, Console& console);
// cmd/rails/matrix.cc
Result<int> rails_command(const ParsedLine& line, Console& console);
// topo.cc, plan.cc, report_command.cc, doctor.cc, env_command.cc, version_command.cc
Result<int> topo_command(const ParsedLine& line, Console& console);
Result<int> plan_command(const ParsedLine& line, Console& console);
Result<int> report_command(const ParsedLine& line, Console& console);
Result<int> doctor_command(const ParsedLine& line, Console& console);
Result<int> env_command(const ParsedLine& line, Console& console);
Result<int> version_command(const ParsedLine& line, Console& console);
// "0.1.0", and with the source's revision when the build knew it: "0.1.0 (v0.1.0-12-gabcdef0)".
const char* version_number();
std::string version_text();
// help.cc: of one command, or of all when null. `topic`: empty for what fits on a screen, else one
// of is_help_topic().
std::string help_text(const Command* command, const std::string& topic);
// generate.cc, generate_man.cc
std::string completion_script(const std::string& shell);
struct ManPage {
  std::string file_name, content;
};
std::vector<ManPage> man_pages();
Status write_man_pages(const std::string& folder);

}  // namespace collctl::cmd
