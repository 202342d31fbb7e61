// `run`: a collective or a program as ranks; the placement alone with --dry-run.
#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/command_line.h"
#include "cmd/json_writer.h"
#include "cmd/report.h"
#include "cmd/sizes.h"
#include "launcher/placement.h"

namespace collctl::cmd {
namespace {

struct Placement {
  int ranks = 0;
  std::vector<std::vector<int>> cores;  // by rank; empty: not bound
};

Result<Placement> place(const LaunchOptions& launch) {
  Placement placement;
  placement.ranks = launch.ranks != 0 ? launch.ranks : base::usable_cores();
  COLL_ASSIGN(const launcher::BindTo bind, launcher::parse_bind_to(launch.bind_to));
  placement.cores =
      launcher::place_local(placement.ranks, bind, base::affinity_cores(), base::numa_nodes());
  return placement;
}

void write_ints(JsonWriter& json, const char* key, const std::vector<int>& values) {
  json.key(key).begin_array();
  for (const int value : values) json.value(value);
  json.end_array();
}

// What both forms of collctl.run/1 begin with.
void write_run_head(JsonWriter& json, const ParsedLine& line, int ranks) {
  json.field("schema", "collctl.run/1").field("version", version_number());
  json.field("dry_run", line.has("dry-run"));
  if (line.collective != nullptr) json.field("op", line.collective->name);
  json.key("program").begin_array();
  for (const auto& word : line.program) json.value(word);
  json.end_array();
  std::vector<int> all(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) all[size_t(rank)] = rank;
  json.key("hosts").begin_array().begin_object().field("host", base::host_name());
  write_ints(json, "ranks", all);
  json.end_object().end_array();
}

std::string dry_run_json(const ParsedLine& line, const Placement& placement) {
  JsonWriter json;
  json.begin_object();
  write_run_head(json, line, placement.ranks);
  json.key("ranks").begin_array();
  for (int rank = 0; rank < placement.ranks; ++rank) {
    json.begin_object().field("rank", rank).field("host", base::host_name());
    write_ints(json, "cores", placement.cores[size_t(rank)]);
    json.end_object();
  }
  return json.end_array().end_object().take() + "\n";
}

std::string dry_run_text(const Placement& placement) {
  const std::string host = base::host_name();
  std::string text = format("# {} {} on {}, nothing is started\n", placement.ranks,
                            placement.ranks == 1 ? "rank" : "ranks", host);
  text += format("# rank  {:<{}}  cores\n", "host", host.size());
  for (int rank = 0; rank < placement.ranks; ++rank) {
    const auto& cores = placement.cores[size_t(rank)];
    text += format("{:>6}  {}  {}\n", rank, host, cores.empty() ? "any" : rank_ranges(cores));
  }
  return text;
}

std::string run_json(const ParsedLine& line, const JobOutcome& outcome) {
  JsonWriter json;
  json.begin_object();
  write_run_head(json, line, int(outcome.ranks.size()));
  json.key("ranks").begin_array();
  for (const RankEnd& end : outcome.ranks) {
    json.begin_object().field("rank", end.rank).field("host", end.host);
    json.field("pid", end.pid).field("phase", end.phase);
    json.field("exit_code", end.exit_code).field("exit_signal", end.exit_signal);
    if (end.error) json.field("error", end.error->chain());
    json.end_object();
  }
  json.end_array().field("seconds", outcome.seconds).field("exit_code", outcome.exit_code);
  json.key("verdict").begin_object().field("ok", outcome.exit_code == 0);
  json.key("reasons").begin_array();
  if (outcome.error) {
    json.begin_object().field("code", base::code_name(outcome.error->code));
    json.field("message", outcome.error->chain()).field("host", base::host_name());
    json.key("rank");
    if (outcome.error->rank < 0)
      json.null();
    else
      json.value(outcome.error->rank);
    json.end_object();
  }
  return json.end_array().end_object().end_object().take() + "\n";
}

Result<int> dry_run(const ParsedLine& line, const LaunchOptions& launch, Console& console) {
  if (!launch.join.empty() || line.text("launcher") == "adopt")
    return Error(ErrorCode::usage, "--dry-run places ranks that are launched here; this one joins")
        .within("run");
  COLL_ASSIGN(const Placement placement, place(launch));
  console.out(line.has("json") ? dry_run_json(line, placement) : dry_run_text(placement));
  return 0;
}

Result<int> run_program(const ParsedLine& line, const LaunchOptions& launch, Console& console) {
  COLL_ASSIGN(const OutputOptions output, interpret_output(line, nullptr));
  if (line.has("json"))
    return Error(ErrorCode::usage,
                 "standard output belongs to the program: expected -o FILE.json "
                 "in place of --json")
        .within("run");
  for (const OutputFile& file : output.files) COLL_TRY(check_writable(file.path));
  const JobOutcome outcome = run_program_job(launch, line.program);
  int code = outcome.exit_code;
  if (outcome.error) console.print_error(*outcome.error);
  for (const OutputFile& file : output.files)
    if (Status written = write_file_atomically(file.path, run_json(line, outcome)); !written.ok()) {
      console.print_error(written.error());
      if (code == 0) code = int(written.error().code);
    }
  return code;
}

}  // namespace

Result<int> run_command(const ParsedLine& line, Console& console) {
  if (!line.has_program && !line.has("dry-run")) return bench_command(line, console);
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(const LaunchOptions launch, interpret_launch(line));
  if (!line.has("dry-run")) return run_program(line, launch, console);
  if (line.collective != nullptr) {
    // A mistake in the rest of the line is one now, not when the job is real.
    const int ranks = launch.ranks != 0 ? launch.ranks : base::usable_cores();
    COLL_ASSIGN(const BenchSpec spec, interpret_bench(line, ranks));
    COLL_TRY(interpret_output(line, &spec));
  }
  return dry_run(line, launch, console);
}

}  // namespace collctl::cmd
