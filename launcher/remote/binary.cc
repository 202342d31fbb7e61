#include "launcher/remote/binary.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <filesystem>

#include "base/fd.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace collctl::launcher {
namespace {

constexpr off_t kMostBytes = 1 << 30;
// The wire is rarely slower than 100 MB/s: the fastest level is the best.
constexpr int kLevel = 1;
constexpr int kGzipWindow = 15 + 16;  // zlib's number for a gzip header

}  // namespace

Result<Bytes> read_file_bytes(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0)
    return base::errno_error(ErrorCode::unavailable, "read " + path, errno);
  if (s.st_size > kMostBytes)
    return Error(ErrorCode::unavailable, format("{} is larger than 1 GiB", path));
  Bytes bytes(size_t(s.st_size));
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::read(fd.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::errno_error(ErrorCode::unavailable, "read " + path, errno);
    if (n == 0)
      return Error(ErrorCode::unavailable, format("{} became shorter while it was read", path));
    at += size_t(n);
  }
  return bytes;
}

Result<std::string> file_hash(const std::string& path) {
  COLL_ASSIGN(const Bytes bytes, read_file_bytes(path));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    return Error(ErrorCode::defect, "SHA-256 failed");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += format("{:02x}", int(digest[i]));
  return hex;
}

Result<std::string> own_hash() {
  static const Result<std::string> hash = file_hash(base::kSelfPath);
  if (!hash) return Error(hash.error());
  return *hash;
}

Result<Bytes> gzip_file(const std::string& path) {
  COLL_ASSIGN(Bytes bytes, read_file_bytes(path));
  z_stream z{};
  if (deflateInit2(&z, kLevel, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return Error(ErrorCode::unavailable, "not enough memory to compress the binary");
  Bytes packed(deflateBound(&z, uLong(bytes.size())));
  z.next_in = bytes.data();
  z.avail_in = uInt(bytes.size());
  z.next_out = packed.data();
  z.avail_out = uInt(packed.size());
  const int rc = deflate(&z, Z_FINISH);
  packed.resize(z.total_out);
  deflateEnd(&z);
  if (rc != Z_STREAM_END) return Error(ErrorCode::defect, "cannot compress the binary");
  return packed;
}

Result<std::string> BinarySource::hash(const std::string& machine) {
  File& file = files_[machine];
  if (const std::string path = path_of(machine); file.hash.empty() && !path.empty()) {
    COLL_ASSIGN(file.hash, file_hash(path));
  }
  return file.hash;
}

Result<ByteView> BinarySource::packed(const std::string& machine) {
  return made(machine, files_[machine].packed, gzip_file);
}

Result<ByteView> BinarySource::plain(const std::string& machine) {
  return made(machine, files_[machine].plain, read_file_bytes);
}

std::string BinarySource::path_of(const std::string& machine) const {
  if (machine.empty()) return base::kSelfPath;
  if (const auto named = paths.find(machine); named != paths.end()) return named->second;
  std::error_code error;
  const std::string path =
      std::filesystem::read_symlink(base::kSelfPath, error).string() + "-" + machine;
  return beside && ::access(path.c_str(), R_OK) == 0 ? path : "";
}

Result<ByteView> BinarySource::made(const std::string& machine, Bytes& bytes,
                                    Result<Bytes> (*make)(const std::string&)) {
  if (machine.empty()) COLL_TRY(check());
  if (bytes.empty()) {
    COLL_ASSIGN(bytes, make(path_of(machine)));
  }
  return ByteView(bytes);
}

Status BinarySource::check() {
  if (own_hash_wanted.empty()) return {};
  COLL_ASSIGN(const std::string mine, own_hash());
  if (mine != own_hash_wanted)
    return Error(ErrorCode::launch, "the host that carries it has another build of collctl to send",
                 "let collctl copy itself to all hosts, or give --stage never");
  own_hash_wanted.clear();
  return {};
}

}  // namespace collctl::launcher
