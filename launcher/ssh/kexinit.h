// Listens in on the first bytes a server sends (banner and SSH_MSG_KEXINIT, RFC 4253 section 7.1),
// to be able to say why a key exchange failed. Pure; bounded; whatever comes cannot harm it.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace collctl::launcher {

// The lists of one side, comma separated as on the wire.
struct AlgorithmLists {
  std::string kex, host_key, cipher, mac;  // cipher and mac: client to server
};

class KexInitListener {
 public:
  void feed(ByteView bytes);
  bool banner_seen() const { return banner_seen_; }
  const std::string& banner() const { return banner_; }  // "SSH-2.0-OpenSSH_9.2p1"
  const std::optional<AlgorithmLists>& lists() const { return lists_; }

 private:
  void try_banner();
  void try_packet();

  std::string bytes_;
  bool done_ = false, banner_seen_ = false;
  std::string banner_;
  std::optional<AlgorithmLists> lists_;
};

struct Disagreement {
  std::string what, ours, theirs;  // "cipher", and both lists
};
// The first kind of algorithm for which the lists have nothing in common.
std::optional<Disagreement> find_disagreement(const AlgorithmLists& ours,
                                              const AlgorithmLists& theirs);

}  // namespace collctl::launcher
