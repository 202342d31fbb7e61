#include "base/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

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

Secret secret_from_token(std::string_view token) {
  std::string text = "collctl token 1\n";
  text += token;
  std::array<uint8_t, 32> digest{};
  unsigned size = 0;
  const int ok = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  COLL_CHECK(ok == 1 && size == digest.size());
  OPENSSL_cleanse(text.data(), text.size());
  Secret secret;
  std::copy_n(digest.begin(), secret.bytes.size(), secret.bytes.begin());
  return secret;
}

std::array<uint8_t, 32> hmac_sha256(const Secret& secret, std::initializer_list<ByteView> parts) {
  // Every part goes in with its length, so that no two lists of parts give the same input.
  ByteWriter input;
  for (const ByteView part : parts) input.put_bytes(part);
  std::array<uint8_t, 32> digest{};
  unsigned size = 0;
  const uint8_t* done = HMAC(EVP_sha256(), secret.bytes.data(), int(secret.bytes.size()),
                             input.bytes().data(), input.bytes().size(), digest.data(), &size);
  COLL_CHECK(done != nullptr && size == digest.size());
  return digest;
}

bool equal_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace collctl::base
