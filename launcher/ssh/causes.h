// Why a host could not be reached, in words: both clients (libssh2, the system's ssh) use the same
// text for the same cause. All errors are of code launch and name the host. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::launcher {

// The name of a host key in messages: "ED25519 key SHA256:...".
struct HostKeyName {
  std::string type;         // "ED25519", "RSA", "ECDSA"
  std::string fingerprint;  // "SHA256:..." without padding
};

// How far a connection got before its deadline.
enum class Stage : uint8_t {
  configuration,
  name,
  tcp,
  banner,
  key_exchange,
  host_key,
  authentication,
  command
};

Error no_such_name(const std::string& host, const std::string& name, const std::string& why);
// `where`: "10.0.0.7:22".
Error not_connected(const std::string& host, const std::string& where, int error_number);
// Nothing arrived for `seconds`; `where` may be empty.
Error timed_out(const std::string& host, const std::string& where, Stage stage, double seconds);
Error connection_closed(const std::string& host, const std::string& where, Stage stage,
                        const std::string& detail);
// After the login: the command was taken, and nothing has come of it for so long.
Error shell_hangs(const std::string& host, double seconds);
Error unknown_host_key(const std::string& host, const HostKeyName& offered, const std::string& file,
                       const std::string& entry_name, int port);
// `authority_at`, `known_at`: "~/.ssh/known_hosts:7".
Error only_certified(const std::string& host, const HostKeyName& offered,
                     const std::string& authority_at);
Error changed_host_key(const std::string& host, const HostKeyName& offered,
                       const HostKeyName& known, const std::string& known_at,
                       const std::string& entry_name);
Error revoked_host_key(const std::string& host, const HostKeyName& offered,
                       const std::string& known_at);
// `what`: "cipher"; the lists are comma separated. `ours` may be unknown (empty).
Error no_common_algorithm(const std::string& host, const std::string& what, const std::string& ours,
                          const std::string& theirs);
struct Denial {
  std::string user;
  std::vector<std::string> tried;  // "key ~/.ssh/id_rsa", "agent key ...", "password"
  std::vector<std::string>
      notes;            // "~/.ssh/id_ed25519 is encrypted and there is no terminal to ask at"
  std::string offered;  // the server's methods, comma separated
};
Error denied(const std::string& host, const Denial& denial);
// The connection broke while the command ran: code lost.
Error connection_lost(const std::string& host, const std::string& why);

}  // namespace collctl::launcher
