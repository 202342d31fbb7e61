#include "tests/cli/run_binary.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/places.h"

namespace fs = std::filesystem;
using collctl::format;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "collctl-cli-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  fs::remove_all(path_);
}

std::string file_content(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Ran shell(const std::string& command, const std::string& variables) {
  const TemporaryFolder folder;
  std::string line = command;
  for (size_t at = line.find("{}"); at != std::string::npos; at = line.find("{}"))
    line.replace(at, 2, collctl::test::collctl_binary());
  std::ofstream(folder / "script") << line << "\n";
  // Only what a command line needs: the tests' own environment must not change what is printed, nor
  // the machine's GPUs.
  const std::string whole = format(
      "env -i PATH=\"$PATH\" HOME=/nonexistent CUDA_VISIBLE_DEVICES=-1 {} timeout 120 bash {} > {} "
      "2> {} < /dev/null",
      variables, folder / "script", folder / "out", folder / "err");
  const int status = std::system(whole.c_str());
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = file_content(folder / "out");
  std::istringstream lines(file_content(folder / "err"));
  // A machine so busy that a small job takes ten seconds is told what goes on, which is no fault.
  for (std::string each; std::getline(lines, each);)
    if (!each.starts_with("collctl: now: ")) ran.err += each + (lines.eof() ? "" : "\n");
  return ran;
}

Ran run_collctl(const std::string& arguments, const std::string& variables) {
  return shell(format("{{}} {}", arguments), variables);
}
