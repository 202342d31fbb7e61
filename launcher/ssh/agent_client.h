// A client of ssh-agent (draft-miller-ssh-agent): lists keys and lets them sign. The agent is a
// process of this machine and answers at once, or is asked once and not again: each request has a
// short deadline, and the list is kept for the life of this process. Threads: any.
#pragma once
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace collctl::launcher {

struct AgentKey {
  Bytes blob;           // the public key
  std::string type;     // "ssh-ed25519"
  std::string comment;  // printable
};

// The keys of the agent at this socket; an agent that is missing or does not answer is an error
// (unavailable), the same for every later call.
Result<std::vector<AgentKey>> agent_keys(const std::string& socket);
// The signature over `data`, without the name of its algorithm. A user may have to confirm: waits
// up to 30 s.
Result<Bytes> agent_sign(const std::string& socket, const Bytes& blob, ByteView data);

}  // namespace collctl::launcher
