// `check`: the command.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/clock.h"
#include "base/env.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/whole_file.h"
#include "cmd/check/history.h"
#include "cmd/check/node.h"
#include "cmd/check/suites_in_turn.h"
#include "cmd/document/document.h"
#include "cmd/job/dry_run.h"
#include "cmd/job/interrupt.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/measure/options.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/text/console.h"
#include "cmd/text/file.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

// The suites that an option names; empty: it is not given.
std::set<std::string> suite_names(const ParsedLine& line, const char* option) {
  if (!line.has(option)) return {};
  const std::vector<std::string> names = given_words(line.row(option), line.all(option));
  return {names.begin(), names.end()};
}

// The good hosts as a hostfile, the bad ones as a list with the reason.
Status write_hosts(const CheckRun& run, const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return base::errno_error(ErrorCode::unavailable, folder, errno);
  const std::vector<Host> good = run.fit();
  std::string text;
  if (run.launch.hosts.hosts.empty())
    for (const Host& host : good) text += host.name + "\n";
  else
    text = launcher::hostfile_text(run.launch_of(good).hosts);
  COLL_TRY(base::write_file_atomically(folder + "/good-hosts.txt", text));
  text.clear();
  for (const auto& [host, suite] : run.out) {
    const auto culprit = std::ranges::find(run.culprits, host, &Culprit::host);
    text += format("{}  # failed {}{}\n", host, suite,
                   culprit == run.culprits.end() ? "" : ": " + short_cause(*culprit));
  }
  return base::write_file_atomically(folder + "/bad-hosts.txt", text);
}

// --burn asks for its suite, so does --only; at the full level a short one is part of the check.
Status settle_burn(const ParsedLine& line, CheckOptions& options) {
  constexpr double kShortBurn = 120;
  if (line.has("burn") && options.skip.contains("burn"))
    return Error(ErrorCode::usage, "--burn asks for the suite burn, --skip leaves it out");
  options.burn_s = 60 * line.number("burn", 0);
  const bool is_part =
      options.only.empty() ? options.level == CheckLevel::full : options.only.contains("burn");
  if (options.burn_s == 0 && is_part) options.burn_s = kShortBurn;
  return {};
}

Status settle_nccl(const ParsedLine& line, CheckOptions& options) {
  options.with_nccl = line.has("with") || options.only.contains("nccl");
  if (options.with_nccl && options.skip.contains("nccl"))
    return Error(ErrorCode::usage, "--with nccl asks for the suite nccl, --skip leaves it out");
  return {};
}

// Rounds of it until the time is over or a signal comes. Each is told in a line, and appended to
// the files of JSON Lines.
class SoakRun {
 public:
  SoakRun(CheckRun& run, const OutputOptions& output, Console& console, Progress& progress)
      : run_(run), output_(output), console_(console), progress_(progress) {}
  CheckReport go() {
    const Deadline end = Deadline::after_seconds(run_.options.soak_s);
    SoakTotal total(run_.options.soak_s);
    open_lines();
    do {
      begin_round();
      const int64_t began = std::time(nullptr);
      CheckReport round = run_suites(run_, progress_);
      round.round = total.rounds() + 1;
      round.began = utc_date(began);
      const Verdict verdict(round.findings, std::nullopt);
      if (!run_.interrupted) {
        append(check_json(condensed(round), verdict));
        say(round, verdict);
      }
      total.add(round);
    } while (!end.passed() && !take_stop(run_));
    const auto stopped = std::exchange(run_.interrupted, std::nullopt);  // the verdict has it
    CheckReport report =
        total.report(stopped ? format("ended by {}", signal_name(stopped->signal)) : "");
    report.paths = run_.paths;  // of the last round
    report.gpus = run_.gpus;
    report.burnt = run_.burnt;
    report.nccl = run_.nccl;
    report.machine = run_.machine;
    append(check_json(report, Verdict(report.findings, std::nullopt)));
    return report;
  }
  // The first error of writing the files.
  Status take_status() { return std::move(status_); }

 private:
  void open_lines() {
    for (const OutputFile& file : output_.files) {
      if (file.format != Format::jsonl) continue;
      const int fd = ::open(file.path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
      if (fd >= 0)
        lines_.emplace_back(file.path, base::Fd(fd));
      else
        keep(base::errno_error(ErrorCode::unavailable, "cannot write " + file.path, errno));
    }
  }
  void begin_round() {
    CheckFound none;
    if (!output_.save_baseline.empty()) none.measured = std::move(run_.measured);
    static_cast<CheckFound&>(run_) = std::move(none);
    run_.counters.clear();
  }
  void append(const std::string& json) {
    for (const auto& [path, fd] : lines_) keep(append_line(fd.get(), path, json));
  }
  void say(const CheckReport& round, const Verdict& verdict) {
    if (output_.quiet) return;
    const std::string why =
        verdict.reasons().empty() ? "" : ", " + verdict.reasons().front().message;
    const char* word = verdict.ok()           ? "passed"
                       : verdict.incomplete() ? "not all was tested"
                                              : "FAILED";
    console_.err(format("collctl: round {}, {}, {:.1f} s: {}{}\n", round.round, round.began,
                        round.seconds, word, why));
  }
  void keep(Status status) {
    if (!status && status_) status_ = std::move(status);
  }
  CheckRun& run_;
  const OutputOptions& output_;
  Console& console_;
  Progress& progress_;
  std::vector<std::pair<std::string, base::Fd>> lines_;
  Status status_;
};

Result<int> checked(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  COLL_TRY(refuse_under_engine(launch));
  COLL_ASSIGN(const OutputOptions output, interpret_files(line, {.monitoring = true}));
  COLL_ASSIGN(Expectation expect, interpret_expect(line));
  COLL_ASSIGN(Floors floors, interpret_floors(line));
  const bool quiet = line.has("quiet");
  const bool nagios = line.has("nagios");
  launch.talk = console_talk(console, quiet || nagios);
  Progress progress(console, !quiet && !nagios);
  CheckRun run{line, std::move(launch)};
  COLL_TRY(fill(line, run.options));
  run.options.sizes = level_sizes(run.options.level);
  COLL_TRY(interpret_sizes(line, run.options.sizes));
  if (line.has("min-bytes") || line.has("max-bytes")) run.options.given = run.options.sizes;
  run.options.plateau = !line.has("max-bytes");
  if (!run.options.plateau) end_at_most(run.options.sizes);
  run.options.below = line.number("below", 0.7);
  run.options.only = suite_names(line, "only");
  run.options.skip = suite_names(line, "skip");
  COLL_TRY(settle_burn(line, run.options));
  COLL_TRY(settle_nccl(line, run.options));
  run.options.limits = output.limits;
  run.options.expect = std::move(expect);
  run.options.floors = std::move(floors);
  for (const auto& host : run.launch.hosts.hosts) run.hosts.push_back(host.host());
  if (run.hosts.empty()) run.hosts.push_back(base::this_host());
  if (line.has("history-keep") && !line.has("history"))
    return usage("--history-keep is about the folder of --history; expected both");
  if (line.has("list")) {
    console.out(suites_text(int(run.hosts.size()), run.options));
    return 0;
  }
  if (!quiet && !nagios) note_hosts(run.launch, "check", console);

  const StopSignals signals;
  SoakRun soak(run, output, console, progress);
  const CheckReport report = run.options.soak_s > 0 ? soak.go() : run_suites(run, progress);
  run.out = report.out;
  Verdict verdict(report.findings, run.interrupted);
  Document document = check_document(report, check_json(report, verdict));
  if (nagios)
    console.out(nagios_line(report, verdict));
  else
    print_document(document, output, console);
  if (run.interrupted) console.print_error(*run.interrupted);
  Status kept;
  if (line.has("history"))
    kept = add_to_history(line.text("history"), report, verdict, run.options.history_keep);
  std::vector<OutputFile> files;  // without the lines of a soak, which are written
  for (const OutputFile& file : output.files)
    if (run.options.soak_s == 0 || file.format != Format::jsonl) files.push_back(file);
  Status written = soak.take_status();
  if (written.ok() && !files.empty()) {
    COLL_ASSIGN(document.more_svg, more_pictures(report));
    written = write_documents(files, document);
  }
  if (written.ok() && !output.save_baseline.empty()) {
    std::vector<const BenchReport*> reports;
    for (const BenchReport& each : run.measured) reports.push_back(&each);
    written = save_baseline(output.save_baseline, reports);
  }
  if (written.ok() && line.has("write-hosts")) written = write_hosts(run, line.text("write-hosts"));
  if (!written.ok()) {
    console.print_error(written.error());
    verdict.worsen(written.error());
  }
  if (!kept.ok()) {
    console.print_error(kept.error());
    // A script that reads the code learns of the hosts first.
    if (verdict.ok() || verdict.incomplete()) verdict.worsen(kept.error());
  }
  return nagios ? nagios_code(verdict.exit_code()) : verdict.exit_code();
}

}  // namespace

Result<int> check_command(const ParsedLine& line, Console& console) {
  auto code = checked(line, console);
  if (code || !line.has("nagios")) return code;
  std::string why = code.error().chain();
  std::replace(why.begin(), why.end(), '|', '/');
  console.out(format("COLLCTL UNKNOWN: {}\n", why));
  return nagios_code(int(ErrorCode::unavailable));
}

}  // namespace collctl::cmd
