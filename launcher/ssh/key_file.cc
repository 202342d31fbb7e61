#include "launcher/ssh/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/fd.h"
#include "base/format.h"
#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/wire.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostKey = 65536;
constexpr const char* kOpenssh = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr const char* kOpensshEnd = "-----END OPENSSH PRIVATE KEY-----";

std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

// "openssh-key-v1", cipher, kdf, kdf options, number of keys, public key (PROTOCOL.key).
bool inspect_openssh(const std::string& body, KeyFile& key) {
  std::string packed;
  for (const char c : body)
    if (std::strchr(" \r\n\t", c) == nullptr) packed += c;
  const auto data = from_base64(packed);
  static const std::string magic("openssh-key-v1\0", 15);
  if (!data || data->size() < magic.size() ||
      !std::equal(magic.begin(), magic.end(), data->begin()))
    return false;
  size_t at = magic.size();
  const auto cipher = take_string(*data, at);
  const auto kdf = cipher ? take_string(*data, at) : std::nullopt;
  const auto kdf_options = kdf ? take_string(*data, at) : std::nullopt;
  if (!kdf_options || data->size() - at < 4) return false;
  at += 4;
  const auto blob = take_string(*data, at);
  size_t inside = 0;
  const auto type = blob ? take_string(*blob, inside) : std::nullopt;
  if (!type) return false;
  key.encrypted = text_of(*cipher) != "none";
  key.public_blob = *blob;
  key.type = text_of(*type);
  return true;
}

std::string read_text(const std::string& path, int& failure) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  failure = fd ? 0 : errno;
  std::string text;
  char piece[4096];
  while (fd && text.size() < kMostKey) {
    const ssize_t n = ::read(fd.get(), piece, sizeof piece);
    if (n < 0) failure = errno;
    if (n <= 0) break;
    text.append(piece, size_t(n));
  }
  return text;
}

}  // namespace

KeyFile inspect_key_text(const std::string& text, const std::string& public_text) {
  KeyFile key;
  key.state = KeyFile::State::good;
  const size_t begin = text.find(kOpenssh);
  if (begin != std::string::npos) {
    const size_t from = begin + std::strlen(kOpenssh), to = text.find(kOpensshEnd, from);
    if (to == std::string::npos || !inspect_openssh(text.substr(from, to - from), key))
      key.state = KeyFile::State::unknown_format;
  } else if (text.find("-----BEGIN RSA PRIVATE KEY-----") != std::string::npos) {
    key.type = "ssh-rsa";
  } else if (text.find("-----BEGIN EC PRIVATE KEY-----") != std::string::npos) {
    key.type = "ecdsa";
  } else if (text.find("PRIVATE KEY-----") == std::string::npos) {
    key.state = KeyFile::State::unknown_format;
  }
  if (text.find("ENCRYPTED") != std::string::npos && begin == std::string::npos)
    key.encrypted = true;
  if (key.public_blob.empty() && !public_text.empty()) {
    std::istringstream words(public_text);
    std::string type, blob;
    words >> type >> blob;
    if (const auto bytes = from_base64(blob)) {
      key.type = type;
      key.public_blob = *bytes;
    }
  }
  key.is_rsa = key.type == "ssh-rsa";
  key.is_hardware = key.type.rfind("sk-", 0) == 0;
  return key;
}

KeyFile inspect_key(const std::string& path) {
  KeyFile key;
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) {
      key.state = KeyFile::State::unreadable;
      key.problem = std::strerror(errno);
    }
    return key;
  }
  int failure = 0;
  const std::string text = read_text(path, failure);
  if (failure != 0) {
    key.state = KeyFile::State::unreadable;
    key.problem = std::strerror(failure);
    return key;
  }
  int no_public = 0;
  key = inspect_key_text(text, read_text(path + ".pub", no_public));
  key.has_certificate = ::access((path + "-cert.pub").c_str(), R_OK) == 0;
  // As OpenSSH: a key that others can read is not used.
  if (key.state == KeyFile::State::good && s.st_uid == ::getuid() && (s.st_mode & 077) != 0) {
    key.state = KeyFile::State::exposed;
    key.problem = format("others may read it (mode {:04o}): chmod 600", s.st_mode & 07777);
  }
  return key;
}

}  // namespace collctl::launcher
