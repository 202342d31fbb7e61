// SHA-256 by the functions that allocate nothing: a MAC is made where a lack of memory could not be
// told.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

namespace collctl::base {

Status fill_random(std::span<uint8_t> bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::getrandom(bytes.data() + at, bytes.size() - at, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno_error(ErrorCode::unavailable, "getrandom", errno);
    at += size_t(n);
  }
  return {};
}

Result<Secret> random_secret() {
  Secret secret;
  COLL_TRY(fill_random(secret.bytes));
  return secret;
}

Result<Secret> secret_from_token(std::string_view token) {
  constexpr std::string_view kSalt = "collctl token 2";
  constexpr uint64_t kCost = 1 << 15, kBlocks = 8, kLanes = 1, kMostBytes = 64 << 20;
  Secret secret;
  if (EVP_PBE_scrypt(token.data(), token.size(), reinterpret_cast<const uint8_t*>(kSalt.data()),
                     kSalt.size(), kCost, kBlocks, kLanes, kMostBytes, secret.bytes.data(),
                     secret.bytes.size()) != 1)
    return Error(ErrorCode::unavailable, "the secret cannot be derived from the token (scrypt)",
                 "it needs 32 MiB of memory");
  return secret;
}

// RFC 2104. Every part goes in with its length, so that no two lists of parts give the same input.
std::array<uint8_t, 32> hmac_sha256(const Secret& secret, std::initializer_list<ByteView> parts) {
  static_assert(sizeof secret.bytes <= SHA256_CBLOCK);
  SHA256_CTX hash;
  const auto begin = [&](uint8_t pad) {
    std::array<uint8_t, SHA256_CBLOCK> key{};
    std::ranges::copy(secret.bytes, key.begin());
    for (uint8_t& byte : key) byte ^= pad;
    SHA256_Init(&hash);
    SHA256_Update(&hash, key.data(), key.size());
    OPENSSL_cleanse(key.data(), key.size());
  };
  std::array<uint8_t, 32> digest{};
  begin(0x36);
  for (const ByteView part : parts) {
    const auto size = uint32_t(part.size());
    SHA256_Update(&hash, &size, sizeof size);
    SHA256_Update(&hash, part.data(), part.size());
  }
  SHA256_Final(digest.data(), &hash);
  begin(0x5c);
  SHA256_Update(&hash, digest.data(), digest.size());
  SHA256_Final(digest.data(), &hash);
  OPENSSL_cleanse(&hash, sizeof hash);
  return digest;
}

bool equal_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace collctl::base
