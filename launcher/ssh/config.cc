#include "launcher/ssh/config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "base/env.h"
#include "base/split.h"
#include "base/whole_number.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostIdentities = 64;
const char* const kDefaultKeys[] = {"id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519",
                                    "id_ed25519_sk"};

// 1..65535, digits only.
bool parse_port(const std::string& text, int& port) {
  const auto number = base::whole_number(text);
  if (!number || *number < 1 || *number > 65535) return false;
  port = *number;
  return true;
}

}  // namespace

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (const std::string_view word : base::split(text, separator))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(text[t]))) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

ConfigPlace config_place(const std::string& name) {
  ConfigPlace place;
  place.name = name;
  std::array<char, 16384> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    place.local_user = found->pw_name;
    place.home = found->pw_dir;
  }
  // OpenSSH goes by the password database; users without an entry (containers) by HOME.
  if (place.home.empty()) place.home = base::environment("HOME").value_or("/");
  if (place.local_user.empty()) place.local_user = base::environment("USER").value_or("root");
  place.agent_socket = base::environment("SSH_AUTH_SOCK").value_or("");
  return place;
}

std::optional<JumpHost> parse_jump(const std::string& text) {
  std::string rest = text.rfind("ssh://", 0) == 0 ? text.substr(6) : text;
  JumpHost jump;
  if (const size_t at = rest.rfind('@'); at != std::string::npos) {
    jump.user = rest.substr(0, at);
    rest = rest.substr(at + 1);
    if (jump.user.empty()) return std::nullopt;
  }
  std::string port;
  if (!rest.empty() && rest[0] == '[') {
    const size_t end = rest.find(']');
    if (end == std::string::npos) return std::nullopt;
    if (end + 1 < rest.size() && rest[end + 1] != ':') return std::nullopt;
    if (end + 1 < rest.size()) port = rest.substr(end + 2);
    if (end + 2 == rest.size()) return std::nullopt;
    rest = rest.substr(1, end - 1);
  } else if (std::count(rest.begin(), rest.end(), ':') == 1) {
    port = rest.substr(rest.find(':') + 1);
    rest = rest.substr(0, rest.find(':'));
    if (port.empty()) return std::nullopt;
  }
  jump.host = rest;
  if (jump.host.empty() || jump.host[0] == '-') return std::nullopt;
  if (!port.empty() && !parse_port(port, jump.port)) return std::nullopt;
  return jump;
}

std::string expand_path(const std::string& path, const ConfigPlace& place,
                        const ResolvedHost& host) {
  std::string out;
  size_t at = 0;
  if (path.rfind("~/", 0) == 0) {
    out = place.home;
    at = 1;
  }
  for (; at < path.size(); ++at) {
    if (path[at] != '%' || at + 1 == path.size()) {
      out += path[at];
      continue;
    }
    switch (path[++at]) {
      case '%':
        out += '%';
        break;
      case 'd':
        out += place.home;
        break;
      case 'h':
        out += host.host;
        break;
      case 'n':
        out += place.name;
        break;
      case 'p':
        out += std::to_string(host.port);
        break;
      case 'r':
        out += host.user;
        break;
      case 'u':
        out += place.local_user;
        break;
      case 'i':
        out += std::to_string(::getuid());
        break;
      default:
        out += std::string("%") + path[at];
    }
  }
  return out;
}

ResolvedHost parse_resolved(const std::string& text, const ConfigPlace& place) {
  std::map<std::string, std::string> values;
  std::vector<std::string> identities;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string keyword = line.substr(0, space), value = line.substr(space + 1);
    if (keyword != "identityfile")
      values.emplace(keyword, value);
    else if (identities.size() < kMostIdentities)
      identities.push_back(value);
  }
  // "none" switches off.
  const auto said = [&](const char* keyword) {
    const std::string value = values[keyword];
    return value == "none" ? std::string() : value;
  };
  ResolvedHost host;
  host.host = place.name;
  if (const std::string name = said("hostname"); !name.empty()) host.host = name;
  static_cast<void>(parse_port(said("port"), host.port));  // else 22
  host.user = values.count("user") == 1 ? values["user"] : place.local_user;
  host.identities_only = said("identitiesonly") == "yes";
  host.certificates = !said("certificatefile").empty();
  if (const std::string agent = values["identityagent"]; agent.empty() || agent == "SSH_AUTH_SOCK")
    host.identity_agent = place.agent_socket;
  else if (agent != "none")
    host.identity_agent = expand_path(agent, place, host);
  host.host_key_alias = said("hostkeyalias");
  host.proxy_command = said("proxycommand");
  host.jumps = split_list(said("proxyjump"), ',');
  for (const std::string& file : identities)
    if (file != "none") host.identity_files.push_back(expand_path(file, place, host));
  if (identities.empty())
    for (const char* name : kDefaultKeys)
      host.identity_files.push_back(place.home + "/.ssh/" + name);
  const auto files = [&](const char* keyword, const char* defaults) {
    std::vector<std::string> list;
    for (const std::string& file :
         split_list(values.count(keyword) == 1 ? said(keyword) : defaults, ' '))
      list.push_back(expand_path(file, place, host));
    return list;
  };
  host.user_known_hosts = files("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2");
  host.global_known_hosts =
      files("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2");
  return host;
}

}  // namespace collctl::launcher
