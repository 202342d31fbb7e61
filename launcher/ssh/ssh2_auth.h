// The login of one libssh2 session: the keys of the agent, identity files, and with a user at the
// terminal passphrases, keyboard-interactive and passwords. Without blocking, but for questions and
// the agent. Threads: the loop's.
#pragma once
#include <libssh2.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/ssh/agent_client.h"
#include "launcher/ssh/causes.h"
#include "launcher/ssh/config.h"
#include "launcher/ssh/key_file.h"

namespace collctl::launcher {

struct LoginPlan {
  std::string host;  // for messages
  ResolvedHost resolved;
  std::string key;  // an identity file asked for by hand: tried first
  bool may_ask = false;
  int stop_fd = -1;  // readable: no more questions
};

enum class StepResult : uint8_t { busy, done, failed };

class Ssh2Auth;
class Ssh2Transport;
class KexInitListener;
// The target of a libssh2 session's abstract pointer.
struct Ssh2Hooks {
  Ssh2Transport* transport = nullptr;
  KexInitListener* listener = nullptr;
  Ssh2Auth* auth = nullptr;
};

class Ssh2Auth {
 public:
  Ssh2Auth(LIBSSH2_SESSION* session, LoginPlan plan);
  StepResult progress();
  const std::string& how() const { return how_; }  // "key ~/.ssh/id_ed25519"
  const std::optional<Error>& error() const { return error_; }
  // Why another client might be accepted where this one was not; empty: it would not.
  const std::string& incapable() const { return incapable_; }
  // Called by libssh2 through the session.
  std::string answer(const std::string& prompt);

 private:
  struct Candidate {
    std::string label;  // "key ~/.ssh/id_ed25519", "agent key me@desk"
    std::optional<AgentKey> agent;
    std::string path;  // without agent
    bool encrypted = false, is_rsa = false;
  };
  StepResult list_methods();
  void find_candidates();
  void add_agent_keys(const std::vector<KeyFile>& files, bool only_those);
  void add_file(const std::string& path, const KeyFile& file, bool by_hand);
  StepResult next();
  StepResult try_key();
  StepResult key_refused(int rc);
  StepResult try_person();
  StepResult fail_login();
  bool offers(const std::string& method) const;
  StepResult broken();

  enum class Step : uint8_t { methods, choose, key, interactive, password } step_ = Step::methods;
  LIBSSH2_SESSION* session_;
  LoginPlan plan_;
  std::vector<std::string> methods_;
  std::vector<Candidate> candidates_;
  size_t current_ = 0;
  int passphrases_ = 0, person_tries_ = 0;
  bool interactive_over_ = false;
  std::string secret_;  // passphrase or password of the current try
  void* signer_ = this;
  Denial denial_;
  std::string how_, incapable_;
  std::optional<Error> error_;

  friend int sign_with_agent(LIBSSH2_SESSION*, unsigned char**, size_t*, const unsigned char*,
                             size_t, void**);
};

}  // namespace collctl::launcher
