#include "runtime/communicator/calibrate.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/user_cache.h"
#include "kernels/contract/window.h"
#include "kernels/cpu/wait.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/cpu_places.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {
namespace {

// As kernels/cpu moves them: pieces of a bank, two in turn, and at places in turn.
constexpr uint64_t kBankBytes = 256 << 10;
constexpr int kBanks = 2;
constexpr int kPairings = 64;  // exchanges of nothing that are timed as one
constexpr int kMostRepeats = 60, kLeastRepeats = 6, kLeastAlone = 3;
// The most repeats for small pieces, more than the places they use in turn.
constexpr int kMostOfSize = 96;
// A side that others kept off its core for longer, and for a larger share, measured them as well.
constexpr int64_t kOffCoreNs = 5'000;
constexpr double kOffCoreShare = 0.05;

struct alignas(64) Line {
  std::atomic<uint64_t> arrived{0};
};

// By one side.
struct Run {
  int64_t ns = 0;
  int64_t off_core_ns = 0;  // of that
  bool alone() const {
    return off_core_ns <= std::max(kOffCoreNs, int64_t(double(ns) * kOffCoreShare));
  }
};

int64_t on_core_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

// Two sides of an all-gather by one-shot: each stages its piece, arrives, and reads the other's.
class Exchange {
 public:
  explicit Exchange(int64_t until_ns) : until_ns_(until_ns) {}

  // By the side itself, where it runs. All pages at once: one by one they may take all the time.
  bool set_up(int me) {
    constexpr size_t kMost = kCalibratedBytes.back();
    void* at = ::mmap(nullptr, 3 * kMost + kBanks * kBankBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return false;
    Side& side = sides_[me];
    side.memory = base::Mapping(at, 3 * kMost + kBanks * kBankBytes);
    side.input = static_cast<uint8_t*>(at);
    side.output = side.input + kMost;
    side.banks = side.output + 2 * kMost;
    return true;
  }

  // Times `times` exchanges of `bytes` for this side; nothing: the time is up. Both sides call it.
  std::optional<Run> run(int me, uint64_t bytes, int times) {
    if (!arrive(me)) return {};  // both are there
    const int64_t on_core = on_core_ns(), start = base::machine_ns();
    for (int i = 0; i < times; ++i) {
      Side& own = sides_[me];
      if (bytes == 0 && !arrive(me)) return {};
      for (uint64_t at = 0; at < bytes; at += kBankBytes) {
        const uint64_t size = std::min(kBankBytes, bytes - at);
        const uint64_t place = own.pieces % kBanks * kBankBytes +
                               kernels::place_in_bank(size, own.pieces / kBanks, kBankBytes, 2);
        std::memcpy(own.banks + place, own.input + at, size);
        std::memcpy(own.output + uint64_t(me) * bytes + at, own.input + at, size);
        if (!arrive(me)) return {};
        std::memcpy(own.output + uint64_t(1 - me) * bytes + at, sides_[1 - me].banks + place, size);
      }
    }
    const int64_t took = base::machine_ns() - start;
    return Run{took, took - (on_core_ns() - on_core)};
  }

 private:
  struct Side {
    base::Mapping memory;
    uint8_t *input = nullptr, *output = nullptr, *banks = nullptr;
    Line line;
    uint64_t pieces = 0;
  };
  // And waits for the other side.
  bool arrive(int me) {
    Side& own = sides_[me];
    own.line.arrived.store(++own.pieces, std::memory_order_release);
    const std::atomic<uint64_t>& other = sides_[1 - me].line.arrived;
    for (int polls = 1; other.load(std::memory_order_acquire) < own.pieces; ++polls) {
      kernels::pause_cpu();
      if (polls % 256 == 0 && now_ns() > until_ns_) return false;
    }
    return true;
  }

  const int64_t until_ns_;
  Side sides_[2];
};

bool run_on(int processor) {
  cpu_set_t wanted;
  if (processor >= CPU_SETSIZE) return false;
  CPU_ZERO(&wanted);
  CPU_SET(processor, &wanted);
  return ::sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

struct Timed {
  double empty_us = 0;                      // of one exchange of nothing
  double us[kCalibratedBytes.size()] = {};  // and of each size
  bool whole(bool sizes) const {
    return empty_us > 0 && (!sizes || std::find(std::begin(us), std::end(us), 0.0) == std::end(us));
  }
};

struct Step {
  uint64_t bytes;
  int times, repeats;
};
std::vector<Step> steps_of(bool sizes) {
  std::vector<Step> steps{{0, kPairings, kMostRepeats}};
  for (size_t i = 0; sizes && i < kCalibratedBytes.size(); ++i)
    steps.push_back(
        {kCalibratedBytes[i], 1,
         int(std::clamp<uint64_t>((4 << 20) / kCalibratedBytes[i], kLeastRepeats, kMostOfSize))});
  return steps;
}

// The least of the runs that both sides had to themselves. 0: those are too few, the first of which
// are those that touch the memory.
double least_us(std::span<const Run> one, std::span<const Run> other, int times) {
  int64_t best = 0;
  int alone = 0;
  for (size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    if (!one[i].alone() || !other[i].alone()) continue;
    if (++alone == 1 || one[i].ns < best) best = one[i].ns;
  }
  return alone < kLeastAlone ? 0 : double(best) / 1e3 / times;
}

Timed time_pair(int first, int second, bool sizes, int64_t until_ns) {
  Exchange exchange(until_ns);
  const std::vector<Step> steps = steps_of(sizes);
  std::vector<std::vector<Run>> runs[2];
  const auto side = [&](int me) {
    runs[me].resize(steps.size());
    // The other one waits till its time is up.
    if (!run_on(me == 0 ? first : second) || (sizes && !exchange.set_up(me))) return;
    for (size_t s = 0; s < steps.size(); ++s)
      for (int i = 0; i < steps[s].repeats; ++i) {
        const auto run = exchange.run(me, steps[s].bytes, steps[s].times);
        if (!run) return;
        runs[me][s].push_back(*run);
      }
  };
  std::thread other(side, 1);
  std::thread one(side, 0);
  one.join();
  other.join();
  Timed timed;
  timed.empty_us = least_us(runs[0][0], runs[1][0], steps[0].times);
  for (size_t s = 1; s < steps.size(); ++s)
    timed.us[s - 1] = least_us(runs[0][s], runs[1][s], steps[s].times);
  return timed;
}

constexpr const char *kCores = "calibration-", *kWindows = "calibration-gpu-";
std::string name_of_file(const char* prefix, const std::string& signature) {
  return format("{}{:016x}", prefix, hash_text(signature));
}

// `read`: std::optional<Measured>(text), nothing where it is of another machine.
template <class Measured, class Read>
Kept<Measured> kept_at(const std::string& name, const Read& read) {
  Kept<Measured> kept;
  kept.path = base::cache_path(name);
  const auto text = base::read_cached(name, kMostCalibrationText);
  if (!text) {
    kept.problem = text.error().message;
  } else if (*text) {
    if (const std::optional<Measured> found = read(**text))
      kept.found = *found;
    else
      kept.problem = kept.path + ": it is no calibration of this machine";
  }
  return kept;
}

}  // namespace

KeptCalibration kept_calibration(const base::Processors& processors) {
  const std::string signature = machine_signature(processors);
  return kept_at<Calibration>(name_of_file(kCores, signature), [&](const std::string& text) {
    return calibration_of(text, signature);
  });
}

Status keep_calibration(const Calibration& c, const base::Processors& processors) {
  const std::string signature = machine_signature(processors);
  return base::write_cached(name_of_file(kCores, signature), to_text(c, signature));
}

Status try_to_keep(const base::Processors& processors) {
  return base::try_cached(name_of_file(kCores, machine_signature(processors)),
                          kMostCalibrationText);
}

KeptWindows kept_windows(const std::string& signature) {
  return kept_at<GpuCalibration>(name_of_file(kWindows, signature),
                                 [&](const std::string& text) -> std::optional<GpuCalibration> {
                                   const auto read = gpu_calibration_of(text);
                                   if (!read || read->signature != signature) return {};
                                   return read->c;
                                 });
}

Status keep_windows(const GpuCalibration& c, const std::string& signature) {
  return base::write_cached(name_of_file(kWindows, signature), to_text(c, signature));
}

Status try_to_keep_windows(const std::string& signature) {
  return base::try_cached(name_of_file(kWindows, signature), kMostCalibrationText);
}

std::vector<GpuCalibrationText> all_kept_windows(const base::Processors& processors) {
  std::vector<GpuCalibrationText> all;
  const std::string machine = machine_signature(processors) + "; ";
  for (const std::string& name : base::cached_names(kWindows)) {
    const auto text = base::read_cached(name, kMostCalibrationText);
    if (!text || !*text) continue;
    if (auto read = gpu_calibration_of(**text); read && read->signature.starts_with(machine))
      all.push_back(std::move(*read));
  }
  return all;
}

Calibration calibrate(const base::Processors& processors, std::span<const int> allowed) {
  const int64_t until = now_ns() + kCalibrationNs;
  std::vector<CpuPlace> places;
  for (const int id : allowed) places.push_back(cpu_place(processors, {&id, 1}));
  Calibration found;
  bool sizes = true;  // of the nearest pair
  for (int near = 0; near < kNearnessCount; ++near) {
    // A core's two threads are no two cores.
    size_t b = 0;
    for (size_t i = 1; i < allowed.size() && b == 0; ++i) {
      const base::Processor *first = processors.find(allowed[0]), *at = processors.find(allowed[i]);
      if (first == nullptr || at == nullptr || first->core == at->core) continue;
      if (int(nearness(places[0], places[i])) == near) b = i;
    }
    if (b == 0) continue;
    const Timed timed = time_pair(allowed[0], allowed[b], sizes, until);
    if (!timed.whole(sizes)) break;
    found.line_us[near] = float(line_us_of(timed.empty_us));
    for (size_t i = 0; sizes && i < kCalibratedBytes.size(); ++i)
      found.window_gbps[i] =
          float(window_gbps_of(kCalibratedBytes[i], timed.us[i] - timed.empty_us));
    sizes = false;
  }
  sanitize(found);
  return found;
}

}  // namespace collctl::runtime
