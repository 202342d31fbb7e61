// What the options about hosts mean: which ranks run where, and how the hosts are reached.
#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "cmd/options.h"

namespace collctl::cmd {
namespace {

// They say how hosts are reached: without hosts they mean nothing.
constexpr const char* kOnlyWithHosts[] = {
    "ssh-config", "ssh-client",  "ssh-user",        "ssh-port", "identity",     "known-hosts",
    "stage",      "remote-path", "connect-timeout", "fanout",   "allow-missing"};

Error usage(std::string message) {
  return {ErrorCode::usage, std::move(message)};
}

std::string given_hosts(const ParsedLine& line) {
  if (line.has("hosts")) return "-H";
  return line.has("hostfile") ? "--hostfile" : "";
}

Result<LauncherKind> launcher_kind(const ParsedLine& line) {
  const std::string hosts = given_hosts(line);
  const std::string word = line.has("launcher") ? line.text("launcher") : "";
  if (line.has("join")) {
    if (!hosts.empty())
      return usage(format("--join makes this process one rank of a job; it excludes {}", hosts));
    if (!word.empty()) return usage("--join makes this process one rank; it excludes --launcher");
  }
  if (word == "adopt") {
    if (!hosts.empty())
      return usage(format("--launcher adopt starts no ranks; it excludes {}", hosts));
    if (line.has_program)
      return usage("--launcher adopt: a program that another engine starts is a rank already");
    return LauncherKind::adopt;
  }
  if (word == "ssh" && hosts.empty())
    return usage("--launcher ssh needs hosts: -H LIST or --hostfile FILE");
  if (word.empty()) return hosts.empty() ? LauncherKind::local : LauncherKind::ssh;
  return word == "ssh" ? LauncherKind::ssh : LauncherKind::local;
}

void interpret_ssh(const ParsedLine& line, LaunchOptions& launch) {
  launcher::ChannelOptions& ssh = launch.ssh;
  const std::string client = line.text("ssh-client"), keys = line.text("known-hosts");
  ssh.client = client == "libssh2"   ? launcher::SshClient::libssh2
               : client == "openssh" ? launcher::SshClient::openssh
                                     : launcher::SshClient::automatic;
  ssh.known_hosts = keys == "off"          ? launcher::KnownHosts::off
                    : keys == "accept-new" ? launcher::KnownHosts::accept_new
                                           : launcher::KnownHosts::strict;
  if (line.has("ssh-config")) ssh.config_file = line.text("ssh-config");
  if (line.has("ssh-user")) ssh.user = line.text("ssh-user");
  ssh.port = int(line.number("ssh-port", 0));
  if (line.has("identity")) ssh.identity = line.text("identity");
  ssh.connect_timeout_s = line.number("connect-timeout", 10);
  // Answers come from the terminal itself; standard input may be a pipe.
  ssh.may_ask = ::isatty(STDERR_FILENO) == 1;
  launch.fanout = int(line.number("fanout", 64));
  const std::string stage = line.text("stage");
  launch.stage = stage == "never"    ? Stage::never
                 : stage == "always" ? Stage::always
                                     : Stage::automatic;
  if (line.has("remote-path")) launch.remote_path = line.text("remote-path");
}

}  // namespace

Status interpret_hosts(const ParsedLine& line, LaunchOptions& launch) {
  COLL_ASSIGN(launch.launcher, launcher_kind(line));
  launch.map_by = line.text("map-by") == "host" ? launcher::MapBy::host : launcher::MapBy::slot;
  launch.oversubscribe = line.has("oversubscribe");
  launch.allow_missing = int(line.number("allow-missing", 0));
  interpret_ssh(line, launch);
  if (launch.launcher != LauncherKind::ssh) {
    for (const char* option : kOnlyWithHosts)
      if (line.has(option))
        return usage(format("--{} is about hosts: expected -H LIST or --hostfile FILE", option));
    return {};
  }
  launch.per_host = int(line.number("ranks-per-host", 0));
  if (line.text("rank-mode") == "thread")
    return usage("--rank-mode thread keeps the ranks in one process here; it excludes " +
                 given_hosts(line));
  return {};
}

}  // namespace collctl::cmd
