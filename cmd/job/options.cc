#include "cmd/job/options.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/name_lookup.h"

namespace collctl::cmd {
namespace {

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
Status limit_local_ranks(const ParsedLine& line, LaunchOptions& launch) {
  const int most = int(line.number("ranks-per-host", 0));
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

Result<LaunchOptions> interpret_launch(const ParsedLine& line) {
  LaunchOptions launch;
  launch.ranks = int(line.number("ranks", 0));
  launch.ranks_by_gpus = line.ranks_by_gpus;
  if (line.nccl_tests && line.has("ranks") && !line.has("iters") && !line.ranks_by_gpus)
    launch.iterations_hint =
        format("-n is the number of ranks here; nccl-tests' -n {} is --iters {}",
               line.text("ranks"), line.text("ranks"));
  if (Status hosts = interpret_hosts(line, launch); !hosts) {
    if (!launch.iterations_hint.empty())
      hosts.error().hint += (hosts.error().hint.empty() ? "" : "; ") + launch.iterations_hint;
    return std::move(hosts.error());
  }
  if (launch.launcher != LauncherKind::ssh) COLL_TRY(limit_local_ranks(line, launch));
  if (line.has("bind-to")) launch.bind_to = line.text("bind-to");
  if (auto bind = launcher::parse_bind_to(launch.bind_to); !bind.ok()) return bind.error();
  launch.rank_mode = line.text("rank-mode");
  launch.export_env = line.all("env");
  for (const auto& entry : launch.export_env)
    if (entry[0] == '=' || (entry[0] >= '0' && entry[0] <= '9'))
      return usage(format("--env {}: expected NAME, NAME=VALUE or PREFIX*", entry));
  launch.timeout_s = line.number("timeout", 0);
  // Flag, then variable, then default.
  COLL_ASSIGN(launch.start_timeout_s, base::knob_seconds(base::KnobId::start_timeout));
  COLL_ASSIGN(launch.op_timeout_s, base::knob_seconds(base::KnobId::op_timeout));
  if (line.has("start-timeout")) launch.start_timeout_s = line.number("start-timeout", 60);
  if (line.has("op-timeout")) launch.op_timeout_s = line.number("op-timeout", 30);
  if (launch.launcher == LauncherKind::ssh && (line.command->scopes & kCheck) == 0) {
    COLL_ASSIGN(const int64_t width, base::knob_int(base::KnobId::tree_width));
    launch.tree_width = line.has("tree-width") ? int(line.number("tree-width", 0)) : int(width);
  }
  launch.grace_s = line.number("grace", 5);
  launch.shrink = line.has("on-loss") && line.text("on-loss") == "shrink";
  launch.tag_output = line.has("tag-output") && !line.has("no-tag-output");
  launch.gather = line.has("gather");
  if (line.has("output-dir")) launch.output_dir = line.text("output-dir");
  launch.stdin_mode = line.text("stdin");
  launch.dry_run = line.has("dry-run");
  if (line.has("join")) launch.join = line.text("join");
  if (line.has("token-file")) launch.token_file = line.text("token-file");
  launch.join_rank = int(line.number("rank", -1));
  launch.join_size = int(line.number("size", 0));
  launch.verbosity = line.times("verbose");
  launch.what = line.collective != nullptr ? line.collective->name : line.command->name;
  if (!line.has_program) COLL_TRY(check_join(line, launch));
  return launch;
}

}  // namespace collctl::cmd
