// This binary, for sending: its content hash, and its bytes compressed. Any thread.
#pragma once
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace collctl::launcher {

// SHA-256 of a file in hex; files of more than 1 GiB are refused.
Result<std::string> file_hash(const std::string& path);
// That of this binary, computed once.
Result<std::string> own_hash();
// The file as a gzip stream.
Result<Bytes> gzip_file(const std::string& path);
Result<Bytes> read_file_bytes(const std::string& path);

}  // namespace collctl::launcher
