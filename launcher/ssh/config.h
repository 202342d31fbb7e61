// The SSH configuration of one host: the output of `ssh -G`, in which everything is resolved
// already. Pure but for the password database. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace collctl::launcher {

struct ResolvedHost {
  std::string host;  // to connect to: name or address
  int port = 22;
  std::string user;
  std::vector<std::string> identity_files;  // absolute; those of the defaults may not exist
  std::string identity_agent;               // path of its socket; empty: none
  bool identities_only = false;
  bool certificates = false;       // a CertificateFile is named
  std::vector<std::string> jumps;  // [user@]host[:port], in the order they are passed
  std::string proxy_command;
  std::vector<std::string> user_known_hosts, global_known_hosts;
  std::string host_key_alias;
  std::string unread;  // a file that could not be asked about: no ssh is installed here
};

// The values that tokens (%h, %d, ~) stand for.
struct ConfigPlace {
  std::string name;  // as the user wrote it
  std::string local_user, home;
  std::string agent_socket;  // SSH_AUTH_SOCK
};
ConfigPlace config_place(const std::string& name);

// The output of `ssh -G`. Missing entries (all of them, where there is no ssh) have OpenSSH's own
// defaults.
ResolvedHost parse_resolved(const std::string& text, const ConfigPlace& place);

struct JumpHost {
  std::string user, host;
  int port = 0;
};
// [user@]host[:port], also as ssh://; IPv6 in brackets. Nothing when malformed.
std::optional<JumpHost> parse_jump(const std::string& text);
std::vector<std::string> split_list(const std::string& text, char separator);
// For OpenSSH's lists of patterns: *, ?, and ! for "not"; no case.
bool matches_pattern(std::string_view pattern, std::string_view text);
// "~/x" and "%d/x", with the tokens of OpenSSH that make sense here.
std::string expand_path(const std::string& path, const ConfigPlace& place,
                        const ResolvedHost& host);

}  // namespace collctl::launcher
