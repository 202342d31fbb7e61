// THE table of suites, in the order in which they run, and those that ask hosts and start no ranks.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/cli/option_rows.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/blame.h"
#include "cmd/topo/hosts.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {

namespace {

constexpr double kAskSeconds =
    1.5;  // connecting, staging and asking up to --fanout hosts at the same time

double by_level(const CheckOptions& options, const std::array<double, 3>& seconds) {
  return seconds[size_t(options.level)];
}
double asking(int hosts, const CheckOptions&) {
  return kAskSeconds + 0.03 * hosts;
}
// Jobs of one host, sixteen at a time.
double node_seconds(int hosts, const CheckOptions& options) {
  const double each = by_level(options, {5, 35, 110});
  const int turns = (hosts + 15) / 16;
  return each * turns;
}
// Likewise; of eight GPUs, with what is measured again. A host without any says so at once.
double gpu_seconds(int hosts, const CheckOptions& options) {
  const int turns = (hosts + 15) / 16;
  return by_level(options, {10, 10, 25}) * turns;
}
// Rounds of a tournament, of many hosts of a design whose rounds grow with the logarithm; and some
// more for suspects.
double pair_seconds(int hosts, const CheckOptions& options) {
  const auto rounds = double(pair_rounds(hosts).size());
  return kAskSeconds + (rounds + 4) * by_level(options, {0.3, 0.3, 1}) + 0.02 * hosts;
}
// For eight GPUs with a NIC each, beside two hosts, and some more for suspects; as long again for
// each size that was asked for.
double gpu_net_seconds(int hosts, const CheckOptions& options) {
  const RailsSpec spec = rails_spec(options, runtime::MemoryChoice::gpu);
  return kAskSeconds + by_level(options, {20, 20, 90}) * double(1 + spec.sizes().size()) +
         spec.large_s + 0.05 * hosts;
}
double cluster_seconds(int hosts, const CheckOptions& options) {
  return kAskSeconds + 0.1 * hosts + by_level(options, {6, 35, 140});
}

// Beside what is asked for: starting, and a collective.
double burn_seconds(int hosts, const CheckOptions& options) {
  return (20 + options.burn_s) * burn_turns(hosts);
}
// Rows of the same sizes at every level.
double traffic_seconds(int hosts, const CheckOptions&) {
  return kAskSeconds + 0.5 * hosts + 20;
}

// Two starts of each collective with those of NCCL, and what is measured again.
double nccl_seconds(int hosts, const CheckOptions& options) {
  return 2 * kAskSeconds + 0.2 * hosts + by_level(options, {30, 110, 240});
}

constexpr Suite kSuites[] = {
    {"doctor", CheckLevel::quick, 1,
     "SSH, drivers, limits, /dev/shm, clocks, NICs, reachability; the state of GPUs, NICs, PCI "
     "links",
     "SSH", asking, check_doctor},
    {"inventory", CheckLevel::quick, 1,
     "devices and how they are connected, beside the other hosts", "SSH", asking, check_inventory},
    {"node", CheckLevel::quick, 1,
     "collectives inside each host, every element checked (from standard on by every way, protocol "
     "and algorithm, and windows); memory of host and GPUs, and copies between them",
     "ranks on the host", node_seconds, check_node, true},
    {"gpus", CheckLevel::standard, 1,
     "every GPU to every other of its host by copy engine and kernels, one way, both, all at once; "
     "latency; host memory by NUMA node",
     "a GPU on the host, else it is left out", gpu_seconds, check_gpus, true},
    {"pairs", CheckLevel::quick, 2, "every NIC to every NIC; who is at fault where paths are bad",
     "a network between the hosts", pair_seconds, check_pairs, true},
    {"gpu-net", CheckLevel::standard, 2,
     "memory of every GPU over the NICs near it (full: every NIC, and a large size), beside host "
     "memory over the same NICs; who is at fault",
     "a GPU on a host and a network, else it is left out", gpu_net_seconds, check_gpu_net, true},
    {"cluster", CheckLevel::quick, 2, "collectives over all fit hosts with every element checked",
     "ranks on the hosts", cluster_seconds, check_cluster, true},
    {"traffic", CheckLevel::full, 2,
     "the traffic of inference over all fit hosts, every element checked: tokens to experts and "
     "back, a hot expert, blocks of a cache",
     "ranks on the hosts", traffic_seconds, check_traffic, true},
    {"nccl", CheckLevel::full, 1,
     "the installed NCCL over all fit hosts: its library, plugins and variables alike, its "
     "collectives beside ours and every element checked, its choice, its RAS",
     "two GPUs and libnccl on the hosts", nccl_seconds, check_nccl, true},
    {"burn", CheckLevel::full, 1,
     "GPUs, or cores, under full load: every bit of products and memory, heat, clocks",
     "ranks on the hosts", burn_seconds, check_burn, true},
    {"counters", CheckLevel::quick, 1,
     "errors, losses, repeats and throttling that devices counted while the others ran; their "
     "state again",
     "SSH", asking, check_counters, false, begin_counters},
};

// Findings of a command, under the suite's name; whoever fails is left out of later suites.
void take(CheckRun& run, const char* suite, std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    finding.name = format("{}/{}", suite, finding.name);
    if (finding.status == FindingStatus::fail && finding.at.kind != SubjectKind::link &&
        std::ranges::find(run.hosts, finding.at.host) != run.hosts.end())
      run.out.try_emplace(finding.at.host, suite);
    run.findings.push_back(std::move(finding));
  }
}

}  // namespace

std::span<const Suite> suites() {
  return kSuites;
}

bool is_asked(const Suite& suite, const CheckOptions& options) {
  return (suite.run == check_burn   ? options.burn_s > 0
          : suite.run == check_nccl ? options.with_nccl
          : options.only.empty()    ? suite.from <= options.level
                                    : options.only.contains(suite.name)) &&
         !options.skip.contains(suite.name);
}

std::string why_not_run(const Suite& suite, int hosts, const CheckOptions& options) {
  if (!is_asked(suite, options)) return "not asked for";
  if (hosts < suite.least_hosts) return format("it needs {} hosts", suite.least_hosts);
  const bool follows =
      suite.before == nullptr || options.only.contains(suite.name) ||
      std::ranges::any_of(kSuites, [&](const Suite& other) {
        return other.loads && is_asked(other, options) && hosts >= other.least_hosts;
      });
  return follows ? "" : "no suite that loads the hosts was asked for";
}

std::vector<Host> CheckRun::fit() const {
  std::vector<Host> list;
  for (const Host& host : hosts)
    if (!out.contains(host)) list.push_back(host);
  return list;
}

LaunchOptions CheckRun::launch_of(const std::vector<Host>& some) const {
  LaunchOptions on_some = launch;
  on_some.ranks = 0;  // every slot of theirs
  std::erase_if(on_some.hosts.hosts, [&](const launcher::HostSpec& host) {
    return std::ranges::find(some, host.host()) == some.end();
  });
  return on_some;
}

Status check_doctor(CheckRun& run) {
  for (const Host& host : run.hosts) run.tally.plan(host, 1, "hosts");
  COLL_ASSIGN(const Survey survey, make_survey(run.launch));
  for (size_t i = 0; i < survey.hosts.size() && i < run.hosts.size(); ++i)
    if (survey.hosts[i].facts) run.tally.did(run.hosts[i], "facts");
  Diagnosis diagnosis = diagnose_hosts(survey, run.options.expect);
  // Not all pairs of many hosts try to reach each other: no omission here, for the suite pairs
  // comes later.
  for (Finding& finding : diagnosis.checks)
    if (finding.status == FindingStatus::not_tested && finding.at.kind == SubjectKind::job)
      finding.code = ErrorCode{};
  take(run, "doctor", std::move(diagnosis.checks));
  for (Culprit& culprit : diagnosis.culprits) {
    if (culprit.kind == SubjectKind::link) {
      run.doubtful.push_back(std::move(culprit));
      continue;
    }
    if (culprit.kind == SubjectKind::host) run.out.try_emplace(culprit.host, "doctor");
    run.culprits.push_back(std::move(culprit));
  }
  return {};
}

Status check_inventory(CheckRun& run) {
  for (const Host& host : run.fit()) run.tally.plan(host, 1, "hosts");
  COLL_ASSIGN(const auto topologies, ask_topologies(run.launch_of(run.fit())));
  for (const HostTopology& host : topologies)
    if (host.view) run.tally.did(host.host, "view");
  const auto groups = group_hosts(topologies);
  take(run, "inventory", hosts_findings(topologies, groups, false));
  for (const HostTopology& host : topologies)
    if (host.view && std::ranges::any_of(host.view->graph.gpus, [&](int gpu) {
          return host.view->graph.nodes[size_t(gpu)].fabric_links > 0;
        }))
      run.nvlinked.insert(host.host);
  if (!groups.empty()) {
    const TopoView& usual = *topologies[size_t(groups[0][0])].view;
    if (!usual.graph.gpus.empty() || !usual.graph.nets.empty())
      run.machine = topology::write_xml(usual.system);
  }
  return {};
}

Status begin_counters(CheckRun& run) {
  COLL_ASSIGN(run.counters, ask_counters(run.launch_of(run.fit()), {}));
  return {};
}

// Asks all hosts again that were asked before, also those that have failed a suite since: their
// counters tell most.
Status check_counters(CheckRun& run) {
  if (run.counters.empty())
    return Error(ErrorCode::incomplete,
                 "no suite has loaded the hosts: there is nothing to compare");
  std::vector<Host> asked;
  for (const auto& [host, counters] : run.counters) {
    run.tally.plan(host, 1, "hosts");
    if (!counters.error) asked.push_back(host);
  }
  std::map<Host, HostCounters> now;
  if (!asked.empty()) {
    COLL_ASSIGN(now, ask_counters(run.launch_of(asked), run.counters));
  }
  for (const auto& [host, before] : run.counters) {
    const auto after = now.find(host);
    if (!before.error && after != now.end() && !after->second.error) {
      if (after->second.counters.looked_at > 0) run.tally.did(host, "counters");
      for (Finding& finding : counter_findings(host, before.counters, after->second.counters)) {
        if (finding.status == FindingStatus::fail) {
          run.out.try_emplace(host, "counters");
          run.culprits.push_back(
              {finding.at.kind, subject_name(finding.at), 1, finding.message, false, host});
        }
        run.findings.push_back(std::move(finding));
      }
      continue;
    }
    const auto& said = after != now.end() ? after->second.error : before.error;
    run.findings.push_back(host_finding("counters/read", host)
                               .leave_out(format("{}: its counters were not read{}{}", host,
                                                 said ? ": " : "", said ? said->message : "")));
  }
  COLL_ASSIGN(const NicChoice choice, nic_choice());
  for (auto& [host, read] : now)
    if (read.state.state) keep_chosen(*read.state.state, choice);
  for (Finding& finding : later_states(now, run.findings)) {
    if (finding.status == FindingStatus::fail) {
      run.out.try_emplace(finding.at.host, "counters");
      run.culprits.push_back(
          {finding.at.kind, subject_name(finding.at), 1, finding.message, false, finding.at.host});
    }
    run.findings.push_back(std::move(finding));
  }
  return {};
}

// The rows of `check` in THE table of options.

void add_check_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::measure, kCheck};
  std::vector<std::string> names;
  for (const Suite& suite : suites()) names.emplace_back(suite.name);
  add("level", one_of("LEVEL", {"quick", "standard", "full"}, "standard"), to<&CheckOptions::level>,
      "how much is measured: quick, standard or full",
      "quick: two collectives of up to 1 MiB. standard: all of up to 4 MiB. full: up to 16 MiB, "
      "and every path between NICs for longer. Each has one size more, for the line rate.");
  add("b,min-bytes", size("8", 1), to<&SizeRange::min_bytes>, "smallest size of collectives",
      "Given, it and --max-bytes are sizes of GPU memory over the network as well (gpu-net), in "
      "steps of 8, up to 1G.");
  add("e,max-bytes", size("chosen by level", 1), to<&SizeRange::max_bytes>,
      "largest size, in place of one at the line rate");
  add("only", repeatable(some_of("SUITES", names)),
      "these suites, comma separated (--list names them)");
  add("skip", repeatable(some_of("SUITES", names)), "not these suites");
  add("with", repeatable(some_of("WHAT", {"nccl"})), "the installed NCCL is tested, too (check)",
      "The suite nccl: which libnccl, plugins, tuners and NCCL_ variables each host has, its "
      "collectives beside ours, size by size, with every element checked, what it chose by its own "
      "log, and its RAS. Without it, and without --only nccl, no suite of any level uses NCCL.");
  add("list", flag(), "the suites, what each needs and is likely to take");
  add("budget", seconds("S", 0.001, 1e6), to<&CheckOptions::budget_s>,
      "no suite that is likely to end after S s (check)",
      "What is left out is named, and the exit code is 8.");
  add.in(kCheck | kDoctor)(
      "expect", file(), "what every host must have (gpus=8 rdma=8 driver=...)",
      "Words KEY=VALUE: gpus, rdma (ports that are active), cpus and memory (at least), driver and "
      "firmware (a * at the end stands for anything), mtu, speed (Gb/s, at least). Least GB/s that "
      "check's suite node measures: copy (in the host's memory), gpu_copy, to_gpu, from_gpu. "
      "[MODEL] begins what only hosts with such a GPU must have, whose name has that word in it; # "
      "begins a comment.");
  add.in(kDoctor)("record", directory(), "write what was read of each host's devices there",
                  "HOST.json each: how GPUs, NICs, PCI links and the host are set and what they "
                  "counted, for whoever is asked for help. DIR is made when it is missing.");
  add.in(kDoctor)("replay", directory(), "judge what --record has written, and ask no host",
                  "All HOST.json of DIR, beside each other, by the same rules; a file that cannot "
                  "be read is named, and the exit code is 8.");
  add("floors", file(), "least speeds of boards, before our own",
      "JSON as cmd/check/floors.json: GPU board, what (gpu_copy, to_gpu, from_gpu, peer_read; "
      "allreduce of so many gpus), GBps, source, date; without a board of a PCIe link (GTps, "
      "lanes), a port (Gbps), a memory channel (MTps). The first that fits counts.");
  add("soak", seconds("TIME", 1, 31622400), to<&CheckOptions::soak_s>,
      "the suites again and again for 90s, 15m, 2h, ... (check)",
      "A round that has begun goes on to its end. What fails in any round fails, with the number "
      "of rounds; a table has the worst values of each twelfth of the time. -o FILE.jsonl grows by "
      "a line for each round. A signal ends it with the verdict of what it has: 8 where nothing "
      "failed until then.");
  add("history", directory(), "keep the result in DIR, for report --trend DIR",
      "A file for each check, with what failed, was odd or was not tested, and the speeds. DIR is "
      "made when it is missing. Several checks may add to it at the same time. Where it cannot be "
      "written, that is said after the verdict, and a check that passed ends with 3.");
  add("history-keep", integer("N", 1, 1e6, "all"), to<&CheckOptions::history_keep>,
      "and only the newest N there",
      "The oldest checks are removed from DIR; files that check did not write there stay.");
  add("burn", number("MINUTES", "", 0.01, 100000, "2 with --level full"),
      "so long full load: GPUs, else cores",
      "The suite burn: products in all precisions and patterns in nearly all of the free "
      "memory, every bit looked at, on up to 256 hosts at once, with collectives between; power, "
      "clocks and temperatures as curves in a page (-o FILE.html). --level full and --only burn "
      "have the suite without it; in a soak each round burns so long. Clocks and power settings "
      "are never changed.");
  add("write-hosts", directory(), "write good-hosts.txt and bad-hosts.txt there",
      "good-hosts.txt is a hostfile. DIR is made when it is missing.");
  add("nagios", flag(), "one line, and exit codes 0 ok, 1 warning, 2 critical, 3 unknown");
}

}  // namespace collctl::cmd
