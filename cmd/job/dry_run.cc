#include "cmd/job/dry_run.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/job/config.h"
#include "cmd/job/options.h"
#include "cmd/job/start.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "launcher/hosts/placement.h"

namespace collctl::cmd {

namespace {

constexpr const char* kAsked = "asked at start";

struct Plan {
  std::vector<launcher::HostSpec> hosts;
  std::optional<launcher::JobPlacement> placement;  // empty: depends on what hosts will say
  // By rank; none of them when they are asked at start. An empty list: not bound.
  std::optional<std::vector<std::vector<int>>> cores;
  int ranks = 0;  // 0: every slot, and not all are known
  int gpus = 0;   // of this host, when its ranks drive them
};

Result<Plan> local_plan(const LaunchOptions& launch, bool program) {
  Plan plan;
  COLL_ASSIGN(const LocalPlan here, plan_local(launch, program));
  plan.ranks = here.ranks;
  plan.cores = here.cores;
  plan.gpus = program ? 0 : launch.gpus;
  launcher::HostSpec& host = plan.hosts.emplace_back();
  host.id = base::this_host().id;
  host.name = base::host_name();
  COLL_ASSIGN(plan.placement, launcher::place_ranks({{base::host_name(), plan.ranks}}, {}));
  return plan;
}

Result<Plan> plan_of(const LaunchOptions& launch, bool program) {
  if (launch.launcher != LauncherKind::ssh) return local_plan(launch, program);
  Plan plan;
  plan.hosts = launch.hosts.hosts;
  COLL_ASSIGN(plan.placement, launcher::place_before_asking(plan.hosts, place_options(launch)));
  plan.ranks = plan.placement ? int(plan.placement->host_of.size()) : launch.ranks;
  // The default of ranks that are ours depends on the hosts.
  COLL_ASSIGN(const launcher::BindTo bind, launcher::parse_bind_to(launch.bind_to));
  if (bind == launcher::BindTo::none && (program || !launch.bind_to.empty()))
    plan.cores.emplace(size_t(plan.ranks));
  return plan;
}

size_t name_width(const Plan& plan) {
  size_t width = 4;
  for (const auto& host : plan.hosts) width = std::max(width, host.name.size());
  return width;
}

// The note that the job itself would print.
std::string idle_note(const Plan& plan) {
  if (!plan.placement || plan.hosts.size() == 1) return "";
  std::vector<HostEnd> hosts(plan.hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].host = plan.hosts[i].host();
    hosts[i].ranks = plan.placement->ranks_of[i];
  }
  return idle_hosts_note(hosts, plan.ranks);
}

std::string cores_text(const Plan& plan, int rank) {
  if (!plan.cores) return kAsked;
  const auto& cores = (*plan.cores)[size_t(rank)];
  return cores.empty() ? "any" : rank_ranges(cores);
}

std::string head_text(const Plan& plan) {
  std::string where =
      plan.hosts.size() == 1 ? plan.hosts[0].name : format("{} hosts", plan.hosts.size());
  if (plan.placement) {
    const auto& ranks_of = plan.placement->ranks_of;
    const auto used =
        std::ranges::count_if(ranks_of, [](const auto& ranks) { return !ranks.empty(); });
    if (size_t(used) < plan.hosts.size()) where = format("{} of {}", used, where);
  }
  if (plan.ranks == 0) return format("# one rank for each slot of {}, nothing is started\n", where);
  return format("# {} {} on {}, nothing is started\n", plan.ranks,
                plan.ranks == 1 ? "rank" : "ranks", where);
}

// Rank by rank, or host by host when the ranks' places depend on what the hosts will say.
std::string plan_text(const Plan& plan) {
  std::string text = head_text(plan);
  const size_t width = name_width(plan);
  if (!plan.placement) {
    text += format("# {:<{}}  slots\n", "host", width);
    for (const auto& host : plan.hosts)
      text += format("  {:<{}}  {}\n", host.name, width,
                     host.slots ? std::to_string(*host.slots) : kAsked);
    return text;
  }
  const bool gpus = plan.gpus > 0;
  text += format("# rank  {:<{}}  local{}  cores\n", "host", width, gpus ? "  GPU" : "");
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const int local = plan.placement->local_rank[size_t(rank)];
    text += format("{:>6}  {:<{}}  {:>5}{}  {}\n", rank,
                   plan.hosts[size_t(plan.placement->host_of[size_t(rank)])].name, width, local,
                   gpus ? format("  {:>3}", local % plan.gpus) : "", cores_text(plan, rank));
  }
  return text;
}

void write_hosts(JsonWriter& json, const Plan& plan, bool slots) {
  json.key("hosts").begin_array();
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    const launcher::HostSpec& host = plan.hosts[i];
    json.begin_object().field("host", host.name);
    if (plan.placement)
      json.list("ranks", plan.placement->ranks_of[i]);
    else
      json.key("ranks").null();
    if (slots) json.field_or_null("slots", host.slots.has_value(), host.slots.value_or(0));
    json.end_object();
  }
  json.end_array();
}

std::string plan_json(const ParsedLine& line, const LaunchOptions& launch, const Plan& plan) {
  JsonWriter json;
  json.begin_object();
  write_run_head(json, line);
  write_hosts(json, plan, launch.launcher == LauncherKind::ssh);
  json.key("ranks");
  if (!plan.placement) return json.null().end_object().take() + "\n";
  json.begin_array();
  for (int rank = 0; rank < plan.ranks; ++rank) {
    json.begin_object().field("rank", rank);
    json.field("host", plan.hosts[size_t(plan.placement->host_of[size_t(rank)])].name);
    const int local = plan.placement->local_rank[size_t(rank)];
    json.field("local_rank", local);
    if (plan.gpus > 0) json.field("device", local % plan.gpus);
    if (plan.cores)
      json.list("cores", (*plan.cores)[size_t(rank)]);
    else
      json.key("cores").null();
    json.end_object();
  }
  return json.end_array().end_object().take() + "\n";
}

}  // namespace

void write_run_head(JsonWriter& json, const ParsedLine& line) {
  continue_document(json, "collctl.run/1").field("dry_run", line.has("dry-run"));
  if (line.collective != nullptr) json.field("op", line.collective->name);
  json.list("program", line.program);
}

Result<int> dry_run(const ParsedLine& line, const LaunchOptions& launch, Console& console) {
  if (!launch.join.empty() || launch.launcher == LauncherKind::adopt)
    return Error(ErrorCode::usage, "--dry-run places ranks that are launched here; this one joins")
        .within("run");
  COLL_ASSIGN(const Plan plan, plan_of(launch, line.has_program));
  for (const auto& warning : launch.hosts.warnings) console.note(warning);
  if (const std::string idle = idle_note(plan); !idle.empty()) console.note(idle);
  console.out(line.has("json") ? plan_json(line, launch, plan) : plan_text(plan));
  return 0;
}

// Only a collective can become a rank of a job that an engine has started.
Status refuse_under_engine(const LaunchOptions& launch) {
  if (launch.launcher != LauncherKind::local || launch.launcher_named) return {};
  COLL_ASSIGN(const auto found, launcher::adopted_rank(base::environment));
  if (!found) return {};
  return Error(
      ErrorCode::usage,
      format("this process is a rank already, by {}: there is nothing to launch", found->from),
      "start the program by the engine itself, without collctl run --; or give --launcher "
      "local to start ranks on this host all the same");
}

void write_launch(JsonWriter& json, const std::vector<HostEnd>& hosts) {
  if (hosts.empty()) return;
  json.key("launch").begin_object();
  json.objects("hosts", hosts, [&](const HostEnd& host) {
    json.field("host", host.host).field("phase", host.phase);
    json.list("ranks", host.ranks);
    if (!host.client.empty()) json.field("client", host.client);
    // Seconds from the start at which each phase was reached.
    json.key("reached_s").begin_object();
    const auto reached = [&](const char* name, double at) {
      if (at >= 0) json.field(name, at);
    };
    reached("connecting", host.times.connecting);
    reached("authenticating", host.times.authenticating);
    reached("starting", host.times.starting);
    reached("staging", host.times.staging);
    reached("up", host.times.up);
    reached("bootstrapping", host.bootstrapping);
    reached("running", host.running);
    reached("done", host.done);
    json.end_object();
    json.field("staged", host.times.staging >= 0);
    if (host.error) {
      json.field("error", host.error->chain());
      json.field("code", base::code_name(host.error->code));
      if (!host.error->hint.empty()) json.field("hint", host.error->hint);
    }
  });
  json.end_object();
}

}  // namespace collctl::cmd
