// The burn-in of one host: cores here, GPUs of the fake driver with products by the host; what it
// reports, and results beside each other.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/format.h"
#include "cmd/burn/burn.h"
#include "cmd/burn/error_watch.h"
#include "cmd/burn/place.h"
#include "kernels/cuda/burn.h"
#include "tests/fake_drivers/nvml_control.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace burn_tests {

using namespace collctl;
using namespace collctl::cmd;
namespace cuda = kernels::cuda;

namespace {

// --- The kernels, slowly, in the order of the fake's streams.

void note(cuda::BurnFault* fault, uint32_t number, uint64_t word, uint32_t expected,
          uint32_t found) {
  if (fault->count++ > 0) return;
  fault->word = word;
  fault->number = number;
  fault->expected = expected;
  fault->found = found;
}

// The inputs are what the product says, not what memory has: the layout is the kernels' test's.
template <class Sum>
Sum sum_of(const cuda::BurnProduct& p, uint32_t row, uint32_t column) {
  Sum sum = 0;
  for (uint32_t k = 0; k < p.shape.steps * cuda::burn_unit(p.type).depth; ++k)
    sum += Sum(cuda::burn_value(p.type, 20, cuda::burn_a(p.type, p.shape, row, k)) *
               cuda::burn_value(p.type, 21, cuda::burn_b(p.type, p.shape, column, k)));
  return sum;
}

// One element, as the product has it; where it is compared the word that is flipped alone.
template <class Sum>
void element_of(const cuda::BurnProduct& p, uint32_t row, uint32_t column) {
  constexpr size_t kWords = sizeof(Sum) / 4;
  const Sum sum = sum_of<Sum>(p, row, column);
  const uint64_t at = cuda::burn_c(p.type, p.shape, row, column);
  uint32_t words[kWords];
  std::memcpy(words, &sum, sizeof sum);
  for (size_t w = 0; w < kWords; ++w) {
    if (at + w == p.flip_word) words[w] ^= 1u << 13;
    if (!p.compare)
      p.c[at + w] = words[w];
    else if (p.c[at + w] != words[w])
      note(p.fault, p.number, at + w, p.c[at + w], words[w]);
  }
}

// The first product of each kind counts, the later ones are it again: as a GPU would, faster.
template <class Sum>
void product_of(const cuda::BurnProduct& p) {
  if (p.compare && p.flip_word == cuda::kNoBurnWord) return;
  const cuda::BurnElement flipped = cuda::burn_element(p.type, p.shape, p.flip_word);
  if (p.compare) return element_of<Sum>(p, flipped.row, flipped.column);
  for (uint32_t row = 0; row < p.shape.rows; ++row)
    for (uint32_t column = 0; column < p.shape.columns; ++column) element_of<Sum>(p, row, column);
}

int multiply(const cuda::BurnProduct& p, void* stream) {
  return fake_cuda::enqueue(stream, [p] {
    p.type == cuda::BurnType::fp64 ? product_of<double>(p) : product_of<float>(p);
  });
}
int inputs(cuda::BurnType, uint64_t, uint32_t*, uint64_t, void*) {
  return 0;
}
int sweep(const cuda::BurnSweep& s, void* stream) {
  return fake_cuda::enqueue(stream, [s] {
    for (uint64_t w = 0; w < 4 * s.packs; ++w) {
      const uint32_t known = cuda::burn_word(s.old, w);
      if (s.compare && s.memory[w] != known) note(s.fault, s.number, w, known, s.memory[w]);
      if (s.write) s.memory[w] = cuda::burn_word(s.fresh, w);
    }
  });
}
int hash(const uint32_t* words, uint64_t band_words, uint32_t bands, uint64_t* hashes,
         void* stream) {
  return fake_cuda::enqueue(stream, [=] {
    for (uint64_t i = 0; i < band_words * bands; ++i)
      hashes[i / band_words] = hashes[i / band_words] * 31 + words[i];
  });
}
constexpr cuda::BurnKernels kHostKernels{inputs, multiply, sweep, hash};

const cuda::Launcher& burn_launcher() {
  static const cuda::Launcher table = [] {
    cuda::Launcher made = runtime::testing::host_launcher();
    made.burn = &kHostKernels;
    return made;
  }();
  return table;
}

BurnRun short_run() {
  return {.spec = {.seconds = 0, .most_memory = 1 << 20},
          .fault = {},
          .until = Deadline::after_seconds(0),
          .rows = 128,
          .columns = 256,
          .most_steps = 2,
          .type_seconds = 0,
          .launcher = &burn_launcher()};
}

std::vector<const BurnDevice*> pointers(const std::vector<BurnDevice>& devices) {
  std::vector<const BurnDevice*> list;
  for (const BurnDevice& device : devices) list.push_back(&device);
  return list;
}

BurnDevice with_bands(const std::string& model, std::vector<uint64_t> bands) {
  BurnDevice device{.device = "", .model = model};
  device.works.push_back({.what = "bf16", .bands = std::move(bands)});
  return device;
}

}  // namespace

TEST_CASE("burn-in: cores that are right say so, and their memory was looked at", "[burn]") {
  const auto devices = burn_cores(short_run());
  REQUIRE(devices);
  REQUIRE(devices->size() >= 2);
  CHECK((*devices)[0].device == "host");
  for (const BurnDevice& device : *devices) {
    CHECK(device.why_not.empty());
    CHECK(device.wrong.empty());
    CHECK(device.rounds >= 2);
    CHECK(device.memory_bytes > 0);
    CHECK(device.memory_passes >= 1);
  }
  CHECK((*devices)[1].works.at(0).TFLOPs > 0);
  CHECK(vote(pointers(*devices)).empty());
}

TEST_CASE("burn-in: a wrong bit of a core, or in its memory, is found", "[burn]") {
  const auto devices = burn_cores(short_run());
  REQUIRE(devices);
  const std::string name = (*devices)[1].device;
  const int core = std::stoi(name.substr(name.rfind(' ')));
  for (const char* what : {"core", "memory"}) {
    BurnRun run = short_run();
    run.fault = {.what = what, .device = core, .round = 2};
    const auto bad = burn_cores(run);
    REQUIRE(bad);
    for (const BurnDevice& device : *bad) {
      if (device.device != name) {
        CHECK(device.wrong.empty());
        continue;
      }
      REQUIRE(device.wrong.size() == 1);
      const BurnWrong& wrong = device.wrong[0];
      CHECK(wrong.what == what);
      CHECK(wrong.round == 2);
      CHECK(wrong.count == 1);
      CHECK(wrong.expected != wrong.found);
      if (std::string(what) == "memory") CHECK((wrong.expected ^ wrong.found) == 1u << 13);
    }
  }
}

TEST_CASE("burn-in: GPUs that are right, with curves and equal results", "[burn]") {
  runtime::testing::set_up_gpus(2);
  fake_nvml::set_throttle("0000:10:00.0", {0x4});
  const auto devices = burn_gpus(short_run());
  fake_nvml::set_throttle("0000:10:00.0", {});
  REQUIRE(devices);
  REQUIRE(devices->size() == 2);
  for (const BurnDevice& device : *devices) {
    INFO(device.why_not);
    CHECK(device.why_not.empty());
    CHECK(device.wrong.empty());
    CHECK(device.gpu);
    CHECK(device.rounds >= 2);
    CHECK(device.memory_bytes == 1 << 20);
    CHECK(device.memory_passes == device.rounds);
    REQUIRE(device.works.size() == cuda::kBurnTypes);
    for (const BurnWork& work : device.works) {
      CHECK(work.products >= 2);
      CHECK(work.bands.size() == 1);
      CHECK(work.bands[0] != 0);
    }
  }
  CHECK(vote(pointers(*devices)).empty());
  const BurnDevice& watched = (*devices)[(*devices)[0].device == "0000:10:00.0" ? 0 : 1];
  REQUIRE_FALSE(watched.samples.empty());
  CHECK(watched.samples[0].power_W == 650);
  CHECK(watched.samples[0].temperature_C == 71);
  CHECK(watched.samples[0].clock_MHz == 990);
  CHECK(watched.samples[0].throttled == 4);
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("burn-in: a wrong bit of a GPU is found with round, element and bit", "[burn]") {
  for (const char* what : {"bf16", "fp8", "fp32", "fp64", "memory"}) {
    runtime::testing::set_up_gpus(2);
    BurnRun run = short_run();
    run.fault = {.what = what, .device = 1, .round = 2};
    const auto devices = burn_gpus(run);
    REQUIRE(devices);
    CHECK((*devices)[0].wrong.empty());
    REQUIRE((*devices)[1].wrong.size() == 1);
    const BurnWrong& wrong = (*devices)[1].wrong[0];
    CHECK(wrong.what == what);
    CHECK(wrong.round == 2);
    CHECK(wrong.count == 1);
    CHECK((wrong.expected ^ wrong.found) == 1u << 13);
    if (std::string(what) == "bf16") CHECK(wrong.place == "row 42, column 85");
    if (std::string(what) == "memory") CHECK(wrong.place == "byte 0x400c");
  }
}

TEST_CASE("burn-in: a GPU that is wrong in each product is unlike its equals alone", "[burn]") {
  runtime::testing::set_up_gpus(3);
  BurnRun run = short_run();
  run.fault = {.what = "fp32", .device = 1, .round = 0};
  const auto devices = burn_gpus(run);
  REQUIRE(devices);
  for (const BurnDevice& device : *devices) CHECK(device.wrong.empty());
  const auto votes = vote(pointers(*devices));
  REQUIRE(votes.size() == 1);
  CHECK(votes[0].what == "fp32");
  CHECK(votes[0].odd == std::vector<size_t>{1});
}

TEST_CASE("burn-in: the first word in which two products differ is found", "[burn]") {
  int asked = 0;
  const auto found = [&](const std::string& kind, const BurnFaultSpec& fault) {
    asked = 0;
    const auto first = first_difference(
        kind,
        [&](const BurnPart& part) -> Result<std::array<std::vector<uint64_t>, 2>> {
          ++asked;
          runtime::testing::set_up_gpus(2);
          BurnRun run = short_run();
          run.spec.part = part;
          run.fault = fault;
          const auto devices = burn_gpus(run);
          REQUIRE(devices);
          std::array<std::vector<uint64_t>, 2> pieces;
          for (size_t i = 0; i < 2; ++i) {
            const BurnDevice& device = devices->at(i);
            CHECK(device.why_not.empty());
            CHECK(device.rounds == 0);
            REQUIRE(device.works.size() == 1);
            CHECK(device.works[0].what == kind);
            pieces[i] = device.works[0].bands;
          }
          return pieces;
        },
        128, 256);
    REQUIRE(first);
    return *first;
  };
  for (const std::string kind : {"bf16", "fp8", "fp32", "fp64"}) {
    const auto spot = found(kind, {.what = kind, .device = 1, .round = 0});
    REQUIRE(spot);
    CHECK(spot->place == (kind == "fp64" ? "row 42, column 85, low half" : "row 42, column 85"));
    CHECK((spot->one ^ spot->other) == 1u << 13);
    CHECK(asked == 2);
  }
  // It does not come again.
  CHECK_FALSE(found("bf16", {}));
  CHECK(asked == 1);
  const auto answer = [](std::vector<uint64_t> one, std::vector<uint64_t> other) {
    return first_difference(
        "bf16",
        [&](const BurnPart&) {
          return Result(std::array{one, other});
        },
        128, 256);
  };
  CHECK(answer({}, {}).error().code == ErrorCode::defect);
  CHECK(answer({1}, {2}).error().code == ErrorCode::defect);
  CHECK_FALSE(first_difference("core", nullptr));
}

TEST_CASE("burn-in: a part that a product does not have is refused", "[burn]") {
  constexpr uint64_t kWords = 128 * 256;
  for (const BurnPart& part : {BurnPart{"fp16", 0, 1}, BurnPart{"bf16", 0, 0},
                               BurnPart{"bf16", kWords, 1}, BurnPart{"bf16", 1, ~uint64_t{0}}}) {
    runtime::testing::set_up_gpus(1);
    BurnRun run = short_run();
    run.spec.part = part;
    const auto devices = burn_gpus(run);
    REQUIRE(devices);
    CHECK_FALSE(devices->at(0).why_not.empty());
    CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  }
}

TEST_CASE("burn-in: a GPU that cannot be burnt says why, one that fails is its own", "[burn]") {
  runtime::testing::set_up_gpus(2);
  BurnRun run = short_run();
  run.launcher = &runtime::testing::host_launcher();  // without kernels for it
  const auto none = burn_gpus(run);
  REQUIRE(none);
  for (const BurnDevice& device : *none) {
    CHECK(device.rounds == 0);
    CHECK(device.why_not == "this build has no kernels for it");
  }
  fake_cuda::fail("cuMemAlloc_v2", 2);
  const auto one = burn_gpus(short_run());
  REQUIRE(one);
  CHECK((*one)[0].why_not.empty() != (*one)[1].why_not.empty());
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
}

TEST_CASE("burn-in: faults that are asked for, and what is none", "[burn]") {
  CHECK(parse_burn_fault("", "a")->device == -1);
  const auto fault = parse_burn_fault("fp8:device=3:round=9", "a");
  REQUIRE(fault);
  CHECK(fault->what == "fp8");
  CHECK(fault->device == 3);
  CHECK(fault->round == 9);
  CHECK(parse_burn_fault("core:device=1:host=b", "a")->device == -1);
  CHECK(parse_burn_fault("core:device=1:host=b", "b")->device == 1);
  for (const char* text : {"core", "core:", "core:device=", "core:device=x", "core:device=-1",
                           "fp16:device=1", "core:device=1:step=2", "core:device=1:round=2x"})
    CHECK_FALSE(parse_burn_fault(text, "a"));
}

TEST_CASE("burn-in: the most agree, the others are odd", "[burn]") {
  const auto votes = [](const std::vector<BurnDevice>& devices) { return vote(pointers(devices)); };
  CHECK(votes({with_bands("A", {1, 2}), with_bands("A", {1, 2})}).empty());
  const auto odd =
      votes({with_bands("A", {1, 2}), with_bands("A", {1, 3}), with_bands("A", {1, 2})});
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].odd == std::vector<size_t>{1});
  CHECK(odd[0].band == 1);
  CHECK(odd[0].bands == 2);
  // With two, or two pairs, nobody knows; other models are not comparable.
  const auto two = votes({with_bands("A", {1}), with_bands("B", {7}), with_bands("A", {2})});
  REQUIRE(two.size() == 1);
  CHECK(two[0].odd.empty());
  CHECK(two[0].of == std::vector<size_t>{0, 2});
  CHECK(votes({with_bands("A", {1}), with_bands("A", {1}), with_bands("A", {2}),
               with_bands("A", {2})})[0]
            .odd.empty());
  // A result that is missing is none that is right.
  const auto missing =
      votes({with_bands("A", {1, 2}), with_bands("A", {1, 2}), with_bands("A", {1})});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].odd == std::vector<size_t>{2});
}

TEST_CASE("burn-in: a curve stays short and keeps its extremes", "[burn]") {
  BurnCurve curve;
  for (int i = 0; i < 10'000; ++i)
    curve.add({.at_s = double(i),
               .power_W = 100,
               .clock_MHz = i == 4321 ? 500.0 : 1000.0,
               .temperature_C = i == 1234 ? 90.0 : 60.0,
               .throttled = i == 777 ? 8u : 0u});
  CHECK(curve.samples().size() <= BurnCurve::kMost);
  CHECK(curve.samples().size() >= BurnCurve::kMost / 2);
  BurnSample all;
  double before = -1;
  for (const BurnSample& sample : curve.samples()) {
    CHECK(sample.at_s > before);
    CHECK(std::abs(sample.power_W - 100) < 1e-6);
    before = sample.at_s;
    merge_sample(all, sample, 1);
  }
  CHECK(all.clock_MHz == 500);
  CHECK(all.temperature_C == 90);
  CHECK(all.throttled == 8);
}

TEST_CASE("burn-in: counters that grow are told of their device, with the time", "[burn]") {
  using base::CounterOf;
  base::DeviceCounters now;
  std::vector<uint64_t> from;
  const auto set = [&](CounterOf kind, const char* device, const char* name, uint64_t value) {
    for (auto& each : now.counters)
      if (each.device == device && each.name == name) {
        each.value = value;
        return;
      }
    now.counters.push_back({kind, device, name, value});
  };
  now.log_end = 17;
  set(CounterOf::gpu, "0000:10:00.0", "ecc_corrected", 5);
  set(CounterOf::host, "tcp", "RetransSegs", 5);
  ErrorWatch watch([&](uint64_t log_from) {
    from.push_back(log_from);
    return now;
  });
  set(CounterOf::gpu, "0000:10:00.0", "ecc_corrected", 7);
  watch.look(1);  // too early
  CHECK(from == std::vector<uint64_t>{~uint64_t{0}});
  watch.look(5);
  set(CounterOf::gpu, "0000:10:00.0", "xid 79", 1);
  set(CounterOf::gpu, "0000:10:00.0", "throttled_thermal_ns", 1'000'000'000);
  set(CounterOf::pci, "0000:20:00.0", "aer_correctable BadTLP", 3);
  set(CounterOf::host, "tcp", "RetransSegs", 50);
  set(CounterOf::host, "mc0", "ce_count", 2);
  watch.look(6, true);
  watch.look(6.5, true);  // nothing grew
  CHECK(from == std::vector<uint64_t>{~uint64_t{0}, 17, 17, 17});
  std::vector<BurnDevice> devices(3);
  devices[0].device = "0000:10:00.0";
  devices[1].device = "0000:20:00.0";
  devices[2].device = "host";
  watch.give(devices);
  const auto text = [](const BurnDevice& device) {
    std::string all;
    for (const BurnEvent& e : device.events) all += format("{} +{} at {};", e.what, e.more, e.at_s);
    return all;
  };
  CHECK(text(devices[0]) == "ecc_corrected +2 at 5;xid 79 +1 at 6;");
  CHECK(text(devices[1]) == "aer_correctable BadTLP +3 at 6;");
  CHECK(text(devices[2]) == "ce_count +2 at 6;");
}

TEST_CASE("burn-in: a list of errors is bounded, and counts all", "[burn]") {
  std::vector<BurnEvent> events;
  for (int i = 0; i < 10'000; ++i) add_event(events, {double(i), "pcie_replays", 2});
  CHECK(events.size() == kMostBurnEvents);
  uint64_t sum = 0;
  for (const BurnEvent& event : events) sum += event.more;
  CHECK(sum == 20'000);
  add_event(events, {1e4, "xid 79", 1});
  CHECK(events.back().what == "xid 79");
  for (int i = 0; i < 10'000; ++i) add_event(events, {1e4, format("xid {}", i), 1});
  CHECK(events.size() == 2 * kMostBurnEvents);
}

TEST_CASE("burn-in: cores that drive GPUs do not burn, and not more than half", "[burn]") {
  // Two sockets of four cores with two threads each: 0-7 and their siblings 8-15.
  base::Processors machine;
  machine.nodes = {{.id = 0}, {.id = 1}};
  std::vector<int> all;
  for (int id = 0; id < 16; ++id) {
    machine.online.push_back({.id = id, .core = id % 8, .numa = id % 8 < 4 ? 0 : 1});
    all.push_back(id);
  }
  const CoreShare two = share_cores(all, machine, {1, 1}, 16);
  // One core for the rest, and two of the GPUs' node, whole.
  CHECK(two.drivers == std::vector<int>{0, 4, 5, 8, 12, 13});
  CHECK(two.burn.size() == 8);
  for (const int core : two.burn) CHECK(std::ranges::count(two.drivers, core) == 0);
  // Where its node has none left another's serves.
  const CoreShare five = share_cores(all, machine, {1, 1, 1, 1, 1}, 16);
  CHECK(five.drivers.size() == 12);
  CHECK(five.burn.size() == 4);
  // A quota; and too few for the GPUs.
  CHECK(share_cores(all, machine, {1}, 4).burn.size() == 2);
  CHECK(share_cores(all, machine, {1}, 2).burn.empty());
  CHECK(share_cores(all, machine, std::vector<int>(8, -1), 16).burn.empty());
  CHECK(share_cores({0, 1}, machine, {0}, 2).burn.empty());
  CHECK(share_cores({}, machine, {0}, 2).burn.empty());
  // Processors that the kernel does not show.
  CHECK(share_cores(all, {}, {-1}, 16).burn.size() == 8);
}

TEST_CASE("burn-in: cores and memory of the host burn beside its GPUs", "[burn]") {
  runtime::testing::set_up_gpus(1);
  BurnRun run = short_run();
  run.fault = {.what = "memory", .device = 0, .round = 2};
  int looks = 0;
  run.look = [&] { ++looks; };
  const auto devices = burn_gpus_and_cores(run);
  REQUIRE(devices);
  REQUIRE(devices->size() >= 2);
  CHECK((*devices)[0].gpu);
  CHECK((*devices)[0].wrong.size() == 1);
  CHECK((*devices)[1].device == kBurnHost);
  CHECK(looks > 0);
  for (size_t i = 1; i < devices->size(); ++i) CHECK((*devices)[i].wrong.empty());
  const bool few = (*devices)[1].why_not == "its GPUs need all of its cores";
  CHECK((few || (*devices)[1].rounds >= 2));
}

TEST_CASE("burn-in: a report survives, and nonsense is refused", "[burn]") {
  BurnReport report{.host = "n1", .seconds = 60, .devices = {}};
  BurnDevice& device = report.devices.emplace_back(with_bands("H200", {~uint64_t{0}, 1}));
  device.device = "0000:4b:00.0";
  device.gpu = true;
  device.rounds = 7;
  device.why_not = "it hangs";
  device.code = ErrorCode::deadline;
  device.samples = {{.at_s = 1, .power_W = 700, .throttled = 4}};
  device.events = {{3, "xid 79", 1}};
  device.wrong = {{"bf16", "earlier rounds", 3, "row 5, column 9", 0x3f808000, 0x3f80a000, 1}};
  const auto back = read_burn(burn_json(report));
  REQUIRE(back);
  CHECK(back->devices.at(0).works[0].bands == device.works[0].bands);
  CHECK(back->devices[0].code == ErrorCode::deadline);
  CHECK(back->devices[0].samples[0].throttled == 4);
  CHECK(back->devices[0].events.at(0).what == "xid 79");
  CHECK(back->devices[0].events[0].at_s == 3);
  CHECK(wrong_text(back->devices[0].wrong[0]) ==
        "bf16 in round 3, row 5, column 9: 0x3f80a000, not 0x3f808000 (bit 13; 1 word in all, "
        "beside earlier rounds)");
  for (const char* text : {"", "{}", "[]", "{\"schema\":\"collctl.burn-test/2\"}"})
    CHECK_FALSE(read_burn(text));
  const auto spec = BurnSpec::from_json(BurnSpec{5, 1 << 20, true, {"fp8", 7, 9}}.to_json());
  REQUIRE(spec);
  CHECK(spec->cores);
  CHECK(spec->most_memory == 1 << 20);
  CHECK(spec->part.what == "fp8");
  CHECK(spec->part.from == 7);
  CHECK(spec->part.words == 9);
}

}  // namespace burn_tests
