// Report files. Any thread.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace collctl::cmd {

// Whether writing could work, asked before a long run: its folder is there and writable.
Status check_writable(const std::string& path);
// The whole line at once, so that a process that is killed leaves whole lines. Error unavailable.
Status append_line(int fd, const std::string& path, std::string_view line);

}  // namespace collctl::cmd
