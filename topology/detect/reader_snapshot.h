// Machines studied elsewhere: all that a detection read, as a folder or archive that looks like the
// kernel's own files, with the drivers' facts (drivers.json) and what was recorded where
// (meta.json, schema collctl.snapshot/1). It holds the files that discover reads and nothing else;
// the host's name is among them, addresses and users are not. Threads: any.
#pragma once
#include <string>

#include "base/result.h"
#include "topology/detect/discover.h"
#include "topology/detect/reader.h"

namespace collctl::topology {

// The kind of a path given to --from, by its content.
enum class SourceKind : uint8_t { xml, folder, archive };
// Errors: usage: not there, or neither a folder nor a plain file.
Result<SourceKind> kind_of_source(const std::string& path);

// A folder without meta.json but with sys/ is taken as a bare copy of the kernel's files. Errors:
// usage: not a snapshot, cut off, out of bounds; with the file's name.
Result<Reader> snapshot_reader(const std::string& path);

// As discover, and keeps what was read.
Detected discover_recorded(Reader& reader, TreeNodes& taken);

// The files of a snapshot: what discover_recorded kept, the drivers' facts and the description.
TreeNodes snapshot_files(const Reader& reader, TreeNodes taken);
// As a tar archive. Errors: defect.
Result<std::string> snapshot_archive(const TreeNodes& files, bool gzip);
// As a folder, which must not exist yet or be empty: all or nothing. Errors: usage: there
// is something already; unavailable: cannot be written.
Status write_snapshot_folder(const TreeNodes& files, const std::string& path);

}  // namespace collctl::topology
