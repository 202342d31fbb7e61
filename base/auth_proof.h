// Parts of the handshake that both sides share: the messages and the two proofs. Internal to
// base/auth.
//
//   listener -> connector   Challenge  (nonce)
//   connector -> listener   Answer     (nonce, proof over role, both nonces and greeting), greeting
//   listener -> connector   32 bytes   (proof of the other role over the same)
//
// The role's word in each proof keeps one side's proof from being sent back as the other's.
#pragma once
#include <algorithm>
#include <array>

#include "base/auth.h"

namespace collctl::base::auth {

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

inline constexpr uint32_t kChallengeMagic = 0x32434c43;  // "CLC2": the version of the handshake
inline constexpr uint32_t kAnyVersion = 0x00434c43;      // "CLC", in the lower three bytes
inline constexpr uint32_t kNoFilesMagic =
    0x30434c43;  // "CLC0": rejected for lack of file descriptors
inline constexpr uint32_t kAnswerMagic = 0x32414c43;  // "CLA2"

struct Challenge {
  uint32_t magic;
  uint32_t reserved;
  Nonce nonce;
};
static_assert(sizeof(Challenge) == 40);

struct Answer {
  uint32_t magic;
  uint32_t greeting_bytes;
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(Answer) == 72);

enum class Role : uint8_t { connector, listener, session };

inline Proof prove(const Secret& secret, Role role, const Nonce& listener, const Nonce& connector,
                   ByteView greeting) {
  const std::string_view word = role == Role::connector  ? "collctl connector 2"
                                : role == Role::listener ? "collctl listener 2"
                                                         : "collctl session 2";
  return hmac_sha256(secret, {base::bytes_of(word), listener, connector, greeting});
}

inline Session session_of(const Secret& secret, bool connector, const Nonce& of_listener,
                          const Nonce& of_connector, ByteView greeting) {
  const Proof whole = prove(secret, Role::session, of_listener, of_connector, greeting);
  Session session{.key = {}, .connector = connector};
  std::copy_n(whole.begin(), session.key.bytes.size(), session.key.bytes.begin());
  return session;
}

}  // namespace collctl::base::auth
