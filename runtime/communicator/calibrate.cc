#include "runtime/communicator/calibrate.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/format.h"
#include "base/user_cache.h"
#include "kernels/cpu/wait.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/cpu_places.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {
namespace {

// As kernels/cpu moves them: pieces of a bank, two in turn.
constexpr uint64_t kBankBytes = 256 << 10;
constexpr int kBanks = 2;
constexpr int kPairings = 64;  // exchanges of nothing that are timed as one
constexpr int kMostRepeats = 60, kLeastRepeats = 3;

struct alignas(64) Line {
  std::atomic<uint64_t> arrived{0};
};

// Two sides of an all-gather by one-shot: each stages its piece, arrives, and reads the other's.
class Exchange {
 public:
  explicit Exchange(int64_t until_ns) : until_ns_(until_ns) {
    for (Side& side : sides_) {
      side.input.assign(kCalibratedBytes.back(), 1);
      side.output.assign(2 * kCalibratedBytes.back(), 0);
      side.banks.assign(kBanks * kBankBytes, 0);
    }
  }

  // What `times` exchanges of `bytes` took side 0; nothing: the time is up. Both sides call it.
  std::optional<int64_t> run(int me, uint64_t bytes, int times) {
    if (!arrive(me)) return {};  // both are there
    const int64_t start = now_ns();
    for (int i = 0; i < times; ++i) {
      Side& own = sides_[me];
      if (bytes == 0 && !arrive(me)) return {};
      for (uint64_t at = 0; at < bytes; at += kBankBytes) {
        const uint64_t size = std::min(kBankBytes, bytes - at);
        std::memcpy(own.banks.data() + own.pieces % kBanks * kBankBytes, own.input.data() + at,
                    size);
        std::memcpy(own.output.data() + uint64_t(me) * bytes + at, own.input.data() + at, size);
        if (!arrive(me)) return {};
        std::memcpy(own.output.data() + uint64_t(1 - me) * bytes + at,
                    sides_[1 - me].banks.data() + (own.pieces - 1) % kBanks * kBankBytes, size);
      }
    }
    return now_ns() - start;
  }

 private:
  struct Side {
    std::vector<uint8_t> input, output, banks;
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
  bool whole(bool sizes) const { return empty_us > 0 && (!sizes || us[std::size(us) - 1] > 0); }
};

// The least of several runs, as others use the cores as well. Both sides take the same steps: what
// one of them cannot, ends by the time.
Timed time_side(Exchange& exchange, int me, bool sizes) {
  Timed timed;
  const auto least = [&](uint64_t bytes, int times, int repeats) -> double {
    int64_t best = 0;
    for (int i = 0; i < repeats; ++i) {
      const auto took = exchange.run(me, bytes, times);
      if (!took) return 0;
      if (best == 0 || *took < best) best = *took;
    }
    return double(best) / 1e3 / times;
  };
  timed.empty_us = least(0, kPairings, kMostRepeats);
  for (size_t i = 0; sizes && i < kCalibratedBytes.size(); ++i) {
    const uint64_t bytes = kCalibratedBytes[i];
    const int repeats = int(std::clamp<uint64_t>((4 << 20) / bytes, kLeastRepeats, 24));
    timed.us[i] = least(bytes, 1, repeats);
  }
  return timed;
}

Timed time_pair(int first, int second, bool sizes, int64_t until_ns) {
  Exchange exchange(until_ns);
  Timed timed;
  const auto side = [&](int me) {
    if (!run_on(me == 0 ? first : second)) return;  // the other one waits till its time is up
    const Timed mine = time_side(exchange, me, sizes);
    if (me == 0) timed = mine;
  };
  std::thread other(side, 1);
  std::thread one(side, 0);
  one.join();
  other.join();
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
