// The doctor's parts: the survey asks the hosts (survey.cc), the checks judge what was found
// (checks.cc, pairs.cc: pure), the reports say it (report.cc). Threads: one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/doctor/expect.h"
#include "cmd/doctor/state.h"
#include "cmd/document/document.h"
#include "cmd/job/job.h"
#include "cmd/judge/verdict.h"
#include "launcher/remote/probe.h"
#include "launcher/remote/reach.h"

namespace collctl::cmd {

// Why CUDA does not start on a host, and what to do; no message: it starts.
struct GpuTrouble {
  std::string message, hint;
};
// The question to an agent of a host with GPUs, and its answer. Wakes the driver.
inline constexpr const char* kAskGpus = "gpus";
Result<std::string> gpus_answer();
// Untrusted. Error: launch.
Result<GpuTrouble> gpus_of_answer(const std::string& text);

// One host as it was found.
struct SurveyedHost {
  launcher::HostSpec spec;
  bool here = false;           // this very host: nothing was connected
  std::optional<Error> error;  // why it could not be asked, or was lost
  std::string client;          // how it was connected
  double up_s = 0;             // until its agent spoke
  std::optional<launcher::HostFacts> facts;
  GpuTrouble gpus = {};  // asked where PCI or the driver shows some
  ReadState state = {};  // of its devices, before anything of ours ran on them
  // Its clock minus ours, and how wrong that can be: half the shortest round trip.
  double clock_offset_s = 0, clock_error_s = 0;
  std::vector<launcher::ReachAddress> listens;
  // Number of NICs, and of those that a NicChoice leaves in the facts; all 0: it says nothing.
  struct Chosen {
    int all = 0, chosen = 0;
  };
  Chosen ports, interfaces;
};

// Values of IB_HCA and SOCKET_IFNAME, which choose a job's NICs; empty: all.
struct NicChoice {
  std::string rdma, interfaces;
};
// Error: usage.
Result<NicChoice> nic_choice();
void keep_chosen(SurveyedHost& host, const NicChoice& choice);
void keep_chosen(base::HostState& state, const NicChoice& choice);

// One address of one host, dialled from another.
struct PairResult {
  int from = 0, to = 0;  // indexes of hosts
  std::string interface;
  bool shared = true;  // both hosts are on this network; else: the way there is routed
  launcher::ReachResult result;
};

struct Survey {
  launcher::HostFacts self;  // the host and the binary that ask
  NicChoice choice;
  std::vector<SurveyedHost> hosts;
  std::vector<PairResult> pairs;
  size_t untested_pairs = 0;  // ordered pairs of hosts that were left out: too many
};

// Asks all hosts, or this one when none are named. `timeout` of the launch ends it. Errors are this
// machine's; what is wrong with a host stands in the survey.
Result<Survey> make_survey(const LaunchOptions& launch);

// The same of recordings in a folder, in the order of their files: states alone, without facts. One
// that cannot be read is a host whose state is missing, with the reason. Errors: usage, the folder
// cannot be read or has none.
Result<Survey> replayed_survey(const std::string& folder);

// The first host of the list that is this one, too: itself, unless the list has one host under two
// names.
size_t same_host(const std::vector<SurveyedHost>& hosts, size_t host);

// A usable address of a host: not loopback, not link-local, and no other host has it too.
struct UsableAddress {
  std::string interface, address;
  int prefix = 0;
  int mtu = 0;
  int64_t speed_mbps = 0;
};
std::vector<std::vector<UsableAddress>> usable_addresses(const std::vector<SurveyedHost>& hosts);
// "10.83.0.0/24": equal for all addresses of one network.
std::string network_of(const UsableAddress& at);

// Which host dials which: all ordered pairs of up to kAllPairs hosts; of more, a ring and one
// random matching. Only hosts with facts, each once.
inline constexpr size_t kAllPairs = 64;
std::vector<std::pair<int, int>> pairs_to_test(const std::vector<SurveyedHost>& hosts,
                                               uint64_t seed);
// The addresses of `to` that `from` should reach: addr= alone if it is said, else those on networks
// that both are on, else all.
struct DialledAddress {
  UsableAddress at;
  bool shared = true;
};
std::vector<DialledAddress> addresses_to_dial(const std::vector<UsableAddress>& from,
                                              const std::vector<UsableAddress>& to,
                                              const std::string& said);

struct Diagnosis {
  std::vector<Finding> checks;
  std::vector<Culprit> culprits;
  std::vector<std::string> summary;  // unless all passed: the reasons
  Verdict verdict() const { return {checks, std::nullopt, summary}; }
};
Diagnosis diagnose_hosts(const Survey& survey, const Expectation& expect = {});
// By the state of their devices alone.
Diagnosis diagnose_states(const Survey& survey);

// "6.1 on 3, 5.15 on 1"
std::string listed_values(const std::vector<std::string>& values);

// A check that passes until it is said to fail. Text from hosts is shown without terminal control
// characters.
Finding& add_check(Diagnosis& diagnosis, const char* name, const SurveyedHost& host,
                   std::string measured);
void fail(Finding& check, std::string expected, std::string message, std::string remedy,
          ErrorCode code = ErrorCode::failed);

// Locked memory, files, processes, shared memory and the cgroup (limits.cc). Only a host with
// facts.
void add_limit_checks(const SurveyedHost& host, const Survey& survey, Diagnosis& diagnosis);
// How many NICs were chosen, where that was said (chosen.cc). Only a host with facts.
void add_choice_check(const SurveyedHost& host, const NicChoice& choice, Diagnosis& diagnosis);
// GIDs of the active ports, and whether RDMA devices reach the GPUs' memory (rdma.cc). Only
// a host with facts.
void add_rdma_checks(const SurveyedHost& host, Diagnosis& diagnosis);
// State of all hosts' devices (state.h); not tested where it was not read.
std::vector<StateOfHost> states_of(const Survey& survey);
void add_state_checks(const Survey& survey, Diagnosis& diagnosis);
// MTU and speed of the interfaces on each network; the verdict of the pairs (pairs.cc).
void add_network_checks(const Survey& survey, Diagnosis& diagnosis);
void add_reach_checks(const Survey& survey, Diagnosis& diagnosis);

std::string doctor_json(const Survey& survey, const Diagnosis& diagnosis);
// Whole (-v): also how each host was connected. `json`: of doctor_json().
Document doctor_document(const Survey& survey, const Diagnosis& diagnosis, std::string json);
// The hosts of that document, as far as doctor_document() shows them.
Result<Survey> read_survey(const std::string& json);

// The command.
Result<int> doctor_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
