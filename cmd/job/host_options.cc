// What the options about hosts mean: which ranks run where, and how the hosts are reached.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/format.h"
#include "cmd/cli/option_rows.h"
#include "cmd/job/options.h"

namespace collctl::cmd {
namespace {

// They say how hosts are reached: without hosts they mean nothing.
constexpr const char* kOnlyWithHosts[] = {
    "ssh-config", "ssh-client",  "ssh-user",        "ssh-port", "identity",   "known-hosts",
    "stage",      "remote-path", "connect-timeout", "fanout",   "tree-width", "allow-missing"};

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
  launch.stage = stage == "never"    ? launcher::Staging::never
                 : stage == "always" ? launcher::Staging::always
                                     : launcher::Staging::automatic;
  if (line.has("remote-path")) launch.remote_path = line.text("remote-path");
}

// A hostfile, or standard input; no more than one byte beyond what a hostfile may have.
Result<std::string> read_hostfile(const std::string& path) {
  const auto failed = [&](int number) {
    return base::errno_error(ErrorCode::usage, format("hostfile {}", path), number);
  };
  base::Fd file;
  if (path != "-") file = base::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (path != "-" && !file) return failed(errno);
  const int fd = path == "-" ? STDIN_FILENO : file.get();
  std::string text;
  while (text.size() <= launcher::kMostHostfileBytes) {
    char buffer[65536];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    if (n == 0) break;
    text.append(buffer, size_t(n));
  }
  return text;
}

// SSH goes on with other keys when a named one is not there; somebody else's may let us in. A key
// of the agent may be named by its public half.
void look_for_key(LaunchOptions& launch) {
  const std::string& key = launch.ssh.identity;
  if (key.empty() || key[0] == '~' || ::access(key.c_str(), R_OK) == 0) return;
  const int number = errno;
  if (::access((key + ".pub").c_str(), R_OK) == 0) return;
  launch.hosts.warnings.push_back(
      base::errno_error(ErrorCode::usage, "--identity " + key, number).message +
      "; other keys are tried");
}

// Who runs what must be right before anything is started, as far as it is known here.
Status check_placement(const ParsedLine& line, LaunchOptions& launch) {
  const auto& hosts = launch.hosts.hosts;
  if (launch.launcher == LauncherKind::local) {
    if (hosts.size() > 1)
      return usage(format("--launcher local starts ranks on this host; {} names {} hosts",
                          given_hosts(line), hosts.size()));
    if (launch.ranks == 0) launch.ranks = hosts[0].slots.value_or(0);
    if (hosts[0].slots && launch.ranks > *hosts[0].slots && !launch.oversubscribe)
      return launcher::place_ranks(launcher::host_slots(hosts, 1), place_options(launch)).error();
    return {};
  }
  COLL_ASSIGN(const auto placement, launcher::place_before_asking(hosts, place_options(launch)));
  // Hosts that may be missing take their slots with them.
  if (placement && launch.allow_missing == 0) launch.ranks = int(placement->host_of.size());
  return {};
}

}  // namespace

launcher::PlaceOptions place_options(const LaunchOptions& launch) {
  return {.ranks = launch.ranks,
          .per_host = launch.per_host,
          .map_by = launch.map_by,
          .oversubscribe = launch.oversubscribe};
}

Status interpret_hosts(const ParsedLine& line, LaunchOptions& launch) {
  COLL_ASSIGN(launch.launcher, launcher_kind(line));
  launch.launcher_named = line.has("launcher");
  launch.map_by = line.text("map-by") == "host" ? launcher::MapBy::host : launcher::MapBy::slot;
  launch.oversubscribe = line.has("oversubscribe");
  launch.allow_missing = int(line.number("allow-missing", 0));
  interpret_ssh(line, launch);
  if (launch.launcher != LauncherKind::ssh) {
    for (const char* option : kOnlyWithHosts)
      if (line.has(option))
        return usage(format("--{} is about hosts: expected -H LIST or --hostfile FILE", option));
  }
  if (given_hosts(line).empty()) return {};
  COLL_ASSIGN(launch.hosts,
              launcher::read_hosts(line.has("hostfile") ? line.text("hostfile") : "",
                                   line.has("hosts") ? line.text("hosts") : "", read_hostfile));
  look_for_key(launch);
  const bool places = (line.command->scopes & kLaunch) != 0;
  if (!places || launch.launcher != LauncherKind::ssh)
    return places ? check_placement(line, launch) : Status();
  launch.per_host = int(line.number("ranks-per-host", 0));
  if (line.text("rank-mode") == "thread")
    return usage("--rank-mode thread keeps the ranks in one process here; it excludes " +
                 given_hosts(line));
  return check_placement(line, launch);
}

}  // namespace collctl::cmd
