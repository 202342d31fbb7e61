// `run`: a program as ranks, or what a collective's or task's own row runs.
#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/judge/json.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/root_commands.h"
#include "cmd/text/console.h"

namespace collctl::cmd {
namespace {

// The hosts that had ranks, in the order of their first.
void write_hosts(JsonWriter& json, const JobOutcome& outcome) {
  std::vector<std::pair<Host, std::vector<int>>> hosts;
  for (const RankEnd& end : outcome.ranks) {
    auto host =
        std::ranges::find_if(hosts, [&](const auto& known) { return known.first == end.host; });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {end.host, {}});
    host->second.push_back(end.rank);
  }
  json.key("hosts").begin_array();
  for (const auto& [host, ranks] : hosts) {
    json.begin_object().field("host", host);
    json.list("ranks", ranks);
    json.end_object();
  }
  json.end_array();
}

std::string run_json(const ParsedLine& line, const JobOutcome& outcome) {
  JsonWriter json;
  json.begin_object();
  write_run_head(json, line);
  write_hosts(json, outcome);
  json.objects("ranks", outcome.ranks, [&](const RankEnd& end) {
    json.field("rank", end.rank).field("host", end.host);
    json.field("pid", end.pid).field("phase", end.phase);
    json.field("exit_code", end.exit_code).field("exit_signal", end.exit_signal);
    // Such an end is no fault: another rank failed, or a signal ended the job.
    if (end.ended_by_us && (end.exit_code != 0 || end.exit_signal != 0))
      json.field("told_to_end", true);
    if (end.error) json.field("error", end.error->chain());
  });
  write_launch(json, outcome.hosts);
  json.field("seconds", outcome.seconds).field("exit_code", outcome.exit_code);
  std::optional<Error> error = outcome.error;
  if (!error && outcome.exit_code != 0)
    error = Error(ErrorCode::interrupted, "nobody reads the program's output");
  // Without hosts it was this one; of several it is the one at fault, or none.
  if (error && error->host.empty() && outcome.hosts.empty()) error->on(base::this_host());
  write_verdict(json, {{}, std::move(error)});
  return json.end_object().take() + "\n";
}

Result<int> run_program(const ParsedLine& line, const LaunchOptions& launch, Console& console) {
  COLL_ASSIGN(const OutputOptions output, interpret_output(line, nullptr));
  if (line.has("json"))
    return Error(ErrorCode::usage,
                 "standard output belongs to the program: expected -o FILE.json "
                 "in place of --json")
        .within("run");
  for (const OutputFile& file : output.files) COLL_TRY(check_writable(file.path));
  if (!output.quiet) note_hosts(launch, "run", console);
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
  if (!line.has_program) return line.collective->run(line, console);
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  launch.talk = console_talk(console, line.has("quiet"));
  COLL_TRY(refuse_under_engine(launch));
  return line.has("dry-run") ? dry_run(line, launch, console) : run_program(line, launch, console);
}

}  // namespace collctl::cmd
