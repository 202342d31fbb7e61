// What the SSH configuration says about one host. From `ssh -G` (its output is resolved already)
// or, where there is no ssh, from the files by a small parser of our own. Pure but for reading
// files and the password database. Threads: values.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

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
  // The files hold something that only ssh itself can resolve (Match with conditions, canonical
  // names, unusual tokens): the values may differ from what it would say.
  bool beyond_parser = false;
};

// What tokens (%h, %d, ~) stand for.
struct ConfigPlace {
  std::string name;  // as the user wrote it
  std::string local_user, home;
  std::string agent_socket;  // SSH_AUTH_SOCK
};
ConfigPlace config_place(const std::string& name);

// The output of `ssh -G`.
ResolvedHost parse_resolved(const std::string& text, const ConfigPlace& place);

// The text of a file, nothing when it is not there.
using ReadConfig = std::function<std::optional<std::string>(const std::string& path)>;
// Names of the files that an Include pattern (absolute) stands for, sorted.
using GlobConfig = std::function<std::vector<std::string>(const std::string& pattern)>;
struct ConfigFiles {
  std::vector<std::string> files;  // in order; the first value found counts
  std::string user;                // asked for on the command line, empty and 0: not
  int port = 0;
  ReadConfig read;
  GlobConfig glob;
};
// Knows Host with patterns and negation, Match all, Include, and the keywords that ResolvedHost
// has; other Match blocks do not apply, other keywords are skipped. Errors (usage) have file:line.
Result<ResolvedHost> resolve_config(const ConfigPlace& place, const ConfigFiles& files);
// ~/.ssh/config and /etc/ssh/ssh_config, or the one file asked for ("none": none).
std::vector<std::string> config_files(const std::string& asked, const ConfigPlace& place);
std::optional<std::string> read_config_file(const std::string& path);
std::vector<std::string> glob_config_files(const std::string& pattern);

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
