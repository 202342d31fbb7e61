// Trees of files as tar archives (optionally gzip) in memory. Reading trusts nothing: sizes, counts
// and paths are bounded; what is never in a snapshot is refused. Used by reader_snapshot only.
// Threads: any.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/detect/file_tree.h"

namespace collctl::topology {

inline constexpr size_t kMaxArchiveBytes = size_t{64} << 20;  // packed, and unpacked

bool looks_like_archive(std::string_view bytes);
// `name` is for messages. Errors: usage: not an archive, cut off, larger than allowed, or with
// paths that lead outside it.
Result<TreeNodes> unpack(std::string_view bytes, const std::string& name);
// `last` is written at the end, so that its being there shows that nothing was cut off. Errors:
// unavailable: more than 4 GiB; defect.
Result<std::string> pack(const TreeNodes& nodes, const std::string& last, bool gzip);

}  // namespace collctl::topology
