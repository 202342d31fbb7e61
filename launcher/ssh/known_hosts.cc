#include "launcher/ssh/known_hosts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/fd.h"
#include "base/format.h"
#include "base/split.h"
#include "base/wait.h"
#include "launcher/ssh/config.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostKnownHosts = 16 << 20;
constexpr double kLockS = 5;

// |1|salt|hash: HMAC-SHA1 of the name.
bool hash_matches(const std::string& field, const std::string& name) {
  const size_t second = field.find('|', 3);
  if (second == std::string::npos) return false;
  const auto salt = from_base64(field.substr(3, second - 3));
  const auto hash = from_base64(field.substr(second + 1));
  if (!salt || !hash || hash->size() != 20 || salt->empty()) return false;
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned size = 0;
  std::string lower;
  for (const char c : name) lower += char(std::tolower(static_cast<unsigned char>(c)));
  if (HMAC(EVP_sha1(), salt->data(), int(salt->size()),
           reinterpret_cast<const unsigned char*>(lower.data()), lower.size(), mac.data(),
           &size) == nullptr)
    return false;
  return size == hash->size() && std::equal(hash->begin(), hash->end(), mac.begin());
}

std::optional<KnownKey> parse_line(const std::string& line) {
  std::istringstream words(line);
  KnownKey key;
  std::string first;
  if (!(words >> first) || first[0] == '#') return std::nullopt;
  if (first[0] == '@') {
    if (first == "@revoked")
      key.revoked = true;
    else if (first == "@cert-authority")
      key.authority = true;
    else
      return std::nullopt;
    if (!(words >> first)) return std::nullopt;
  }
  key.hosts = first;
  if (!(words >> key.type >> key.blob)) return std::nullopt;
  // The blob begins with its own type: what does not is a line of SSH 1 or damaged.
  const auto blob = from_base64(key.blob);
  if (!blob) return std::nullopt;
  const uint8_t* p = blob->data();
  if (blob->size() < 4 || p[0] != 0 || p[1] != 0 || p[2] != 0 || p[3] != key.type.size() ||
      blob->size() < 4 + key.type.size() || !std::equal(key.type.begin(), key.type.end(), p + 4))
    return std::nullopt;
  return key;
}

Result<std::string> read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::string();
  std::string text(kMostKnownHosts + 1, '\0');
  in.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(in.gcount()));
  if (text.size() > kMostKnownHosts)
    return Error(ErrorCode::usage, file + " is larger than 16 MiB", "is it a known_hosts file?");
  return text;
}

}  // namespace

std::vector<KnownKey> parse_known_hosts(const std::string& text, const std::string& file) {
  std::vector<KnownKey> keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number)
    if (auto key = parse_line(line)) {
      key->where = format("{}:{}", file, number);
      keys.push_back(std::move(*key));
    }
  return keys;
}

Result<std::vector<KnownKey>> read_known_hosts(const std::vector<std::string>& files) {
  std::vector<KnownKey> keys;
  for (const std::string& file : files) {
    COLL_ASSIGN(const std::string text, read_file(file));
    std::vector<KnownKey> more = parse_known_hosts(text, file);
    keys.insert(keys.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  }
  return keys;
}

bool names_host(const std::string& field, const std::string& name) {
  if (field.rfind("|1|", 0) == 0) return hash_matches(field, name);
  bool found = false;
  for (const std::string_view pattern : base::split(field, ',')) {
    if (pattern.starts_with('!')) {
      if (matches_pattern(pattern.substr(1), name)) return false;
    } else if (!pattern.empty() && matches_pattern(pattern, name)) {
      found = true;
    }
  }
  return found;
}

std::string known_host_name(const std::string& host, int port) {
  return port == 22 ? host : format("[{}]:{}", host, port);
}

HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys, const std::string& name,
                              const std::string& type, const std::string& blob_base64) {
  HostKeyVerdict verdict;
  for (const KnownKey& key : keys) {
    if (key.authority || !names_host(key.hosts, name)) continue;
    const bool same = key.type == type && key.blob == blob_base64;
    if (key.revoked) {
      if (same) return {HostKeyVerdict::Kind::revoked, &key};
      continue;
    }
    if (same) {
      verdict = {HostKeyVerdict::Kind::match, &key};
    } else if (verdict.kind == HostKeyVerdict::Kind::unknown ||
               (verdict.kind == HostKeyVerdict::Kind::other_type && key.type == type)) {
      verdict = {
          key.type == type ? HostKeyVerdict::Kind::changed : HostKeyVerdict::Kind::other_type,
          &key};
    }
  }
  return verdict;
}

const KnownKey* authority_of(const std::vector<KnownKey>& keys, const std::string& name) {
  const auto at = std::ranges::find_if(
      keys, [&](const KnownKey& key) { return key.authority && names_host(key.hosts, name); });
  return at == keys.end() ? nullptr : &*at;
}

std::vector<std::string> known_types(const std::vector<KnownKey>& keys, const std::string& name) {
  std::vector<std::string> types;
  for (const KnownKey& key : keys)
    if (!key.authority && !key.revoked &&
        std::find(types.begin(), types.end(), key.type) == types.end() &&
        names_host(key.hosts, name))
      types.push_back(key.type);
  return types;
}

Status append_known_host(const std::string& file, const std::string& name, const std::string& type,
                         const std::string& blob_base64) {
  const std::string what = "add " + name + " to " + file;
  if (const size_t slash = file.rfind('/'); slash != std::string::npos && slash > 0)
    ::mkdir(file.substr(0, slash).c_str(), 0700);  // open() tells when there is none after this
  const base::Fd fd(::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return base::errno_error(ErrorCode::launch, what, errno);
  const Deadline deadline = Deadline::after_seconds(kLockS);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return base::errno_error(ErrorCode::launch, what, errno);
    if (deadline.passed())
      return Error(ErrorCode::launch, what + ": another process keeps the file locked");
    base::sleep_until(Deadline::after_ms(10));
  }
  // Another channel may have been faster (a jump host of many).
  COLL_ASSIGN(const std::string text, read_file(file));
  if (judge_host_key(parse_known_hosts(text, file), name, type, blob_base64).kind ==
      HostKeyVerdict::Kind::match)
    return {};
  std::string line = format("{} {} {}\n", name, type, blob_base64);
  if (!text.empty() && text.back() != '\n') line = format("\n{}", line);
  const ssize_t n = ::write(fd.get(), line.data(), line.size());
  if (n < 0) return base::errno_error(ErrorCode::launch, what, errno);
  if (size_t(n) != line.size()) return Error(ErrorCode::launch, what + ": the disk is full");
  return {};
}

std::string base64(ByteView bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                int(bytes.size()));
  text.resize(size_t(std::max(n, 0)));
  return text;
}

std::optional<Bytes> from_base64(const std::string& text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > kMostKnownHosts) return std::nullopt;
  size_t padding = 0;
  while (padding < 3 && text[text.size() - 1 - padding] == '=') ++padding;
  if (padding > 2 || text.find('=') < text.size() - padding) return std::nullopt;
  Bytes bytes(text.size() / 4 * 3);
  if (EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(text.data()),
                      int(text.size())) < 0)
    return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string fingerprint(ByteView blob) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(blob.data(), blob.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    return "(no SHA256)";
  std::string text = base64(digest);
  while (!text.empty() && text.back() == '=') text.pop_back();
  return "SHA256:" + text;
}

std::string short_key_type(const std::string& type) {
  if (type.find("ed25519") != std::string::npos) return "ED25519";
  if (type.find("ecdsa") != std::string::npos) return "ECDSA";
  if (type.find("rsa") != std::string::npos) return "RSA";
  return type;
}

HostKeyName host_key_name(const std::string& type, const std::string& blob_base64) {
  const auto blob = from_base64(blob_base64);
  return {short_key_type(type), blob ? fingerprint(*blob) : "(damaged)"};
}

std::string fingerprint_of_line(const std::string& file_and_line) {
  const std::string file = file_and_line.substr(0, file_and_line.rfind(':'));
  const auto keys = read_known_hosts({file});
  if (!keys) return {};
  for (const KnownKey& key : keys.value())
    if (key.where == file_and_line) return host_key_name(key.type, key.blob).fingerprint;
  return {};
}

}  // namespace collctl::launcher
