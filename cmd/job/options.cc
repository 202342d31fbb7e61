// Meaning of a launch's options together: which ranks run where, and how hosts are reached.
#include "cmd/job/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/env.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/name_lookup.h"
#include "cmd/cli/option_rows.h"

namespace collctl::cmd {
namespace {

std::string given_hosts(const ParsedLine& line) {
  if (line.has("hosts")) return "-H";
  return line.has("hostfile") ? "--hostfile" : "";
}

// Without --launcher hosts are reached by SSH; `launch` has what was given.
Status choose_launcher(const ParsedLine& line, LaunchOptions& launch) {
  const std::string hosts = given_hosts(line);
  launch.launcher_named = line.has("launcher");
  if (line.has("join")) {
    if (!hosts.empty())
      return usage(format("--join makes this process one rank of a job; it excludes {}", hosts));
    if (launch.launcher_named)
      return usage("--join makes this process one rank; it excludes --launcher");
  }
  if (!launch.launcher_named && !hosts.empty()) launch.launcher = LauncherKind::ssh;
  if (launch.launcher == LauncherKind::adopt && !hosts.empty())
    return usage(format("--launcher adopt starts no ranks; it excludes {}", hosts));
  if (launch.launcher == LauncherKind::adopt && line.has_program)
    return usage("--launcher adopt: a program that another engine starts is a rank already");
  if (launch.launcher == LauncherKind::ssh && hosts.empty())
    return usage("--launcher ssh needs hosts: -H LIST or --hostfile FILE");
  return {};
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

// The placement of ranks must be right before anything is started, as far as it is known here.
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

// Reads the hosts, of which `launch` has how they are reached.
Status interpret_hosts(const ParsedLine& line, LaunchOptions& launch) {
  COLL_TRY(choose_launcher(line, launch));
  // Answers come from the terminal itself; standard input may be a pipe.
  launch.ssh.may_ask = ::isatty(STDERR_FILENO) == 1;
  // They say how hosts are reached: without hosts they mean nothing.
  if (launch.launcher != LauncherKind::ssh)
    if (const char* option =
            line.first_of({"ssh-config", "ssh-client", "ssh-user", "ssh-port", "identity",
                           "known-hosts", "stage", "remote-path", "binary-for", "connect-timeout",
                           "fanout", "tree-width", "allow-missing"}))
      return usage(format("--{} is about hosts: expected -H LIST or --hostfile FILE", option));
  if (given_hosts(line).empty()) return {};
  COLL_ASSIGN(launch.hosts,
              launcher::read_hosts(line.has("hostfile") ? line.text("hostfile") : "",
                                   line.has("hosts") ? line.text("hosts") : "", read_hostfile));
  look_for_key(launch);
  if ((line.command->scopes & kLaunch) == 0) return {};
  if (launch.launcher == LauncherKind::ssh && launch.rank_mode == "thread")
    return usage("--rank-mode thread keeps the ranks in one process here; it excludes " +
                 given_hosts(line));
  return check_placement(line, launch);
}

Status check_join(const ParsedLine& line, const LaunchOptions& launch) {
  for (const char* other : {"rank", "size"}) {
    if (launch.join.empty() && line.has(other))
      return usage(format("--{} is for --join HOST:PORT", other));
    if (!launch.join.empty() && !line.has(other))
      return usage(format("--join needs --rank R and --size N; --{} is missing", other));
  }
  if (launch.join.empty()) {
    if (line.has("token-file")) return usage("--token-file is for --join HOST:PORT");
    return {};
  }
  if (line.has("ranks")) return usage("--ranks has no meaning with --join; --size is the number");
  if (launch.join_rank >= launch.join_size)
    return usage(format("--rank {}: expected 0..{}, because --size is {}", launch.join_rank,
                        launch.join_size - 1, launch.join_size));
  const auto at = base::split_address(launch.join);
  if (!at.ok()) return Error(ErrorCode::usage, "--join: " + at.error().message);
  const Address address = at->numeric();  // a name may resolve later
  const bool token = !launch.token_file.empty() || !base::knob_text(base::KnobId::token).empty();
  if (!token && address.length != 0 && !address.is_loopback())
    return usage(
        format("--join {} needs a token: --token-file FILE or COLLCTL_TOKEN (only a "
               "loopback address goes without)",
               launch.join));
  return {};
}

// --ranks-per-host where this host is the only one.
Status limit_local_ranks(int most, LaunchOptions& launch) {
  if (most == 0) return {};
  if (launch.ranks > most)
    return usage(
        format("--ranks {} with --ranks-per-host {} needs {} hosts: expected at most {} ranks on "
               "this one",
               launch.ranks, most, (launch.ranks + most - 1) / most, most));
  if (launch.ranks == 0) launch.ranks = std::min(most, base::usable_cores());
  return {};
}

}  // namespace

launcher::PlaceOptions place_options(const LaunchOptions& launch) {
  return {.ranks = launch.ranks,
          .per_host = launch.per_host,
          .map_by = launch.map_by,
          .oversubscribe = launch.oversubscribe};
}

Result<LaunchOptions> interpret_launch(const ParsedLine& line) {
  LaunchOptions launch;
  // Flag, then variable, then default.
  COLL_ASSIGN(launch.start_timeout_s, base::knob_seconds(base::KnobId::start_timeout));
  COLL_ASSIGN(launch.op_timeout_s, base::knob_seconds(base::KnobId::op_timeout));
  COLL_TRY(fill(line, launch));
  launch.ranks_by_gpus = line.ranks_by_gpus;
  if (line.nccl_tests && line.has("ranks") && !line.has("iters") && !line.ranks_by_gpus)
    launch.iterations_hint =
        format("-n is the number of ranks here; nccl-tests' -n {} is --iters {}",
               line.text("ranks"), line.text("ranks"));
  const int per_host = launch.per_host;
  if (given_hosts(line).empty() || line.text("launcher") == "local") launch.per_host = 0;
  if (Status hosts = interpret_hosts(line, launch); !hosts) {
    if (!launch.iterations_hint.empty())
      hosts.error().hint += (hosts.error().hint.empty() ? "" : "; ") + launch.iterations_hint;
    return std::move(hosts.error());
  }
  const bool remote = launch.launcher == LauncherKind::ssh;
  if (!remote) COLL_TRY(limit_local_ranks(per_host, launch));
  if (remote && (line.command->scopes & kCheck) == 0 && !line.has("tree-width")) {
    COLL_ASSIGN(launch.tree_width, base::knob_int(base::KnobId::tree_width));
  }
  for (const auto& entry : launch.export_env)
    if (entry[0] == '=' || (entry[0] >= '0' && entry[0] <= '9'))
      return usage(format("--env {}: expected NAME, NAME=VALUE or PREFIX*", entry));
  launch.verbosity = line.times("verbose");
  launch.tag_output = launch.tag_output && !line.has("no-tag-output");
  launch.what = line.collective != nullptr ? line.collective->name : line.command->name;
  if (!line.has_program) COLL_TRY(check_join(line, launch));
  return launch;
}

}  // namespace collctl::cmd
