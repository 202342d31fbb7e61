#include "base/stream_mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstring>

namespace collctl::base {

void StreamMac::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

Result<StreamMac> StreamMac::make(const Session& session, bool from_connector) {
  constexpr uint8_t kUse[] = {'d', 'a', 't', 'a'};
  const uint8_t direction = from_connector ? 1 : 0;
  auto key = hmac_sha256(session.key, {kUse, {&direction, 1}});
  StreamMac mac(EVP_CIPHER_CTX_new());
  const bool good =
      mac.context_ != nullptr &&
      EVP_EncryptInit_ex(mac.context_.get(), EVP_aes_256_gcm(), nullptr, key.data(), nullptr) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  if (!good)
    return Error(ErrorCode::unavailable, "OpenSSL has no AES-256-GCM here, or no memory for it",
                 "leave out --integrity (COLLCTL_INTEGRITY)");
  return mac;
}

// GCM of a piece that is all associated data and no text: its tag is GMAC.
Result<StreamMac::Tag> StreamMac::next(ByteView piece) {
  EVP_CIPHER_CTX* const context = context_.get();
  uint8_t nonce[12] = {};
  std::memcpy(nonce + 4, &number_, sizeof number_);
  Tag tag;
  int none = 0;
  if (EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce) != 1 ||
      EVP_EncryptUpdate(context, nullptr, &none, piece.data(), int(piece.size())) != 1 ||
      EVP_EncryptFinal_ex(context, tag.data(), &none) != 1 ||
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, int(tag.size()), tag.data()) != 1)
    return Error(ErrorCode::defect, "OpenSSL made no MAC");
  ++number_;
  return tag;
}

}  // namespace collctl::base
