// One SSH connection of libssh2, from the connected transport to the login: handshake, host key,
// authentication. Used by the libssh2 channel, once for the host and once for each jump host.
// Threads: the loop's. Owns the transport.
#pragma once
#include <libssh2.h>

#include <memory>
#include <optional>
#include <string>

#include "launcher/ssh/channel.h"
#include "launcher/ssh/kexinit.h"
#include "launcher/ssh/ssh2_auth.h"
#include "launcher/ssh/ssh2_transport.h"

namespace collctl::launcher {

struct SessionPlan {
  LoginPlan login;
  KnownHosts known_hosts = KnownHosts::strict;
  std::string where;  // "10.0.0.7:22", for messages
};

class Ssh2Session {
 public:
  // `fd`: the TCP socket below, which libssh2 wants to see; all goes through the transport.
  Ssh2Session(std::unique_ptr<Ssh2Transport> transport, int fd, SessionPlan plan);
  ~Ssh2Session();
  Ssh2Session(const Ssh2Session&) = delete;
  Ssh2Session& operator=(const Ssh2Session&) = delete;

  StepResult progress();  // done: logged in
  Stage stage() const;
  const std::optional<Error>& error() const { return error_; }
  const std::string& incapable() const { return incapable_; }
  std::string how() const { return auth_ ? auth_->how() : std::string(); }
  LIBSSH2_SESSION* raw() const { return session_; }
  Ssh2Transport& transport() { return *transport_; }
  std::string last_error() const;
  void disconnect();  // says goodbye (into the transport's queue)

 private:
  StepResult handshake();
  StepResult handshake_failed(int rc);
  StepResult check_host_key();
  StepResult judge(const std::string& type, const std::string& blob);
  bool can_check(const std::vector<std::string>& types) const;
  StepResult accept_host_key(const std::string& name, const std::string& type,
                             const std::string& blob);
  StepResult fail(Error e, std::string incapable = {});
  void prefer_known_types();
  AlgorithmLists our_lists() const;

  enum class Step : uint8_t { handshake, host_key, login } step_ = Step::handshake;
  SessionPlan plan_;
  std::unique_ptr<Ssh2Transport> transport_;
  int fd_;
  Ssh2Hooks hooks_;
  KexInitListener listener_;
  LIBSSH2_SESSION* session_ = nullptr;
  std::unique_ptr<Ssh2Auth> auth_;
  std::optional<Error> error_;
  std::string incapable_;
};

}  // namespace collctl::launcher
