// Files that are written whole or not at all: reports, dumps.
#pragma once
#include <string>

#include "base/result.h"

namespace collctl::base {

// Writes the whole file or leaves what was there: a temporary beside it, renamed at the end;
// devices and pipes are written as they are. Error unavailable, with the path. Threads: any.
Status write_file_atomically(const std::string& path, const std::string& content);

}  // namespace collctl::base
