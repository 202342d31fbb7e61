// Files in which the kernel says one thing in one line (/sys, /proc, cgroups).
#pragma once
#include <fstream>
#include <string>

namespace collctl::base {

// The first line of a file without its end; empty when the file is not there or cannot be read.
// Threads: any.
inline std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace collctl::base
