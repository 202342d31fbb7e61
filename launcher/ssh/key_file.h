// A private key file before it is tried: its kind, whether it needs a passphrase. The key itself is
// read by the SSH library. Pure but for reading the file.
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"

namespace collctl::launcher {

struct KeyFile {
  enum class State : uint8_t {
    good,
    missing,
    unreadable,
    exposed,
    unknown_format
  } state = State::missing;
  std::string problem;  // for unreadable and exposed: why
  bool encrypted = false;
  std::string type;   // "ssh-ed25519"; empty when not known before decryption
  Bytes public_blob;  // empty when not known
  bool has_certificate = false;
  bool is_rsa = false;       // as far as known
  bool is_hardware = false;  // FIDO: the library cannot use it
};

KeyFile inspect_key(const std::string& path);
// The text of the file; `public_text`: of PATH.pub, may be empty.
KeyFile inspect_key_text(const std::string& text, const std::string& public_text);

}  // namespace collctl::launcher
