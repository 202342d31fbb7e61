// Binaries for sending: this one, and those for hosts of another architecture. Any thread;
// BinarySource: one.
#pragma once
#include <map>
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

// The binaries for staging, each made once for all hosts and only when one asks. `machine`: for
// hosts of that architecture; empty: of this one. Errors: launch or unavailable. Threads: one.
class BinarySource {
 public:
  // This binary must have this hash; empty: it has.
  std::string own_hash_wanted;
  std::map<std::string, std::string> paths;  // by machine
  bool beside = true;  // and files beside this binary, with the machine behind their name

  Result<std::string> hash(const std::string& machine);  // empty: there is none
  Result<ByteView> packed(const std::string& machine);   // gzip
  Result<ByteView> plain(const std::string& machine);

 private:
  struct File {
    std::string hash;
    Bytes packed, plain;
  };
  std::string path_of(const std::string& machine) const;
  Result<ByteView> made(const std::string& machine, Bytes& bytes,
                        Result<Bytes> (*make)(const std::string&));
  Status check();
  std::map<std::string, File> files_;
};

}  // namespace collctl::launcher
