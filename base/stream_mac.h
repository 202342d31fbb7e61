// MACs of the pieces that one side of a connection sends, in their order: AES-256-GMAC (OpenSSL)
// under a key of the session and the direction, with the piece's number as the nonce. A piece that
// is changed, left out, doubled or swapped on the way does not match. Threads: one at a time.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "base/auth.h"

struct evp_cipher_ctx_st;

namespace collctl::base {

class StreamMac {
 public:
  using Tag = std::array<uint8_t, 16>;
  // `from_connector`: for what the connector sends, else for what it is sent. Error unavailable:
  // OpenSSL has no AES-GCM here.
  static Result<StreamMac> make(const Session& session, bool from_connector);
  // MAC of the next piece, of at most 2^31 - 1 bytes. Error defect: OpenSSL does not make it.
  Result<Tag> next(ByteView piece);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  explicit StreamMac(evp_cipher_ctx_st* context) : context_(context) {}
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;  // holds the key
  uint64_t number_ = 0;
};

}  // namespace collctl::base
