// Files that are written whole or not at all: reports, dumps.
#pragma once
#include <string>

#include "base/result.h"

namespace collctl::base {

// Writes the whole file or leaves what was there: a temporary beside it, renamed at the end;
// devices and pipes are written as they are. `mode`, less the umask, is who may do what with it.
// Error unavailable, with the path. Threads: any.
Status write_file_atomically(const std::string& path, const std::string& content, int mode = 0666);
// The content of a regular file. Errors: usage, with the path: it cannot be read, is no file, or is
// longer than `most`.
Result<std::string> read_file(const std::string& path, size_t most);
// The same of a file that only root or this user can have written.
Result<std::string> read_trusted_file(const std::string& path, size_t most);

}  // namespace collctl::base
