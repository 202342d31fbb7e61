// Reads what the system's ssh logs at DEBUG1: how far it got, what it tried, and why it failed.
// Pure; fed with pieces of any size.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/ssh/causes.h"

namespace collctl::launcher {

class OpensshLog {
 public:
  void feed(std::string_view bytes);

  Stage stage() const { return stage_; }  // command: authenticated, the command is being started
  const std::string& address() const { return address_; }  // "10.0.0.7:22"; empty: not yet known
  // The remote command's own end was reported (exit status or signal), not a broken connection.
  bool command_ended() const { return command_ended_; }
  // "publickey, key ~/.ssh/id_ed25519"; empty before.
  std::string authenticated_by() const;
  // Why it failed. `host` is the user's name of it, `seconds` the limit it had.
  struct Question {
    std::string host, user;
    double seconds = 0;
    int port = 22;
    // The fingerprint of the key in file:line of a known_hosts file; empty when unreadable.
    std::string (*fingerprint_at)(const std::string& file_and_line) = nullptr;
  };
  Error explain(const Question& question) const;
  // The last thing it said, for a connection that broke.
  std::string last_words() const;

 private:
  void line(std::string_view text);
  void debug(std::string_view text);
  const std::string* find(std::string_view part) const;
  std::optional<Error> host_key_cause(const Question& question) const;
  std::optional<Error> network_cause(const Question& question) const;
  std::optional<Error> other_cause(const Question& question) const;

  std::string rest_;
  Stage stage_ = Stage::configuration;
  bool command_ended_ = false;
  std::string address_, accepted_key_, offered_methods_, method_;
  HostKeyName key_;
  std::vector<std::string> tried_;
  std::vector<std::string> messages_;  // what is not debug output, newest last, bounded
};

}  // namespace collctl::launcher
