#include "cmd/gpu_test/bench.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace collctl::cmd {

using transport::Device;
using transport::DeviceEvent;
using transport::DeviceMemory;
using transport::DevicePointer;
using transport::DeviceStream;
using transport::PinnedMemory;

namespace {

constexpr uint64_t kPatternStep = 4096;             // the patterns of two GPUs are this far apart
constexpr uint64_t kLeastCopy = 16 * kPatternStep;  // of a copy
constexpr int kMostComparers = 4;                   // threads

// A chain in a GPU's memory: each place holds the address of the next, far from it.
constexpr uint64_t kChainBytes = uint64_t{2} << 20, kChainStep = 128;
constexpr uint64_t kPlaces = kChainBytes / kChainStep;
constexpr uint32_t kChainSteps = kPlaces / 4;  // so no place is loaded twice
// This generator visits all of 2^n places.
constexpr uint64_t place_after(uint64_t place) {
  return (place * 1597 + 51749) % kPlaces;
}
uint64_t address_in(const DeviceMemory& chain, uint64_t place) {
  return uint64_t(reinterpret_cast<uintptr_t>(chain.data() + place * kChainStep));
}

base::Deadline gpu_deadline() {
  return base::Deadline::after_seconds(kGpuTimeout);
}

}  // namespace

bool same_bytes(const uint8_t* a, const uint8_t* b, uint64_t bytes) {
  const auto threads = uint64_t(std::clamp(base::usable_cores(), 1, kMostComparers));
  const uint64_t each = (bytes + threads - 1) / threads;
  std::vector<int> differ(threads, 0);
  std::vector<std::thread> list;
  for (uint64_t t = 0; t < threads; ++t)
    list.emplace_back([&, t] {
      const uint64_t begin = std::min(bytes, each * t);
      differ[t] = std::memcmp(a + begin, b + begin, std::min(each, bytes - begin)) != 0;
    });
  for (std::thread& thread : list) thread.join();
  return std::ranges::count(differ, 0) == int64_t(threads);
}

const uint8_t* GpuBench::sent_by(int gpu) const {
  return pattern_.data() + uint64_t(gpu) * kPatternStep;
}

GpuPair& GpuBench::other_way(const GpuPair& pair) {
  const int a = pair.to, b = pair.from;
  return report_.pairs[size_t(a * (count() - 1) + b - (b > a ? 1 : 0))];
}

Status GpuBench::kernel_status(const Device& device, const char* what, int code) const {
  if (code == 0) return {};
  return Error(ErrorCode::unavailable,
               format("{} cannot {}: {}", device.text(), what, launcher_.error_text(code)));
}

Status GpuBench::open() {
  COLL_ASSIGN(const int gpus, Device::count());
  if (size_t(gpus) > kMostGpus)
    return Error(ErrorCode::unavailable,
                 format("{} GPUs are here, at most {} are measured together", gpus, kMostGpus),
                 "CUDA_VISIBLE_DEVICES chooses some of them");
  for (int ordinal = 0; ordinal < gpus; ++ordinal) {
    COLL_ASSIGN(const DevicePointer device, Device::open(ordinal));
    COLL_ASSIGN(DeviceStream stream, DeviceStream::make(device));
    COLL_ASSIGN(DeviceStream back, DeviceStream::make(device));
    const auto& facts = device->facts();
    report_.gpus.push_back({facts.bus_id, facts.name, base::pci_numa_node(facts.bus_id)});
    gpus_.push_back({device, std::move(stream), std::move(back)});
  }
  return {};
}

// Together a quarter of what is free on the fullest GPU, and a part of the host's memory.
Status GpuBench::choose_bytes() {
  constexpr uint64_t kPartOfHost = 32, kPartOfGpu = 4;
  uint64_t bytes = spec_.bytes;
  std::string short_of = "the host";
  if (const uint64_t memory = base::physical_memory(); memory > 0)
    bytes = std::min(bytes, memory / kPartOfHost);
  for (const BenchGpu& gpu : gpus_) {
    const uint64_t most = gpu.device->free_bytes() / kPartOfGpu / uint64_t(count() + 1);
    if (most < bytes) bytes = most, short_of = gpu.device->text();
  }
  if (bytes < kLeastCopy)
    return Error(ErrorCode::unavailable,
                 format("{} has too little free memory to measure copies", short_of),
                 "nvidia-smi and free -m show who has it");
  report_.bytes = bytes / kPatternStep * kPatternStep;
  return {};
}

Status GpuBench::fill() {
  const uint64_t bytes = report_.bytes;
  const DevicePointer& first = gpus_[0].device;
  COLL_ASSIGN(pattern_, PinnedMemory::make(first, bytes + uint64_t(count()) * kPatternStep));
  COLL_ASSIGN(back_, PinnedMemory::make(first, std::max(bytes, kChainBytes)));
  auto* words = reinterpret_cast<uint64_t*>(pattern_.data());
  uint64_t word = 0x9e3779b97f4a7c15;
  for (uint64_t i = 0; i < pattern_.bytes() / 8; ++i) {
    word = word * 6364136223846793005 + 1442695040888963407;
    words[i] = word ^ word >> 29;
  }
  for (int g = 0; g < count(); ++g) {
    BenchGpu& gpu = gpus_[size_t(g)];
    // As links have it where that goes: plain memory lets eight other GPUs in at most.
    const bool shared = gpu.device->facts().fd_handles;
    COLL_ASSIGN(gpu.source, DeviceMemory::make(gpu.device, bytes, shared));
    COLL_ASSIGN(gpu.landing, DeviceMemory::make(gpu.device, bytes * uint64_t(count()), shared));
    COLL_ASSIGN(gpu.chain, DeviceMemory::make(gpu.device, kChainBytes, shared));
    for (uint64_t place = 0; place < kPlaces; ++place) {
      const uint64_t next = address_in(gpu.chain, place_after(place));
      std::memcpy(back_.data() + place * kChainStep, &next, sizeof next);
    }
    COLL_TRY(gpu.stream.copy(gpu.source.data(), sent_by(g), bytes));
    COLL_TRY(gpu.stream.copy(gpu.chain.data(), back_.data(), kChainBytes));
    COLL_TRY(gpu.stream.synchronize(gpu_deadline()));
  }
  return {};
}

// Where one direction has no access neither is measured: such a copy would go through host memory
// and pass for one between GPUs.
Status GpuBench::find_peers() {
  for (int a = 0; a < count(); ++a)
    for (int b = 0; b < count(); ++b) {
      if (a == b) continue;
      GpuPair& pair = report_.pairs.emplace_back();
      pair.from = a;
      pair.to = b;
      for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
        const auto reaches = gpus_[size_t(one)].device->reaches(*gpus_[size_t(other)].device);
        if (reaches) continue;
        if (reaches.error().code != ErrorCode::unavailable) return reaches.error();
        if (pair.why.empty()) pair.why = reaches.error().message;
      }
    }
  for (const GpuPair& pair : report_.pairs)
    if (pair.why.empty())
      for (DeviceMemory* memory : {&to(pair).source, &to(pair).landing, &to(pair).chain})
        COLL_TRY(memory->allow(*from(pair).device));
  return {};
}

void GpuBench::find_kernels() {
  if (!launcher_.built) report_.no_kernels = launcher_.why_not;
  for (const BenchGpu& gpu : gpus_)
    if (const int capability = gpu.device->facts().compute_capability;
        report_.no_kernels.empty() && !launcher_.runs_on(capability))
      report_.no_kernels = format("this collctl has kernels for {}, and {} is {}",
                                  launcher_.architectures, gpu.device->text(), capability);
}

Lane GpuBench::copy_lane(const GpuPair& pair, const BenchGpu& by, const DeviceStream& stream) {
  uint8_t* target = place(pair);
  const uint8_t* source = from(pair).source.data();
  return {&by.device, &stream,
          [this, target, source, &stream] { return stream.copy(target, source, report_.bytes); }};
}

Lane GpuBench::kernel_lane(const GpuPair& pair, const BenchGpu& by) {
  uint8_t* target = place(pair);
  const uint8_t* source = from(pair).source.data();
  return {&by.device, &by.stream, [this, target, source, &by]() -> Status {
            COLL_TRY(by.device->use());
            const int code = launcher_.peer_copy(target, source, report_.bytes, by.stream.get());
            return kernel_status(*by.device, "copy by a kernel", code);
          }};
}

Status GpuBench::clear(const GpuPair& pair) {
  COLL_TRY(to(pair).stream.fill(place(pair), 0, report_.bytes));
  return to(pair).stream.synchronize(gpu_deadline());
}

Status GpuBench::compare(GpuPair& pair, PairFigure figure) {
  const DeviceStream& stream = to(pair).stream;
  COLL_TRY(stream.copy(back_.data(), place(pair), report_.bytes));
  COLL_TRY(stream.synchronize(gpu_deadline()));
  if (!same_bytes(back_.data(), sent_by(pair.from), report_.bytes))
    pair.wrong.emplace_back(words_of(figure).name);
  return {};
}

Status GpuBench::measure(GpuPair& pair, PairFigure figure, Lane lane) {
  COLL_TRY(clear(pair));
  COLL_ASSIGN(pair.figures[size_t(figure)], sum_of({std::move(lane)}));
  return compare(pair, figure);
}

Status GpuBench::measure_pair(GpuPair& pair) {
  const BenchGpu &sender = from(pair), &receiver = to(pair);
  COLL_TRY(measure(pair, PairFigure::write, copy_lane(pair, sender, sender.stream)));
  COLL_TRY(measure(pair, PairFigure::read, copy_lane(pair, receiver, receiver.stream)));
  if (pair.from < pair.to) COLL_TRY(measure_both(pair));
  if (!report_.no_kernels.empty()) return {};
  COLL_TRY(measure(pair, PairFigure::kernel_write, kernel_lane(pair, sender)));
  COLL_TRY(measure(pair, PairFigure::kernel_read, kernel_lane(pair, receiver)));
  return measure_latency(pair);
}

Status GpuBench::measure_both(GpuPair& pair) {
  GpuPair& other = other_way(pair);
  for (const GpuPair* each : {&pair, &other}) COLL_TRY(clear(*each));
  COLL_ASSIGN(const double sum, sum_of({copy_lane(pair, from(pair), from(pair).stream),
                                        copy_lane(other, from(other), from(other).back)}));
  for (GpuPair* each : {&pair, &other}) {
    each->figures[size_t(PairFigure::both)] = sum;
    COLL_TRY(compare(*each, PairFigure::both));
  }
  return {};
}

Status GpuBench::measure_latency(GpuPair& pair) {
  const BenchGpu& gpu = from(pair);
  const DeviceMemory& chain = to(pair).chain;
  COLL_ASSIGN(const DeviceEvent begin, DeviceEvent::make(gpu.device, true));
  COLL_ASSIGN(const DeviceEvent end, DeviceEvent::make(gpu.device, true));
  auto* last = reinterpret_cast<uint64_t*>(back_.data());
  const auto chase = [&](uint32_t steps) {
    return kernel_status(*gpu.device, "load by a kernel",
                         launcher_.peer_chase(chain.data(), steps, last, gpu.stream.get()));
  };
  COLL_TRY(gpu.device->use());
  COLL_TRY(chase(kChainSteps / 8));  // does not count
  COLL_TRY(begin.record(gpu.stream.get()));
  COLL_TRY(chase(kChainSteps));
  COLL_TRY(end.record(gpu.stream.get()));
  COLL_TRY(gpu.stream.synchronize(gpu_deadline()));
  COLL_ASSIGN(const double us, end.us_since(begin));
  pair.figures[size_t(PairFigure::latency)] = us / kChainSteps;
  uint64_t place = 0;
  for (uint32_t i = 0; i < kChainSteps; ++i) place = place_after(place);
  if (*last != address_in(chain, place))
    pair.wrong.emplace_back(words_of(PairFigure::latency).name);
  return {};
}

Result<double> GpuBench::sum_of(const std::vector<Lane>& lanes) {
  COLL_ASSIGN(const auto figures, race(lanes, report_.bytes, spec_.seconds));
  double sum = 0;
  for (const double figure : figures) sum += figure;
  return sum;
}

// Writes to all others, from all others, and all of these at once. For two GPUs this equals "both".
Status GpuBench::measure_many() {
  std::vector<GpuPair*> pairs;
  for (GpuPair& pair : report_.pairs)
    if (pair.why.empty()) pairs.push_back(&pair);
  if (pairs.size() < 3) return {};
  for (BenchGpu& gpu : gpus_)
    for (int other = 0; other < count(); ++other) {
      COLL_ASSIGN(DeviceStream stream, DeviceStream::make(gpu.device));
      gpu.to.push_back(std::move(stream));
    }
  std::vector<Lane> all;
  std::vector<std::vector<Lane>> out(gpus_.size()), in(gpus_.size());
  for (const GpuPair* pair : pairs) {
    COLL_TRY(clear(*pair));
    all.push_back(copy_lane(*pair, from(*pair), from(*pair).to[size_t(pair->to)]));
    out[size_t(pair->from)].push_back(all.back());
    in[size_t(pair->to)].push_back(all.back());
  }
  for (size_t g = 0; g < gpus_.size(); ++g) {
    if (out[g].empty()) continue;
    COLL_ASSIGN(report_.gpus[g].to_all, sum_of(out[g]));
    COLL_ASSIGN(report_.gpus[g].from_all, sum_of(in[g]));
  }
  COLL_ASSIGN(const auto figures, race(all, report_.bytes, spec_.seconds));
  for (size_t i = 0; i < pairs.size(); ++i) {
    report_.gpus[size_t(pairs[i]->from)].sends_of_all += figures[i];
    report_.gpus[size_t(pairs[i]->to)].gets_of_all += figures[i];
    COLL_TRY(compare(*pairs[i], PairFigure::write));
  }
  return {};
}

Status GpuBench::run() {
  COLL_TRY(open());
  if (gpus_.empty()) return {};
  COLL_TRY(choose_bytes());
  COLL_TRY(fill());
  find_kernels();
  COLL_TRY(find_peers());
  for (GpuPair& pair : report_.pairs)
    if (pair.why.empty())
      COLL_TRY_IN(measure_pair(pair),
                  format("{} -> {}", from(pair).device->text(), to(pair).device->text()));
  COLL_TRY_IN(measure_many(), "all GPUs at once");
  return measure_legs();
}

}  // namespace collctl::cmd
