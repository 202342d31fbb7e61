#include "launcher/ssh/config_values.h"

#include <algorithm>
#include <charconv>

namespace collctl::launcher {
namespace {

constexpr size_t kMostIdentities = 64;
const char* const kDefaultKeys[] = {"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519",
                                    "id_ed25519_sk"};

std::string unquoted(const std::string& text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    return text.substr(1, text.size() - 2);
  return text;
}

// Words, of which some may be quoted.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false, any = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if ((c == ' ' || c == '\t') && !quoted) {
      if (any || !word.empty()) words.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
    }
  }
  if (any || !word.empty()) words.push_back(word);
  return words;
}

std::string agent_path(const std::string& said, const ConfigPlace& place,
                       const ResolvedHost& host) {
  if (said == "none") return {};
  if (said.empty() || said == "SSH_AUTH_SOCK") return place.agent_socket;
  return expand_path(unquoted(said), place, host);
}

}  // namespace

bool parse_port(const std::string& text, int& port) {
  int number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < 1 || number > 65535)
    return false;
  port = number;
  return true;
}

void RawConfig::take(const std::string& keyword, const std::string& value) {
  std::string lower;
  for (const char c : keyword) lower += char(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "identityfile") {
    if (identity_files_.size() < kMostIdentities) identity_files_.push_back(unquoted(value));
    return;
  }
  static const char* const known[] = {"hostname",
                                      "port",
                                      "user",
                                      "identityagent",
                                      "identitiesonly",
                                      "proxyjump",
                                      "proxycommand",
                                      "userknownhostsfile",
                                      "globalknownhostsfile",
                                      "hostkeyalias",
                                      "certificatefile"};
  if (std::find(std::begin(known), std::end(known), lower) == std::end(known)) return;
  // The first of ProxyJump and ProxyCommand wins.
  if ((lower == "proxyjump" && has("proxycommand")) ||
      (lower == "proxycommand" && has("proxyjump")))
    return;
  values_.emplace(lower, value);
}

std::string RawConfig::value(const std::string& keyword) const {
  const auto found = values_.find(keyword);
  return found == values_.end() ? std::string() : found->second;
}

ResolvedHost RawConfig::finish(const ConfigPlace& place) const {
  ResolvedHost host;
  host.host = place.name;
  if (has("hostname")) host.host = expand_path(unquoted(value("hostname")), place, host);
  static_cast<void>(parse_port(value("port"), host.port));  // else 22, as checked by the readers
  host.user = has("user") ? unquoted(value("user")) : place.local_user;
  host.identities_only = value("identitiesonly") == "yes";
  host.certificates = has("certificatefile");
  host.identity_agent = agent_path(value("identityagent"), place, host);
  host.host_key_alias = unquoted(value("hostkeyalias"));
  if (value("proxycommand") != "none") host.proxy_command = value("proxycommand");
  if (value("proxyjump") != "none") host.jumps = split_list(value("proxyjump"), ',');
  for (const std::string& file : identity_files_)
    if (file != "none") host.identity_files.push_back(expand_path(file, place, host));
  if (identity_files_.empty())
    for (const char* name : kDefaultKeys)
      host.identity_files.push_back(place.home + "/.ssh/" + name);
  const auto files = [&](const char* keyword, const std::vector<std::string>& defaults) {
    std::vector<std::string> list;
    for (const std::string& file : has(keyword) ? words_of(value(keyword)) : defaults)
      if (file != "none") list.push_back(expand_path(file, place, host));
    return list;
  };
  host.user_known_hosts =
      files("userknownhostsfile", {"~/.ssh/known_hosts", "~/.ssh/known_hosts2"});
  host.global_known_hosts =
      files("globalknownhostsfile", {"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"});
  return host;
}

}  // namespace collctl::launcher
