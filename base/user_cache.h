// Small files that this user keeps from one job to the next: below $XDG_CACHE_HOME/collctl, else
// ~/.cache/collctl, in a folder that only the user may write. Nothing depends on them: they may be
// lost at any time, and what others may have written is not read. Threads: any.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::base {

// Path of a file of this name; empty: the user has no such place.
std::string cache_path(const std::string& name);

// Nothing: there is none. Error usage, with the path: it is no file of this user's alone, or longer
// than `most`.
Result<std::optional<std::string>> read_cached(const std::string& name, size_t most);

// Names of all files that begin so, in their order; none where the folder cannot be read.
std::vector<std::string> cached_names(const std::string& prefix);

// Written whole or not at all, for nobody else to read; makes the folder. Error unavailable: no
// place, no room, no right to.
Status write_cached(const std::string& name, const std::string& content);
// That there would be room for so much: writes it elsewhere in the folder and takes it away again.
Status try_cached(const std::string& name, size_t bytes);

}  // namespace collctl::base
