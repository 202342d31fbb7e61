#include "cmd/judge/baseline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/format.h"
#include "base/printable.h"
#include "cmd/judge/timings.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostMachines = 256, kMostTimings = 100'000;
constexpr double kLongestUs = 1e15;

// Options besides the operation: other choices are other measurements.
std::string asked_text(const BenchReport& report, const BenchRow& row) {
  const BenchSpec& spec = report.spec;
  std::string text;
  const auto add = [&](const std::string& part) { text += " " + part; };
  if (!spec.algorithms.empty()) add("--algo " + row.algorithm);
  if (!spec.protocols.empty()) add("--proto " + row.protocol);
  if (spec.channels != 0) add(format("--channels {}", spec.channels));
  if (!spec.transport.empty()) add("--transport " + spec.transport);
  if (!spec.net.empty()) add("--net " + spec.net);
  if (!spec.p2p.empty()) add("--p2p " + spec.p2p);
  if (spec.integrity) add("--integrity");
  if (spec.window) add("--window");
  if (spec.sync_each) add("--sync each");
  if (spec.cuda_graph != 0) add(format("--cuda-graph {}", spec.cuda_graph));
  if (spec.grouped != 1) add(format("--agg-iters {}", spec.grouped));
  if (spec.time_of != TimeOf::slowest) add(format("--average {}", int(spec.time_of)));
  if (spec.misalign != 0) add(format("--misalign {}", spec.misalign));
  return text;
}

std::string timing_name(const BenchReport& report, const BenchRow& row, const char* where) {
  std::string name = format("{} {} {}", name_of(report.spec.collective), human_bytes(row.bytes),
                            kernels::name_of(row.type));
  if (row.has_op) name += format(" {}", kernels::name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  return name + ", " + where + asked_text(report, row);
}

const BaselineMachine* machine_of(const Baseline& baseline, const std::string& signature) {
  for (const BaselineMachine& machine : baseline.machines)
    if (machine.signature == signature) return &machine;
  return nullptr;
}

}  // namespace

static void fields(Record& io, BaselineTiming& timing) {
  io.field("what", timing.what, 300);
  io.field("samples_us", timing.samples_us, kMostSamples, 0.0, kLongestUs);
}

static void fields(Record& io, BaselineMachine& machine) {
  io.field("signature", machine.signature);
  io.field("timings", machine.timings, kMostTimings);
}

static void fields(Record& io, Baseline& baseline) {
  std::string schema = "collctl.baseline/1";
  io.field("schema", schema);
  if (schema != "collctl.baseline/1") return io.fail("schema", "collctl.baseline/1");
  io.field("machines", baseline.machines, kMostMachines);
}

std::string machine_signature(const BenchHeader& header) {
  std::map<std::string, int> machines;
  for (const HostLine& host : header.hosts) {
    std::map<std::string, int> gpus;
    for (const GpuLine& gpu : host.gpus) ++gpus[gpu.name];
    std::string with;
    for (const auto& [name, count] : gpus)
      with += format("{}{} x {}", with.empty() ? "" : ", ", count, name);
    ++machines[format("{} on {}", host.ranks.size(), with.empty() ? host.machine : with)];
  }
  std::string text = format("{} {} rank{}:", header.ranks, header.device == "cpu" ? "CPU" : "GPU",
                            header.ranks == 1 ? "" : "s");
  for (const auto& [machine, count] : machines)
    text += count == 1 ? " " + machine + ";" : format(" {} hosts with {};", count, machine);
  std::set<std::string> vias;
  for (const LinkLine& link : header.links) vias.insert(link.via);
  std::string via;
  for (const std::string& each : vias) via += (via.empty() ? " via " : ", ") + each;
  text += via;
  if (text.back() == ';') text.pop_back();
  return base::printable(text);
}

Result<Baseline> parse_baseline(const std::string& file, const std::string& text) {
  auto read = base::record_of<Baseline>(text);
  if (!read) {
    if (read.error().hint.empty())
      read.error().hint = "a baseline is what a collective writes with --save-baseline";
    return std::move(read.error()).within(file);
  }
  read->file = base::printable(file);
  for (BaselineMachine& machine : read->machines) {
    machine.signature = base::printable(machine.signature);
    for (BaselineTiming& timing : machine.timings) timing.what = base::printable(timing.what);
  }
  return std::move(*read);
}

std::string baseline_json(const Baseline& baseline) {
  return base::indented_json(base::json_of(baseline));
}

double most_us(const std::vector<double>& samples) {
  if (samples.empty()) return 0;
  const double middle = median(samples);
  if (samples.size() < kFewSamples) return middle * (1 + kSlowerThanFew);
  std::vector<double> away;
  for (const double sample : samples) away.push_back(std::abs(sample - middle));
  return middle + std::max(kLeastSlower * middle, 3 * 1.4826 * median(away));
}

bool add_samples(Baseline& baseline, const BenchReport& report) {
  if (!report.header || report.rows.empty() || !report.faults.empty()) return false;
  for (const BenchRow& row : report.rows)
    for (const Timing* timing : {&row.out_of_place, &row.in_place})
      if (timing->measured && timing->wrong > 0) return false;
  const std::string signature = machine_signature(*report.header);
  auto machine = std::ranges::find_if(
      baseline.machines, [&](const auto& each) { return each.signature == signature; });
  if (machine == baseline.machines.end())
    machine = baseline.machines.insert(baseline.machines.end(), {signature, {}});
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      const std::string what = timing_name(report, row, where);
      auto known = std::ranges::find_if(machine->timings,
                                        [&](const auto& each) { return each.what == what; });
      if (known == machine->timings.end())
        known = machine->timings.insert(machine->timings.end(), {what, {}});
      known->samples_us.push_back(timing.time_us);
      if (known->samples_us.size() > kMostSamples)
        known->samples_us.erase(known->samples_us.begin());
    });
  return true;
}

void judge_baseline(const BenchReport& report, const Baseline& baseline,
                    std::vector<Finding>& findings) {
  constexpr const char* kName = "baseline";
  const auto missing = [&](std::string message) {
    findings.push_back(finding_of(kName, kNotMeasured, std::move(message)));
  };
  if (!report.header) return;
  const std::string signature = machine_signature(*report.header);
  const BaselineMachine* machine = machine_of(baseline, signature);
  if (machine == nullptr) {
    missing(format("not compared: {} has no timings of this machine ({}){}", baseline.file,
                   signature,
                   baseline.machines.empty()
                       ? ""
                       : format("; it has those of {}{}", baseline.machines[0].signature,
                                baseline.machines.size() == 1
                                    ? ""
                                    : format(" and {} more", baseline.machines.size() - 1))));
    return;
  }
  std::map<std::string, const BaselineTiming*> known;
  for (const BaselineTiming& timing : machine->timings) known[timing.what] = &timing;
  Finding all{.name = kName};
  all.basis = baseline.file;
  size_t without = 0;
  std::string first;
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      const std::string what = timing_name(report, row, where);
      const auto at = known.find(what);
      if (at == known.end() || at->second->samples_us.empty()) {
        if (without++ == 0) first = what;
        return;
      }
      const std::vector<double>& samples = at->second->samples_us;
      const double usual = median(samples), most = most_us(samples);
      ++all.of;
      if (timing.time_us <= most) {
        ++all.n;
        return;
      }
      Finding finding = finding_of(
          kName, kSlowerThanBaseline,
          format("{}: {} us, {:.0f} % above the {} us of {} run{} in {}; up to {:.0f} % is usual",
                 what, four_digits(timing.time_us), 100 * (timing.time_us / usual - 1),
                 four_digits(usual), samples.size(), samples.size() == 1 ? "" : "s", baseline.file,
                 100 * (most / usual - 1)));
      finding.measured = format("{:.6g}", timing.time_us);
      finding.expected = format("{:.6g}", most);
      finding.unit = "us";
      finding.basis = baseline.file;
      findings.push_back(std::move(finding));
    });
  if (without != 0)
    missing(format("{} of {} timings are not in {} and were not compared, the first is {}", without,
                   without + all.of, baseline.file, first));
  if (all.of != 0 && all.n == all.of) findings.push_back(std::move(all));
}

}  // namespace collctl::cmd
