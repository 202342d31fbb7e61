// Files that this process writes where others may write as well (a shared folder, /tmp): never
// through a link that somebody put there, never into somebody else's file. Threads: any.
#pragma once
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace collctl::base {

// Opens for writing, makes the file where there is none. A file that is there must be this user's
// regular file under one name, or a device or pipe of this user or of root; only below /dev are
// links followed (/dev/stderr). `append`: behind what it holds, else in its place. Errors
// (unavailable) have the path.
Result<Fd> open_own_file(const std::string& path, bool append, unsigned mode = 0666);

}  // namespace collctl::base
