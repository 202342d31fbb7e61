#include "base/process_facts.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/first_line.h"
#include "base/format.h"

namespace collctl::base {

std::string open_file_of(int pid, int fd) {
  char target[PATH_MAX];
  const ssize_t n = ::readlink(format("/proc/{}/fd/{}", pid, fd).c_str(), target, sizeof target);
  return n > 0 ? std::string(target, size_t(n)) : "";
}

std::string process_name(int pid) {
  return first_line(format("/proc/{}/comm", pid));
}

int parent_process(int pid) {
  std::ifstream in(format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const size_t name_end = stat.rfind(')');  // "12 (a name) S 1 ..."
  if (name_end == std::string::npos || name_end + 4 >= stat.size()) return 0;
  return std::atoi(stat.c_str() + name_end + 4);
}

}  // namespace collctl::base
