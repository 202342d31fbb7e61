// The burn-in of all hosts, judged together.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "cmd/check/burn.h"
#include "cmd/check/counters.h"
#include "cmd/measure/gpu_clocks.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kLeastEquals = 3;  // of two nobody knows which is usual
constexpr uint64_t kTooHot = kThrottledByHeat | kThrottledByHeatHard | kThrottledByHardware;

constexpr const char* kBadGpu =
    "take it out of use; dcgmi diag -r 3 on this GPU, reset it (nvidia-smi --gpu-reset) and burn "
    "again: if it comes again have it exchanged";
constexpr const char* kBadCore =
    "take the host out of use; look at the processor's machine checks (rasdaemon, mcelog), at its "
    "microcode and BIOS settings, and have it exchanged if it comes again";
constexpr const char* kBadMemory = "test its memory (edac-util, memtester)";
constexpr const char* kHot =
    "look at fans, air flow and the inlet temperature (nvidia-smi -q -d TEMPERATURE,PERFORMANCE)";
constexpr const char* kBrake =
    "look at the power supplies and their cables (nvidia-smi -q -d POWER,PERFORMANCE)";
constexpr const char* kSlow =
    "compare clocks, power limits and temperatures (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE)";
constexpr const char* kUndecided =
    "burn more hosts with such devices, so that the odd one can be told; dcgmi diag -r 3 on each";

Subject subject_of(const BurntDevice& burnt) {
  Subject at{.kind = burnt.device.gpu ? SubjectKind::gpu : SubjectKind::host, .host = burnt.host};
  if (burnt.device.gpu) at.device = burnt.device.device;
  return at;
}

std::string name_of(const BurntDevice& burnt) {
  return format("{}: {}{}", burnt.host, burnt.device.gpu ? "GPU " : "", burnt.device.device);
}

BurnSample extremes(const BurnDevice& device) {
  BurnSample all;
  size_t weight = 0;
  for (const BurnSample& sample : device.samples) merge_sample(all, sample, weight++);
  return all;
}

const BurnWork& work_of(const BurnDevice& device, const std::string& what) {
  static const BurnWork none;
  const auto at = std::ranges::find(device.works, what, &BurnWork::what);
  return at == device.works.end() ? none : *at;
}

std::vector<BurnVote> vote_of(std::span<const BurntDevice> all) {
  std::vector<const BurnDevice*> devices;
  for (const BurntDevice& burnt : all) devices.push_back(&burnt.device);
  return vote(devices);
}

// "up to 74 C, memory 82 C, 689 W on average, 1755 MHz at least, throttled: power cap"
std::string conditions(const BurnDevice& device) {
  const BurnSample all = extremes(device);
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (all.temperature_C > 0) add(format("up to {:.0f} C", all.temperature_C));
  if (all.memory_C > 0) add(format("memory {:.0f} C", all.memory_C));
  if (all.power_W > 0) add(format("{:.0f} W on average", all.power_W));
  if (all.clock_MHz > 0) add(format("{:.0f} MHz at least", all.clock_MHz));
  if (all.throttled != 0) add("throttled: " + throttle_words(all.throttled));
  return text;
}

class BurnJudge {
 public:
  BurnJudge(std::span<const BurntDevice> all, double below,
            std::span<const BurnDifference> differences)
      : all_(all), below_(below), differences_(differences) {}

  BurnFindings judge() {
    for (const BurntDevice& burnt : all_) {
      for (const BurnWrong& wrong : burnt.device.wrong) judge_wrong(burnt, wrong);
      judge_whole(burnt);
      judge_heat(burnt);
      judge_errors(burnt);
    }
    judge_votes();
    judge_speeds();
    return std::move(found_);
  }

 private:
  Finding finding(const BurntDevice& burnt, const std::string& check) const {
    return {.name = "burn/" + check, .at = subject_of(burnt)};
  }

  // Once, however much speaks against it.
  void accuse(const BurntDevice& burnt, const Finding& finding) {
    const std::string name = subject_name(finding.at);
    if (std::ranges::any_of(found_.culprits, [&](const Culprit& known) {
          return known.host == burnt.host && known.name == name;
        }))
      return;
    found_.culprits.push_back({finding.at.kind, name, 1, finding.message, false, burnt.host});
  }

  // The first word that differs between one of these devices and another; empty: nobody has looked.
  std::string spot_text(std::span<const size_t> devices, const std::string& what) const {
    const auto at = std::ranges::find_if(differences_, [&](const BurnDifference& one) {
      return one.what == what && std::ranges::count(devices, one.device) > 0;
    });
    if (at == differences_.end()) return "";
    if (!at->why.empty()) return format("; the word that differs was not found: {}", at->why);
    if (!at->first) return "; computed again they are alike";
    return format("; computed again, {} is {:#x} on {} and {:#x} on {} (bit {})", at->first->place,
                  at->first->one, name_of(all_[at->device]), at->first->other,
                  name_of(all_[at->other]), bits_text(at->first->one ^ at->first->other));
  }

  void judge_wrong(const BurntDevice& burnt, const BurnWrong& wrong) {
    Finding bad = finding(burnt, wrong.what);
    const auto number = size_t(&burnt - all_.data());
    bad.fail(ErrorCode::bad_data,
             format("{}: wrong data: {}{}", name_of(burnt), wrong_text(wrong),
                    wrong.against == kEarlierRun ? spot_text({&number, 1}, wrong.what) : ""),
             burnt.device.gpu         ? kBadGpu
             : wrong.what == "memory" ? kBadMemory
                                      : kBadCore);
    accuse(burnt, bad);
    found_.findings.push_back(std::move(bad));
  }

  // A device that was not burnt is not tested; a GPU that stopped on the way is at fault.
  void judge_whole(const BurntDevice& burnt) {
    const BurnDevice& device = burnt.device;
    if (!device.gpu && !is_core(device) && device.why_not.empty()) return;
    Finding whole = finding(burnt, "whole");
    const std::string name = name_of(burnt);
    if (device.device == kBurnHost) {
      whole.name = "burn/cores";
      whole.warn(format("{}: not burnt beside the GPUs: {}", burnt.host, device.why_not));
      found_.findings.push_back(std::move(whole));
      return;
    }
    if (device.code == ErrorCode::lost || device.code == ErrorCode::deadline) {
      whole.fail(device.code,
                 format("{}: it stopped in round {}: {}", name, device.rounds, device.why_not),
                 kBadGpu);
      accuse(burnt, whole);
    } else if (!device.why_not.empty()) {
      whole.leave_out(format("{}: it was not burnt: {}", name, device.why_not));
    } else if (device.memory_bytes == 0) {
      whole.leave_out(format("{}: none of its memory was free to be looked at", name),
                      "burn when nothing else runs there");
    } else {
      whole.basis = format("{}, {} of memory", counted(device.rounds, "round"),
                           human_bytes(device.memory_bytes));
    }
    found_.findings.push_back(std::move(whole));
  }

  void judge_heat(const BurntDevice& burnt) {
    if (!burnt.device.gpu || burnt.device.samples.empty()) return;
    Finding heat = finding(burnt, "heat");
    const uint64_t throttled = extremes(burnt.device).throttled;
    heat.basis = conditions(burnt.device);
    if ((throttled & kTooHot) != 0)
      heat.fail(
          ErrorCode::failed,
          format("{}: it was slowed down by heat or hardware: {}", name_of(burnt), heat.basis),
          kHot);
    else if ((throttled & kThrottledByBrake) != 0)
      heat.fail(ErrorCode::failed,
                format("{}: it was slowed down by the power brake: {}", name_of(burnt), heat.basis),
                kBrake);
    if (heat.status == FindingStatus::fail) accuse(burnt, heat);
    found_.findings.push_back(std::move(heat));
  }

  // Its counters, as the suite `counters` judges those of all devices.
  void judge_errors(const BurntDevice& burnt) {
    std::map<std::string, uint64_t> sums;
    for (const BurnEvent& event : burnt.device.events) sums[event.what] += event.more;
    std::vector<CounterGrowth> grew;
    for (const auto& [what, more] : sums) {
      const auto kind = !burnt.device.gpu          ? base::CounterOf::host
                        : what.starts_with("aer_") ? base::CounterOf::pci
                                                   : base::CounterOf::gpu;
      grew.push_back({{kind, burnt.device.device, what, 0}, more});
    }
    for (Finding& told : growth_findings(burnt.host, grew)) {
      told.name.replace(0, told.name.find('/'), "burn");
      told.basis = "growth during the burn-in";
      told.at = subject_of(burnt);
      if (told.status == FindingStatus::fail) accuse(burnt, told);
      found_.findings.push_back(std::move(told));
    }
  }

  // Results of a model beside each other; the odd ones have wrong bits in every round.
  void judge_votes() {
    for (const BurnVote& each : vote_of(all_)) {
      for (const size_t odd : each.odd) {
        const BurntDevice& burnt = all_[odd];
        Finding bad = finding(burnt, each.what);
        bad.fail(ErrorCode::bad_data,
                 format("{}: wrong data: its product in {} is not that of {} of {} alike, from "
                        "part {} of {} on{}",
                        name_of(burnt), each.what, each.of.size() - each.odd.size(), each.of.size(),
                        each.band + 1, each.bands, spot_text({&odd, 1}, each.what)),
                 burnt.device.gpu ? kBadGpu : kBadCore);
        accuse(burnt, bad);
        found_.findings.push_back(std::move(bad));
      }
      if (!each.odd.empty()) continue;
      std::string names;
      for (const size_t one : each.of) names += (names.empty() ? "" : ", ") + name_of(all_[one]);
      found_.findings.push_back(Finding{.name = "burn/" + each.what}.fail(
          ErrorCode::bad_data,
          format("wrong data: the products in {} differ, and nobody can tell which is "
                 "right: {}{}",
                 each.what, names, spot_text(each.of, each.what)),
          kUndecided));
    }
  }

  void judge_speeds() {
    std::map<std::pair<std::string, std::string>, std::vector<double>> equals;
    std::map<Host, double> cores;  // TFLOP/s of all of a host
    for (const BurntDevice& burnt : all_)
      for (const BurnWork& work : burnt.device.works) {
        if (work.TFLOPs <= 0) continue;
        if (burnt.device.gpu)
          equals[{burnt.device.model, work.what}].push_back(work.TFLOPs);
        else
          cores[burnt.host] += work.TFLOPs;
      }
    for (const BurntDevice& burnt : all_)
      for (const BurnWork& work : burnt.device.works)
        if (burnt.device.gpu && work.TFLOPs > 0)
          judge_speed(burnt, work, equals[{burnt.device.model, work.what}]);
    for (const auto& [host, TFLOPs] : cores) {
      Finding speed = host_finding("burn/cores", host);
      speed.measured = format("{:.4g}", TFLOPs * 1e3);
      speed.unit = "GFLOP/s";
      found_.findings.push_back(std::move(speed));
    }
  }

  void judge_speed(const BurntDevice& burnt, const BurnWork& work,
                   const std::vector<double>& equals) {
    Finding speed = finding(burnt, work.what + " speed");
    speed.measured = format("{:.4g}", work.TFLOPs);
    speed.unit = "TFLOP/s";
    const double usual = median(equals), least = below_ * usual;
    if (equals.size() >= kLeastEquals && work.TFLOPs < least) {
      speed.expected = format("{:.4g}", least);
      speed.basis = format("{:g} of the median of {} GPUs", below_, equals.size());
      const std::string when = conditions(burnt.device);
      speed.fail(
          ErrorCode::failed,
          format("{}: {} at {:.4g} TFLOP/s, the median of its equals is {:.4g}{}", name_of(burnt),
                 work.what, work.TFLOPs, usual, when.empty() ? "" : "; " + when),
          kSlow);
      accuse(burnt, speed);
    }
    found_.findings.push_back(std::move(speed));
  }

  const std::span<const BurntDevice> all_;
  const double below_;
  const std::span<const BurnDifference> differences_;
  BurnFindings found_;
};

}  // namespace

std::vector<BurnDifference> differences_of(std::span<const BurntDevice> all) {
  std::vector<BurnDifference> list;
  const auto add = [&](size_t device, size_t other, const std::string& what) {
    const bool known = std::ranges::any_of(
        list, [&](const BurnDifference& one) { return one.device == device && one.what == what; });
    if (all[device].device.gpu && !known && list.size() < kMostDifferences)
      list.push_back({.device = device, .other = other, .what = what});
  };
  for (const BurnVote& each : vote_of(all)) {
    const auto of = [&](size_t device) { return work_of(all[device].device, each.what).bands; };
    const auto right = std::ranges::find_if(
        each.of, [&](size_t device) { return std::ranges::count(each.odd, device) == 0; });
    for (const size_t odd : each.odd) add(odd, *right, each.what);
    if (!each.odd.empty()) continue;
    const auto unlike =
        std::ranges::find_if(each.of, [&](size_t device) { return of(device) != of(*right); });
    add(*unlike, *right, each.what);
  }
  // One that is unlike itself in an earlier run, beside one that is as it was.
  for (size_t device = 0; device < all.size(); ++device)
    for (const BurnWrong& wrong : all[device].device.wrong) {
      if (wrong.against != kEarlierRun) continue;
      for (size_t other = 0; other < all.size(); ++other)
        if (other != device && all[other].device.model == all[device].device.model &&
            std::ranges::count(all[other].device.wrong, wrong.what, &BurnWrong::what) == 0 &&
            work_of(all[other].device, wrong.what).bands ==
                work_of(all[device].device, wrong.what).bands)
          add(device, other, wrong.what);
    }
  return list;
}

BurnFindings judge_burnt(std::span<const BurntDevice> all, double below,
                         std::span<const BurnDifference> differences) {
  return BurnJudge(all, below, differences).judge();
}

}  // namespace collctl::cmd
