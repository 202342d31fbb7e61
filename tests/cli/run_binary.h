// Runs the real binary through a shell, with an environment of its own, and keeps what it printed.
#pragma once
#include <string>

struct Ran {
  int code = -1;  // exit code; 128 + N when a signal ended it
  std::string out, err;
};

// `arguments` as one would type them after the binary's name (shell words, redirections allowed);
// `variables` as "A=1 B=2". A hang is ended after two minutes and seen as code 124.
Ran run_collctl(const std::string& arguments, const std::string& variables = "");
// The whole command line, in which {} is the binary's path.
Ran shell(const std::string& command, const std::string& variables = "");

std::string file_content(const std::string& path);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
