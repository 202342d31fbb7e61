// `check`: whether hosts are fit for work, in stages from each host alone to all of them together.
// A stage goes on past what fails; a host that fails one is left out of the later ones, and the
// rest is still judged. Every suite is a row of the table in suites.cc and measures with what the
// other commands measure with. Threads: one.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "cmd/check/burn.h"
#include "cmd/check/counters.h"
#include "cmd/check/floors.h"
#include "cmd/check/nccl.h"
#include "cmd/cli/parse.h"
#include "cmd/doctor/expect.h"
#include "cmd/document/document.h"
#include "cmd/document/judgement.h"
#include "cmd/gpu_test/gpu_test.h"
#include "cmd/job/job.h"
#include "cmd/judge/bench.h"
#include "cmd/judge/busy.h"
#include "cmd/judge/finding.h"
#include "cmd/judge/verdict.h"
#include "cmd/rails/rails.h"
#include "cmd/report/paths.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// How much a suite means to measure of each host, and how much of that it has: fewer done than
// planned, or nothing planned, is "not tested" whatever the suite itself says. The one place that
// holds suites to it is run_suite() in run_suite.cc. Threads: values.

class Tally {
 public:
  // In all suites the host takes part in what `what` names: "paths", "runs", "hosts".
  void plan(const Host& host, size_t count, const char* what);
  // One thing of the host was measured, whatever came of it. The same `key` counts once, as what is
  // measured again is no more than was planned.
  void did(const Host& host, const std::string& key);
  size_t planned() const, done() const;
  // Not tested (code 8): each host of which less was measured than planned, or all in one finding;
  // none for hosts that `excused` has, whose own failure is told. Nothing planned is one as well.
  std::vector<Finding> missing(const std::string& suite,
                               const std::map<Host, std::string>& excused) const;

 private:
  struct Counts {
    size_t planned = 0;
    std::set<std::string> done = {};
    size_t counted() const { return done.size() < planned ? done.size() : planned; }
  };
  std::map<Host, Counts> hosts_;
  const char* what_ = "measurements";
};

enum class CheckLevel : uint8_t { quick, standard, full };
inline constexpr const char* kCheckLevels[] = {"quick", "standard", "full"};

struct CheckOptions {
  CheckLevel level = CheckLevel::standard;
  std::set<std::string> only, skip;  // suites; `only` empty: those of the level
  double budget_s = 0;               // 0: none
  double below = 0.7;                // of the peers' median: slow
  Limits limits;                     // of collectives
  Expectation expect;                // of each host
  Floors floors;                     // of its boards
  double soak_s = 0;                 // rounds of the suites for so long; 0: one
  size_t history_keep = 0;           // of the folder of --history the newest so many; 0: all
  double burn_s = 0;                 // of the suite burn; 0: it is not run
  bool with_nccl = false;            // the suite nccl is run
  SizeRange sizes;                   // of collectives
  std::optional<SizeRange> given;    // by -b or -e: of GPU memory over the network as well
  bool plateau = true;               // and then one size for the line rate
};

// The findings of suites that a report has.
struct CheckSeen {
  std::map<Host, std::string> out;  // host -> the suite that it failed
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
  PathMatrix paths;                // between NICs
  std::vector<GpuReport> gpus;     // of hosts that have any
  std::vector<BurntDevice> burnt;  // by the suite burn
  std::optional<NcclReport> nccl;  // by the suite nccl
};
// All of them; a suite that measures again begins with those from before it.
struct CheckFound : CheckSeen {
  std::set<std::pair<Host, Host>> broken;  // links between two hosts
  std::vector<BenchReport> measured;       // by collectives, for --save-baseline
  std::vector<Culprit> doubtful;           // links that the doctor could not use: pairs decides
  BusyHosts busy;                          // of the suite that runs
};

// Reason of a pass that says that a host has nothing that the suite looks at.
inline constexpr const char* kNothingThere = "nothing";

// Shared by the suites while they run.
struct CheckRun : CheckFound {
  CheckRun(const ParsedLine& with, LaunchOptions given) : line(with), launch(std::move(given)) {}
  const ParsedLine& line;
  LaunchOptions launch;  // as it was given
  CheckOptions options;
  std::function<void(const std::string&)> progress;

  std::vector<Host> hosts;                // in the order of the hostfile; alone: this one
  std::map<Host, HostCounters> counters;  // as they were before the first suite
  std::set<Host> nvlinked;                // hosts with NVLinks between GPUs, by the inventory
  std::string machine;                    // that most hosts have, as a topology file
  std::optional<Error> interrupted;       // by a signal: nothing more is begun
  Tally tally;                            // of the suite that runs
  std::optional<Deadline> until;          // of it, by --budget
  std::string nothing_there;              // why it has nothing to look at on any host

  std::vector<Host> fit() const;  // hosts that are still in
  LaunchOptions launch_of(const std::vector<Host>& some) const;
};

struct Suite {
  const char* name;     // stable: --only, --skip and JSON
  CheckLevel from;      // the least level that has it
  int least_hosts;      // that it needs
  const char* summary;  // the things it looks at
  const char* needs;    // on the hosts
  // Seconds that it is likely to take for so many hosts, with what was asked for.
  double (*cost_s)(int hosts, const CheckOptions& options);
  // Plans in the tally, then adds findings, named "SUITE/CHECK". Error: it could not be run at all;
  // what is wrong with a host is a finding.
  Status (*run)(CheckRun& run);
  bool loads = false;  // puts load on the hosts
  // Step before the first suite that loads the hosts; null: none. Errors: as run's.
  Status (*before)(CheckRun& run) = nullptr;
};
std::span<const Suite> suites();
bool is_asked(const Suite& suite, const CheckOptions& options);
// Why it is not run on so many hosts, whatever they are like; empty: it is.
std::string why_not_run(const Suite& suite, int hosts, const CheckOptions& options);

Status check_doctor(CheckRun& run);
Status check_inventory(CheckRun& run);
Status check_node(CheckRun& run);
Status check_gpus(CheckRun& run);
Status check_pairs(CheckRun& run);
Status tally_paths(const std::vector<Host>& hosts, const RailsReport& report, Tally& tally);
// For each InfiniBand port whose rate has a floor: its best path to or from a port that is not
// slower, beside that. Less is told and no fault. Pure.
std::vector<Finding> port_findings(const RailsReport& report, const Floors& floors);
Status check_gpu_net(CheckRun& run);
Status tally_gpu_paths(const std::vector<Host>& hosts, const RailsReport& report, bool every_nic,
                       Tally& tally);
// The slowest path of GPU memory at each size that was asked for, one way and both ways: "large" at
// the largest. Not tested: paths without a large size, where the level has one; why. Pure.
std::vector<Finding> size_findings(const RailsReport& report, const CheckOptions& options,
                                   const std::string& why);
// `rails` as the suites have it. Pure.
RailsSpec rails_spec(const CheckOptions& options, runtime::MemoryChoice memory);
// It, between these hosts. Errors: that ended the job.
Result<RailsReport> measure_rails(const CheckRun& run, const std::vector<Host>& hosts,
                                  RailsSpec spec);
Status check_cluster(CheckRun& run);
Status check_burn(CheckRun& run);
Status check_traffic(CheckRun& run);
Status check_nccl(CheckRun& run);
Status begin_counters(CheckRun& run);
Status check_counters(CheckRun& run);

// `partly`: it ran to its end, and has measured less than it planned.
enum class SuiteEnd : uint8_t { done, not_asked, no_hosts, no_time, broke, partly };
struct SuiteResult {
  const Suite* suite;
  SuiteEnd end = SuiteEnd::not_asked;
  double seconds = 0;
  std::string why = {};              // it was not run, or not to its end
  size_t planned = 0, measured = 0;  // measurements that it states, over all hosts
  int times = 1;                     // it was measured, the last of which counts
  std::string again = {};            // why more than once
};
// The suite, and again where busy hosts have spoilt its figures (BusyGuard, whose `until` it is).
void run_suite(CheckRun& run, SuiteResult& result, std::optional<Deadline> until);

// --soak: what a part of the time has shown.
struct SoakInterval {
  std::string from = {};  // 2026-01-31T08:00:00Z
  int rounds = 0, failed = 0;
  std::vector<Finding> lowest = {};  // the worst value of each check that measures
};
struct SoakResult {
  double asked_s = 0, seconds = 0;
  std::string began;
  int rounds = 0, failed = 0;
  std::vector<SoakInterval> intervals;
};

struct CheckReport : CheckSeen {
  CheckLevel level{};
  std::vector<Host> hosts;
  std::vector<SuiteResult> suites;
  double seconds = 0;
  std::string machine = {};  // that most hosts have, as a topology file; empty: not known
  int round = 0;             // of a soak, from 1
  std::string began = {};    // that round
  std::optional<SoakResult> soak = {};
};

// soak.cc: the rounds of a soak as one report: what failed in any failed, with the number of rounds
// in which it did. Values.
class SoakTotal {
 public:
  static constexpr int kIntervals = 12;  // that the time is divided into
  explicit SoakTotal(double asked_s) : asked_s_(asked_s) {}
  // A round that was broken off adds only failures and what its finished suites have found.
  void add(const CheckReport& round);
  // `ended`: why before its time; empty: it was not.
  CheckReport report(const std::string& ended) const;
  int rounds() const { return soak_.rounds; }

 private:
  struct Tally {
    Finding worst;
    uint64_t rounds = 0;     // in which it was no pass
    std::string first = {};  // of these
  };
  void add_suites(const CheckReport& round);
  void add_finding(const Finding& finding, const std::string& began);

  double asked_s_;
  SoakResult soak_;
  CheckReport all_;
  std::vector<Tally> tallies_;
  std::map<std::tuple<SubjectKind, Host, std::string>, uint64_t> accused_;
};
// A round as a line of JSON Lines keeps it: findings that are no pass, and the worst of each check
// that measures.
CheckReport condensed(const CheckReport& round);

// evidence.cc: what was measured, in ten lines at most, and what each was held against. Pure.
EvidenceList evidence_of(const CheckReport& report);

// report.cc: pure.
std::string check_json(const CheckReport& report, const Verdict& verdict);
// And back. Suites that this version does not have are left out.
Result<CheckReport> read_check(const Judgement& judged);
// Heat maps of the GPUs, the machine that most hosts have as a picture, and the curves of a
// burn-in; empty where none is known. Error usage: it is no topology.
Result<std::string> more_pictures(const CheckReport& report);
// `json`: of check_json(). Without the picture of the machine.
Document check_document(const CheckReport& report, std::string json);
// A line for each culprit that is a host or on one: scontrol update nodename=... state=drain.
std::string drain_lines(const CheckReport& report);
// And back: state=resume, for the same kinds of names.
std::string resume_lines(const std::vector<Host>& hosts);
// A suite's result for a host, as the table has it: "ok", "warn", "FAIL", "left out", "partly",
// "not run", "-". A link counts at both its ends.
std::string suite_word(const CheckReport& report, const SuiteResult& result, const Host& host);
// Its evidence in at most 60 characters, for where a line is all that there is.
std::string short_cause(const Culprit& culprit);
// The suites, what each needs and is likely to cost: --list.
std::string suites_text(int hosts, const CheckOptions& options);
// One line and the exit code as monitoring plugins have it: 0 ok, 1 warning, 2 critical, 3 unknown.
std::string nagios_line(const CheckReport& report, const Verdict& verdict);
int nagios_code(int exit_code);

// The command, and its rows of the table of options.
Result<int> check_command(const ParsedLine& line, Console& console);
void add_check_options(std::vector<Option>& table);

}  // namespace collctl::cmd
