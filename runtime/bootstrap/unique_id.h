// UniqueId: 128 bytes that let ranks find each other and prove that they belong together: version,
// address of the bootstrap root, 128-bit random secret. Made by the process of rank 0 and handed
// around over private channels only.
#pragma once
#include <string>

#include "base/auth.h"
#include "base/socket.h"

namespace collctl::runtime {

struct UniqueId {
  uint32_t magic;        // 'CLID'
  uint32_t version;      // 1
  sockaddr_in6 address;  // big enough for sockaddr_in, whose family says what it is
  base::Secret secret;
  uint8_t reserved[128 - 8 - sizeof(sockaddr_in6) - 16];

  Address root_address() const;
  static UniqueId make(const Address& root, const base::Secret& secret);
  std::string to_hex() const;  // for private channels only: it holds the secret
  static Result<UniqueId> from_hex(const std::string& text);
  uint64_t hash() const;  // identity of the job, safe to log
};
static_assert(sizeof(UniqueId) == 128);

// For ranks that others have started (meeting.h): the secret is derived from the token; without a
// token only loopback addresses are accepted (usage error otherwise). `from`: that which gave the
// address, for errors.
Result<UniqueId> unique_id_at(const Address& root, const std::string& token,
                              const std::string& from = "COLLCTL_COMM_ID");

}  // namespace collctl::runtime
