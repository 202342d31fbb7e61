// One GPU: rounds of products and sweeps of memory are queued, and each round is waited for with a
// deadline.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "cmd/burn/gpu_burner.h"
#include "cmd/burn/host_sums.h"
#include "cmd/burn/place.h"
#include "kernels/cuda/burn.h"
#include "kernels/cuda/launch.h"
#include "transport/device/device.h"

namespace collctl::cmd {

namespace {

using kernels::cuda::BurnFault;
using kernels::cuda::BurnFill;
using kernels::cuda::BurnKernels;
using kernels::cuda::BurnPattern;
using kernels::cuda::BurnProduct;
using kernels::cuda::BurnShape;
using kernels::cuda::BurnSweep;
using kernels::cuda::BurnType;
using kernels::cuda::kBurnTypes;
using transport::DeviceEvent;
using transport::DeviceMemory;
using transport::DevicePointer;
using transport::DeviceStream;
using transport::PinnedMemory;

constexpr uint32_t kBandRows = 128;
// Deep enough that a product takes long beside the time of its launch.
constexpr uint32_t kBurnSteps[kBurnTypes] = {256, 256, 2048, 256};
constexpr int kMostProducts = 4000;   // of a type in a round
constexpr double kRoundTimeout = 60;  // for a GPU that does not go on
constexpr uint64_t kLeastReserve = uint64_t(1) << 30;
constexpr uint64_t kLeastMemory = 1 << 20;
constexpr double kBurnReserve = 0.05;        // of the memory, left alone
constexpr size_t kMemoryFault = kBurnTypes;  // its place among the faults

BurnFill gpu_fill(uint64_t round) {
  return {BurnPattern(round % kernels::cuda::kBurnPatterns), uint32_t(round)};
}

class GpuBurner {
 public:
  GpuBurner(const BurnRun& run, int ordinal, BurnDevice& out)
      : run_(run), kernels_(*run.launcher->burn), ordinal_(ordinal), out_(out) {}

  Status burn(DevicePointer device) {
    device_ = std::move(device);
    COLL_TRY(prepare());
    if (!run_.spec.part.what.empty()) return show(run_.spec.part);
    // At least two rounds, however short the time: the first has nothing to be compared with.
    while (!run_.until.passed() || out_.rounds < 2) COLL_TRY(round());
    return finish();
  }

 private:
  struct Product {
    BurnType type;
    BurnShape shape;
    DeviceMemory a, b, c;
    int count = 1;  // in a round
    double us = 0;  // of all so far
    uint64_t done = 0;
  };

  Status check(int error, const char* what) const {
    if (error == 0) return {};
    return Error(ErrorCode::unavailable,
                 format("{}: {}: {}", device_->text(), what, run_.launcher->error_text(error)));
  }
  Status wait() const { return stream_.synchronize(Deadline::after_seconds(kRoundTimeout)); }
  static uint32_t* words(const DeviceMemory& memory) {
    return reinterpret_cast<uint32_t*>(memory.data());
  }
  BurnFault* fault_at(size_t i) const { return reinterpret_cast<BurnFault*>(faults_.data()) + i; }

  BurnShape shape_of(BurnType type) const {
    return {run_.rows, run_.columns, std::min(kBurnSteps[size_t(type)], run_.most_steps)};
  }
  BurnProduct product_of(const Product& p) const {
    return {.type = p.type,
            .shape = p.shape,
            .a = words(p.a),
            .b = words(p.b),
            .c = words(p.c),
            .number = uint32_t(out_.rounds),
            .fault = fault_at(size_t(p.type))};
  }

  Status prepare() {
    COLL_ASSIGN(stream_, DeviceStream::make(device_));
    for (DeviceEvent& event : events_) {
      COLL_ASSIGN(event, DeviceEvent::make(device_, true));
    }
    constexpr uint64_t kFaultBytes = sizeof(BurnFault) * (kBurnTypes + 1);
    COLL_ASSIGN(faults_, DeviceMemory::make(device_, kFaultBytes, false));
    COLL_ASSIGN(seen_, PinnedMemory::make(device_, 1 << 16));
    static_assert(kFaultBytes <= 1 << 16);
    const std::string& alone = run_.spec.part.what;
    for (int t = 0; t < kBurnTypes; ++t) {
      const auto type = BurnType(t);
      if (!alone.empty() && alone != kBurnNames[t]) continue;
      if (type == BurnType::fp8 && !run_.launcher->has_type(kernels::DataType::float8e4m3,
                                                            device_->facts().compute_capability))
        continue;
      COLL_TRY(add(type));
    }
    return alone.empty() ? take_memory() : Status();
  }

  Status add(BurnType type) {
    Product p{.type = type, .shape = shape_of(type), .a = {}, .b = {}, .c = {}};
    const auto make = [&](DeviceMemory& memory, uint64_t count) -> Status {
      COLL_ASSIGN(memory, DeviceMemory::make(device_, count * sizeof(uint32_t), false));
      return {};
    };
    const uint64_t a = kernels::cuda::burn_a_words(type, p.shape),
                   b = kernels::cuda::burn_b_words(type, p.shape),
                   c = kernels::cuda::burn_c_words(type, p.shape);
    COLL_TRY(make(p.a, a));
    COLL_TRY(make(p.b, b));
    COLL_TRY(make(p.c, c));
    COLL_TRY(device_->use());
    COLL_TRY(check(kernels_.inputs(type, kBurnSeed, words(p.a), a, stream_.get()), "burn inputs"));
    COLL_TRY(
        check(kernels_.inputs(type, kBurnSeed + 1, words(p.b), b, stream_.get()), "burn inputs"));
    BurnProduct first = product_of(p);
    first.flip_word = flip_word(p, true);
    COLL_TRY(check(kernels_.multiply(first, stream_.get()), "burn product"));
    const uint32_t bands = run_.rows / kBandRows;
    BurnWork& work = out_.works.emplace_back();
    work.what = kBurnNames[size_t(type)];
    COLL_TRY(hash(words(p.c), c / bands, bands, work.bands));
    COLL_TRY(compare_with_host(p));
    products_.push_back(std::move(p));
    return {};
  }

  Status hash(const uint32_t* from, uint64_t each, uint32_t count, std::vector<uint64_t>& to) {
    const uint64_t bytes = count * sizeof(uint64_t);
    COLL_ASSIGN(const DeviceMemory hashes, DeviceMemory::make(device_, bytes, false));
    auto* const at = reinterpret_cast<uint64_t*>(hashes.data());
    COLL_TRY(device_->use());
    COLL_TRY(check(kernels_.hash(from, each, count, at, stream_.get()), "burn hash"));
    COLL_TRY(stream_.copy(seen_.data(), at, bytes));
    COLL_TRY(wait());
    to.resize(count);
    std::memcpy(to.data(), seen_.data(), bytes);
    return {};
  }

  // The pieces of a part of the one product, in place of its bands.
  Status show(const BurnPart& part) {
    if (products_.empty())
      return Error(ErrorCode::unavailable,
                   format("{}: it has no products in {}", device_->text(), part.what));
    const Product& p = products_.front();
    const uint64_t all = kernels::cuda::burn_c_words(p.type, p.shape);
    if (part.words == 0 || part.words > all || part.from > all - part.words)
      return Error(ErrorCode::unavailable, format("a product in {} has {} words, not {} from {} on",
                                                  part.what, all, part.words, part.from));
    const uint64_t each = piece_words(part.words);
    const auto pieces = uint32_t(part.words / each);
    std::vector<uint64_t>& to = out_.works.front().bands;
    if (each > 1) return hash(words(p.c) + part.from, each, pieces, to);
    COLL_TRY(stream_.copy(seen_.data(), words(p.c) + part.from, pieces * sizeof(uint32_t)));
    COLL_TRY(wait());
    const auto* const got = reinterpret_cast<const uint32_t*>(seen_.data());
    to.assign(got, got + pieces);
    return {};
  }

  // Some sums, that the host makes as well.
  Status compare_with_host(const Product& p) {
    const std::vector<HostSum> sums = host_sums(p.type, p.shape);
    constexpr size_t kEach = sizeof(uint64_t);
    const bool wide = p.type == BurnType::fp64;
    for (size_t i = 0; i < sums.size(); ++i)
      COLL_TRY(stream_.copy(seen_.data() + i * kEach, words(p.c) + sums[i].word, wide ? 8 : 4));
    COLL_TRY(wait());
    BurnWrong wrong{
        .what = kBurnNames[size_t(p.type)], .against = "the host's arithmetic", .place = {}};
    for (size_t i = 0; i < sums.size(); ++i) {
      uint64_t found = 0;
      std::memcpy(&found, seen_.data() + i * kEach, wide ? 8 : 4);
      if (sums[i].is_near(found) || wrong.count++ > 0) continue;
      wrong.place = format("row {}, column {}", sums[i].row, sums[i].column);
      wrong.expected = sums[i].bits();
      wrong.found = found;
    }
    if (wrong.count > 0) out_.wrong.push_back(std::move(wrong));
    return {};
  }

  // All that is free but a reserve, in one piece; less where there is none.
  Status take_memory() {
    const auto reserve =
        std::max(kLeastReserve, uint64_t(double(device_->facts().memory_bytes) * kBurnReserve));
    const uint64_t free = device_->free_bytes();
    uint64_t bytes = free > reserve ? free - reserve : 0;
    if (run_.spec.most_memory > 0) bytes = std::min(bytes, run_.spec.most_memory);
    for (int tries = 0; tries < 4 && bytes >= kLeastMemory; ++tries, bytes -= bytes / 8) {
      auto memory = DeviceMemory::make(device_, bytes / 16 * 16, false);
      if (!memory && memory.error().code != ErrorCode::unavailable) return memory.error();
      if (!memory) continue;
      memory_ = std::move(*memory);
      break;
    }
    return {};  // without any: the report has 0 bytes
  }

  bool flips(const char* what) const {
    return run_.fault.device == ordinal_ && run_.fault.what == what &&
           (run_.fault.round == out_.rounds || run_.fault.round == 0);
  }
  // `first`: the first product of a round.
  uint64_t flip_word(const Product& p, bool first) const {
    return (first || run_.fault.round == 0) && flips(kBurnNames[size_t(p.type)])
               ? kernels::cuda::burn_c(p.type, p.shape, run_.rows / 3, run_.columns / 3)
               : kernels::cuda::kNoBurnWord;
  }

  Status sweep(bool last) {
    if (memory_.bytes() == 0) return {};
    const uint64_t packs = memory_.bytes() / 16;
    if (flips("memory") && !last) {
      constexpr uint64_t kWord = 4099;
      const uint32_t bad =
          kernels::cuda::burn_word(gpu_fill(out_.rounds - 1), kWord % (4 * packs)) ^ 1u << 13;
      std::memcpy(seen_.data() + (1 << 15), &bad, sizeof bad);
      COLL_TRY(
          stream_.copy(words(memory_) + kWord % (4 * packs), seen_.data() + (1 << 15), sizeof bad));
    }
    const BurnSweep sweep{.memory = words(memory_),
                          .packs = packs,
                          .compare = out_.rounds > 1 || last,
                          .write = !last,
                          .old = gpu_fill(out_.rounds - (last ? 0 : 1)),
                          .fresh = gpu_fill(out_.rounds),
                          .number = uint32_t(out_.rounds),
                          .fault = fault_at(kMemoryFault)};
    if (sweep.compare) ++out_.memory_passes;
    return check(kernels_.sweep(sweep, stream_.get()), "burn sweep");
  }

  Status round() {
    ++out_.rounds;
    COLL_TRY(device_->use());
    size_t event = 0;
    COLL_TRY(events_[event].record(stream_.get()));
    for (Product& p : products_) {
      BurnProduct launch = product_of(p);
      launch.compare = true;
      for (int i = 0; i < p.count; ++i) {
        launch.flip_word = flip_word(p, i == 0);
        COLL_TRY(check(kernels_.multiply(launch, stream_.get()), "burn product"));
      }
      COLL_TRY(events_[++event].record(stream_.get()));
    }
    COLL_TRY(sweep(false));
    COLL_TRY(look());
    for (size_t i = 0; i < products_.size(); ++i) {
      Product& p = products_[i];
      COLL_ASSIGN(const double us, events_[i + 1].us_since(events_[i]));
      if (out_.rounds > 1) {  // the first one warms up
        p.us += us;
        p.done += uint64_t(p.count);
      }
      out_.works[i].products += uint64_t(p.count);
      const double each = std::max(us / p.count, 1.0);
      p.count = int(std::clamp(run_.type_seconds * 1e6 / each, 1.0, double(kMostProducts)));
    }
    return {};
  }

  // Waits for what is queued, and takes what was found wrong so far.
  Status look() {
    COLL_TRY(stream_.copy(seen_.data(), faults_.data(), faults_.bytes()));
    COLL_TRY(wait());
    for (size_t i = 0; i <= kMemoryFault; ++i) {
      BurnFault fault;
      std::memcpy(&fault, seen_.data() + i * sizeof fault, sizeof fault);
      if (fault.count > 0) tell(i, fault);
    }
    return {};
  }

  void tell(size_t which, const BurnFault& fault) {
    const bool memory = which == kMemoryFault;
    const char* const what = memory ? "memory" : kBurnNames[which];
    const char* const against = memory ? "what was written" : "earlier rounds";
    for (BurnWrong& known : out_.wrong)
      if (known.what == what && known.against == against) {
        known.count = fault.count;
        return;
      }
    BurnWrong wrong{.what = what, .against = against, .round = fault.number, .place = {}};
    wrong.expected = fault.expected;
    wrong.found = fault.found;
    wrong.count = fault.count;
    if (memory) {
      wrong.place = format("byte {:#x}", fault.word * sizeof(uint32_t));
    } else {
      wrong.place = place_text(BurnType(which), shape_of(BurnType(which)), fault.word);
    }
    if (run_.progress)
      run_.progress(format("{}: wrong data: {}", device_->text(), wrong_text(wrong)));
    out_.wrong.push_back(std::move(wrong));
  }

  Status finish() {
    COLL_TRY(device_->use());
    COLL_TRY(sweep(true));
    COLL_TRY(look());
    out_.memory_bytes = memory_.bytes();
    for (size_t i = 0; i < products_.size(); ++i) {
      const Product& p = products_[i];
      if (p.us > 0)
        out_.works[i].TFLOPs =
            kernels::cuda::burn_flops(p.type, p.shape) * double(p.done) / p.us / 1e6;
    }
    return {};
  }

  const BurnRun& run_;
  const BurnKernels& kernels_;
  const int ordinal_;
  BurnDevice& out_;
  DevicePointer device_;
  DeviceStream stream_;
  std::array<DeviceEvent, kBurnTypes + 1> events_;
  DeviceMemory faults_, memory_;
  PinnedMemory seen_;
  std::vector<Product> products_;
};

}  // namespace

void burn_gpu(const BurnRun& run, int ordinal, const DevicePointer& device, BurnDevice& out) {
  auto burner = std::make_unique<GpuBurner>(run, ordinal, out);
  const Status status = burner->burn(device);
  if (status.ok()) return;
  out.why_not = status.error().chain();
  out.code = status.error().code;
  // Giving back memory of a GPU that does not go on would wait for it: the process's end does it.
  if (status.error().code == ErrorCode::unavailable) return;
  (void)burner.release();
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): kept, as the comment above says
}

}  // namespace collctl::cmd
