// Host keys the user trusts: the files of OpenSSH's known_hosts format. Pure but for read and
// append. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "launcher/ssh/causes.h"
#include "launcher/ssh/channel.h"

namespace collctl::launcher {

struct KnownKey {
  std::string hosts;  // the first field: patterns, or one hashed name
  std::string type;   // "ssh-ed25519"
  std::string blob;   // the key, base64
  bool revoked = false;
  bool authority = false;  // @cert-authority: certificates are not ours to check
  std::string where;       // "file:line"
};

// Malformed lines are skipped, as OpenSSH does.
std::vector<KnownKey> parse_known_hosts(const std::string& text, const std::string& file);
// All entries of the files; a missing file is empty. Files above 16 MiB are an error (usage).
Result<std::vector<KnownKey>> read_known_hosts(const std::vector<std::string>& files);
// Whether the first field of an entry names this host: lists, *, ?, negation, |1|hashed|names.
// `name` as known_host_name() makes it.
bool names_host(const std::string& field, const std::string& name);
// "node01", or "[node01]:2222" for ports other than 22.
std::string known_host_name(const std::string& host, int port);

struct HostKeyVerdict {
  // other_type: the host is known, but by keys of other types only.
  enum class Kind : uint8_t { match, unknown, other_type, changed, revoked } kind = Kind::unknown;
  const KnownKey* entry = nullptr;  // the one that says so; null for unknown
};
HostKeyVerdict judge_host_key(const std::vector<KnownKey>& keys, const std::string& name,
                              const std::string& type, const std::string& blob_base64);
// The entry of an authority whose certificates are good for the host; null: none.
const KnownKey* authority_of(const std::vector<KnownKey>& keys, const std::string& name);
// The key types that are known for the host, in the order of the files, without repeats.
std::vector<std::string> known_types(const std::vector<KnownKey>& keys, const std::string& name);

// Appends one line, under a lock and in one write, unless it is there already; makes the folder and
// the file (0700, 0600).
Status append_known_host(const std::string& file, const std::string& name, const std::string& type,
                         const std::string& blob_base64);

std::string base64(ByteView bytes);
std::optional<Bytes> from_base64(const std::string& text);
// "SHA256:..." of a key.
std::string fingerprint(ByteView blob);
// "ED25519", "ECDSA", "RSA" for "ssh-ed25519" and so on.
std::string short_key_type(const std::string& type);
HostKeyName host_key_name(const std::string& type, const std::string& blob_base64);
// The fingerprint of the entry at "file:line"; empty when it cannot be read.
std::string fingerprint_of_line(const std::string& file_and_line);

}  // namespace collctl::launcher
