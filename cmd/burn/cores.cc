// Cores of this host: chains in their vector units, whose bits are the same in every round and on
// every core, and patterns in a share of memory each.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_heat.h"
#include "base/host_limits.h"
#include "base/numa.h"
#include "base/processors.h"
#include "base/wait.h"
#include "cmd/burn/burn.h"
#include "kernels/cpu/burn.h"
#include "kernels/cuda/burn.h"

namespace collctl::cmd {

namespace {

constexpr uint64_t kCoreSteps = 50'000;          // of a block of chains: a millisecond
constexpr int kCoreBlocks = 8;                   // in a round
constexpr uint64_t kCorePieceWords = 4u << 18;   // of memory in a round: 4 MiB
constexpr uint64_t kLeastCoreShare = 64u << 10;  // of a core
constexpr double kCoreSampleSeconds = 1, kCoreNapSeconds = 0.05;

kernels::cuda::BurnFill core_fill(uint64_t pass) {
  return {kernels::cuda::BurnPattern(pass % kernels::cuda::kBurnPatterns), uint32_t(pass)};
}

uint64_t core_hash(const kernels::CoreBurn& burn) {
  uint64_t hash = 0;
  for (int i = 0; i < burn.count; ++i)
    hash = (hash ^ burn.bits[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

class CoreBurner {
 public:
  CoreBurner(int core, uint64_t bytes, const BurnFaultSpec& fault) : core_(core), fault_(fault) {
    out_.device = format("core {}", core);
    out_.model = base::host_processors().model.name;
    words_ = bytes / sizeof(uint32_t);
  }

  void run(Deadline until) {
    if (!base::stay_on({&core_, 1})) out_.device = format("thread {}", core_);
    memory_.reset(new (std::nothrow) uint32_t[words_]);
    if (memory_ == nullptr) {
      out_.why_not = format("no memory of {} bytes", words_ * sizeof(uint32_t));
      return;
    }
    const kernels::CoreBurn first = kernels::burn_core(kCoreSteps);
    BurnWork& work = out_.works.emplace_back();
    work.what = "core";
    work.bands = {core_hash(first)};
    int64_t busy_ns = 0;
    // At least two rounds, however short the time.
    while (!until.passed() || out_.rounds < 2) {
      ++out_.rounds;
      const int64_t began = now_ns();
      for (int b = 0; b < kCoreBlocks; ++b) {
        compare(first, kernels::burn_core(kCoreSteps, b == 0 && flips("core")));
        ++work.products;
      }
      busy_ns += now_ns() - began;
      sweep();
    }
    work.TFLOPs = kernels::burn_core_flops(kCoreSteps) * double(work.products) /
                  (double(std::max<int64_t>(busy_ns, 1)) / 1e9) / 1e12;
    sweep_again();
    memory_.reset();
  }
  BurnDevice take() { return std::move(out_); }

 private:
  bool flips(const char* what) const {
    return fault_.device == core_ && fault_.what == what && out_.rounds == fault_.round;
  }

  BurnWrong& wrong_of(const char* what, const char* against) {
    for (BurnWrong& wrong : out_.wrong)
      if (wrong.what == what) return wrong;
    return out_.wrong.emplace_back(BurnWrong{.what = what, .against = against, .place = {}});
  }

  void note(BurnWrong& wrong, const std::string& place, uint64_t expected, uint64_t found) {
    if (wrong.count++ > 0) return;
    wrong.round = out_.rounds;
    wrong.place = place;
    wrong.expected = expected;
    wrong.found = found;
  }

  void compare(const kernels::CoreBurn& first, const kernels::CoreBurn& now) {
    for (int i = 0; i < first.count; ++i)
      if (now.bits[i] != first.bits[i])
        note(wrong_of("core", "earlier rounds"), format("number {}", i), first.bits[i],
             now.bits[i]);
  }

  // Volatile: it is read although this thread has written it.
  volatile uint32_t& word_at(uint64_t w) { return memory_[w]; }

  void expect(const kernels::cuda::BurnFill& fill, uint64_t from, uint64_t to) {
    for (uint64_t w = from; w < to; ++w)
      if (const uint32_t found = word_at(w), known = kernels::cuda::burn_word(fill, w);
          found != known)
        note(wrong_of("memory", "what was written"), format("byte {:#x}", w * sizeof known), known,
             found);
  }

  // The next piece: what the pass before wrote is looked at, and what this one has is written.
  void sweep() {
    if (at_ == 0) ++pass_;
    const uint64_t end = std::min(at_ + kCorePieceWords, words_);
    if (pass_ > 1) expect(core_fill(pass_ - 1), at_, end);
    const kernels::cuda::BurnFill fresh = core_fill(pass_);
    for (uint64_t w = at_; w < end; ++w) word_at(w) = kernels::cuda::burn_word(fresh, w);
    if (flips("memory")) word_at(at_) = word_at(at_) ^ 1u << 13;
    at_ = end == words_ ? 0 : end;
  }

  // The last that was written, so that all of it is looked at.
  void sweep_again() {
    const uint64_t end = at_ == 0 ? words_ : at_;
    expect(core_fill(pass_), 0, end);
    if (pass_ > 1) expect(core_fill(pass_ - 1), end, words_);
    out_.memory_bytes = (pass_ > 1 ? words_ : end) * sizeof(uint32_t);
    out_.memory_passes = pass_;
  }

  const int core_;
  const BurnFaultSpec fault_;
  BurnDevice out_;
  std::unique_ptr<uint32_t[]> memory_;
  uint64_t words_ = 0, at_ = 0, pass_ = 0;
};

}  // namespace

Result<std::vector<BurnDevice>> burn_cores(const BurnRun& run) {
  std::vector<int> cores = run.cores.empty() ? base::affinity_cores() : run.cores;
  // A quota that is less than the cores: more threads would only wait for each other.
  if (const auto most = size_t(base::usable_cores()); cores.size() > most) cores.resize(most);
  const uint64_t available = base::available_memory();
  uint64_t all = uint64_t(double(available) * run.memory_share);
  if (run.spec.most_memory > 0) all = std::min(all, run.spec.most_memory);
  const uint64_t share = std::max(all / cores.size() / 4096 * 4096, kLeastCoreShare);
  std::vector<CoreBurner> burners;
  for (const int core : cores) burners.emplace_back(core, share, run.fault);
  std::atomic<size_t> over = 0;
  std::vector<std::thread> threads;
  for (CoreBurner& burner : burners)
    threads.emplace_back([&] {
      burner.run(run.until);
      ++over;
    });
  BurnDevice host;
  host.device = kBurnHost;
  host.model = base::host_processors().model.name;
  BurnCurve curve;
  const int64_t began = now_ns();
  while (over < threads.size()) {
    const base::HostHeat heat = base::host_heat();
    if (heat.temperature_C > 0 || heat.clock_MHz > 0)
      curve.add({.at_s = base::seconds_since(began),
                 .clock_MHz = heat.clock_MHz,
                 .temperature_C = heat.temperature_C});
    if (run.look) run.look();
    const auto next = Deadline::after_seconds(kCoreSampleSeconds);
    while (over < threads.size() && !next.passed())
      base::sleep_until(Deadline::after_seconds(kCoreNapSeconds).earlier(next));
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<BurnDevice> devices(1);  // the host, below
  for (CoreBurner& burner : burners) devices.push_back(burner.take());
  host.rounds = ~uint64_t{0};
  for (size_t i = 1; i < devices.size(); ++i) {
    host.rounds = std::min(host.rounds, devices[i].rounds);
    host.memory_bytes += devices[i].memory_bytes;
    host.memory_passes = std::max(host.memory_passes, devices[i].memory_passes);
  }
  host.samples = curve.samples();
  devices[0] = std::move(host);
  return devices;
}

}  // namespace collctl::cmd
