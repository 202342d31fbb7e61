// The kernel's facts of other processes. Reads /proc; any thread.
#pragma once
#include <string>

namespace collctl::base {

// The file behind a descriptor of a process: "/dev/pts/3", "pipe:[4711]". Empty: not to be known.
std::string open_file_of(int pid, int fd);
// The name of its program, cut as the kernel does ("python3"). Empty: not to be known.
std::string process_name(int pid);
// 0: not to be known, or none.
int parent_process(int pid);

}  // namespace collctl::base
