#include "runtime/bootstrap/unique_id.h"

#include <cstddef>
#include <cstring>

#include "base/format.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kIdMagic = 0x44494c43;  // "CLID"
constexpr uint32_t kVersion = 1;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Address UniqueId::root_address() const {
  Address a;
  a.length = address.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&a.storage, &address, a.length);
  return a;
}

UniqueId UniqueId::make(const Address& root, const base::Secret& secret) {
  UniqueId id{};
  id.magic = kIdMagic;
  id.version = kVersion;
  std::memcpy(&id.address, &root.storage,
              root.family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  id.secret = secret;
  return id;
}

std::string UniqueId::to_hex() const {
  uint8_t bytes[sizeof(UniqueId)];
  std::memcpy(bytes, this, sizeof bytes);
  std::string text;
  text.reserve(2 * sizeof bytes);
  for (const uint8_t b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

Result<UniqueId> UniqueId::from_hex(const std::string& text) {
  // The text holds the secret: errors never repeat it.
  uint8_t bytes[sizeof(UniqueId)];
  if (text.size() != 2 * sizeof bytes)
    return Error(ErrorCode::usage, format("a unique id has {} hexadecimal digits, this text has {}",
                                          2 * sizeof bytes, text.size()));
  for (size_t i = 0; i < sizeof bytes; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return Error(ErrorCode::usage, format("a unique id is hexadecimal; digit {} is not",
                                            high < 0 ? 2 * i : 2 * i + 1));
    bytes[i] = uint8_t(high << 4 | low);
  }
  UniqueId id;
  std::memcpy(&id, bytes, sizeof bytes);
  if (id.magic != kIdMagic) return Error(ErrorCode::usage, "this is not a unique id of collctl");
  if (id.version != kVersion)
    return Error(ErrorCode::usage,
                 format("the unique id has version {}, this collctl supports version {}",
                        id.version, kVersion),
                 "use the same collctl everywhere");
  if (id.address.sin6_family != AF_INET && id.address.sin6_family != AF_INET6)
    return Error(ErrorCode::usage, "the unique id holds no IPv4 or IPv6 address");
  return id;
}

uint64_t UniqueId::hash() const {
  // Keyed by the secret and one-way: says which job it is and nothing about the secret. Ranks may
  // know the root by different addresses, but by one port.
  ByteWriter place;
  place.put(root_address().port());
  const std::string word = "collctl job 2";
  const auto digest = base::hmac_sha256(secret, {base::bytes_of(word), place.bytes()});
  uint64_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return hash;
}

Result<UniqueId> unique_id_at(const Address& root, const std::string& token,
                              const std::string& from) {
  if (token.empty() && !root.is_loopback())
    return Error(ErrorCode::usage,
                 format("{}: {} can be reached from other hosts, but there is no token to keep "
                        "strangers out",
                        from, root.text()),
                 "give every rank the same COLLCTL_TOKEN (or --token-file); without one only "
                 "loopback addresses are accepted");
  COLL_ASSIGN(const base::Secret secret, base::secret_from_token(token));
  return UniqueId::make(root, secret);
}

}  // namespace collctl::runtime
