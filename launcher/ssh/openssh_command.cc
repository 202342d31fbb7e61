#include "launcher/ssh/openssh_command.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/shell.h"
#include "launcher/ssh/clients.h"
#include "launcher/ssh/config.h"

namespace collctl::launcher {
namespace {

using Words = std::vector<std::string>;

void option(Words& words, const std::string& setting) {
  words.push_back("-o");
  words.push_back(setting);
}

// Options for the host and for the jump hosts on the path.
Words common(const ChannelOptions& options) {
  Words words = {"ssh", "-T"};
  if (!options.config_file.empty()) words.insert(words.end(), {"-F", options.config_file});
  option(words, std::string("BatchMode=") + (options.may_ask ? "no" : "yes"));
  const int seconds = std::max(1, int(std::ceil(options.connect_timeout_s)));
  option(words, "ConnectTimeout=" + std::to_string(seconds));
  option(words, "ConnectionAttempts=1");
  // A host that is silent for this long is lost.
  option(words, "ServerAliveInterval=5");
  option(words, "ServerAliveCountMax=3");
  switch (options.known_hosts) {
    case KnownHosts::strict:
      option(words, "StrictHostKeyChecking=yes");
      break;
    case KnownHosts::accept_new:
      option(words, "StrictHostKeyChecking=accept-new");
      break;
    case KnownHosts::off:
      option(words, "StrictHostKeyChecking=no");
      option(words, "UserKnownHostsFile=/dev/null");
      option(words, "GlobalKnownHostsFile=/dev/null");
      break;
  }
  // A connection of our own: somebody else's may end at any time.
  option(words, "ControlMaster=no");
  option(words, "ControlPath=none");
  option(words, "ClearAllForwardings=yes");
  option(words, "ForwardX11=no");
  option(words, "PermitLocalCommand=no");
  return words;
}

std::string command_line(const Words& words) {
  std::string line;
  for (const std::string& word : words)
    line += format("{}{}", line.empty() ? "" : " ", base::shell_quoted(word));
  return line;
}

// ssh replaces % in a ProxyCommand.
std::string without_tokens(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '%' ? "%%" : std::string(1, c);
  return out;
}

struct Hop {
  std::string host;
  std::string port, user;
};

// [user@]host[:port], IPv6 in brackets.
Hop parse_hop(const std::string& text) {
  Hop hop;
  const size_t user_end = text.rfind('@');
  if (user_end != std::string::npos) hop.user = text.substr(0, user_end);
  std::string rest = user_end == std::string::npos ? text : text.substr(user_end + 1);
  const size_t bracket = rest.find(']');
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos && rest.rfind(':') == colon) {
    hop.port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  if (rest.size() > 2 && rest.front() == '[' && rest.back() == ']')
    rest = rest.substr(1, rest.size() - 2);
  hop.host = rest;
  return hop;
}

// The ProxyCommand through the given hops: -J would not hand our settings on to them.
std::string proxy_command(const Words& settings, const Words& hops) {
  const Hop hop = parse_hop(hops.back());
  Words words = settings;
  if (hops.size() > 1)
    option(words, "ProxyCommand=" +
                      without_tokens(proxy_command(settings, {hops.begin(), hops.end() - 1})));
  if (!hop.user.empty()) words.insert(words.end(), {"-l", hop.user});
  if (!hop.port.empty()) words.insert(words.end(), {"-p", hop.port});
  return command_line(words) + " -W '[%h]:%p' -- " + without_tokens(base::shell_quoted(hop.host));
}

}  // namespace

std::vector<std::string> openssh_command(const HostTarget& target, const ChannelOptions& options,
                                         const std::string& command, const std::string& log) {
  const Words settings = common(options);
  Words words = settings;
  option(words, "LogLevel=DEBUG1");
  words.insert(words.end(), {"-E", log});
  option(words, "RemoteCommand=none");
  const std::string user = asked_user(target, options), key = asked_key(target, options);
  const int port = asked_port(target, options);
  if (!user.empty()) words.insert(words.end(), {"-l", user});
  if (port != 0) words.insert(words.end(), {"-p", std::to_string(port)});
  if (!key.empty()) words.insert(words.end(), {"-i", key});
  const Words hops = split_list(target.jump, ',');
  if (!hops.empty()) option(words, "ProxyCommand=" + proxy_command(settings, hops));
  words.insert(words.end(), {"--", target.name, command});
  return words;
}

}  // namespace collctl::launcher
