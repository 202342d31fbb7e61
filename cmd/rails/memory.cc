#include "cmd/rails/memory.h"

#include "cmd/rails/rails.h"

namespace collctl::runtime {
namespace {

constexpr size_t kMostHowText = 4096, kMostCurvePoints = 64;
constexpr double kMostSpeed = 1e9, kMostUs = 1e12;

void fields(base::Record& io, MemoryUse& use) {
  io.name("way", use.way, kMemoryWays, memory_way_word);
  io.field("how", use.how, kMostHowText);
}

void fields(base::Record& io, MemoryPoint& point) {
  io.field("bytes", point.bytes);
  io.field("there_GBps", point.there_GBps, 0, kMostSpeed);
  io.field("back_GBps", point.back_GBps, 0, kMostSpeed);
  if (io.has("both_GBps", point.both_GBps > 0))
    io.field("both_GBps", point.both_GBps, 0, 2 * kMostSpeed);
}

void flow_fields(base::Record& io, const char* name, MemoryFlow& flow) {
  io.object(name, [&] {
    io.name("end", flow.end, kRailEndCount, cmd::rail_word);
    io.field("GBps", flow.GBps, 0, kMostSpeed);
    io.field("both_GBps", flow.both_GBps, 0, kMostSpeed);
    io.field("text", flow.text, kMostHowText);
    io.object("out", [&] { fields(io, flow.out); });
    io.object("in", [&] { fields(io, flow.in); });
  });
}

}  // namespace

const char* memory_choice_word(MemoryChoice choice) {
  constexpr const char* kWords[] = {"host", "gpu", "both", "auto"};
  static_assert(std::size(kWords) == kMemoryChoices);
  return kWords[size_t(choice)];
}

const char* memory_way_word(MemoryWay way) {
  constexpr const char* kWords[] = {"host", "gpudirect", "refused", "by-rule", "staged"};
  static_assert(std::size(kWords) == kMemoryWays);
  return kWords[size_t(way)];
}

void fields(base::Record& io, MemoryTrial& trial) {
  constexpr int kMostHosts = 1 << 20;
  io.field("from", trial.from, 0, kMostHosts);
  io.field("to", trial.to, 0, kMostHosts);
  io.field("from_gpu", trial.from_gpu, kHostMemory, int(kMostRailGpus) - 1);
  io.field("to_gpu", trial.to_gpu, kHostMemory, int(kMostRailGpus) - 1);
  io.field("from_nic", trial.from_nic, 0, int(kMostRailNics) - 1);
  io.field("to_nic", trial.to_nic, 0, int(kMostRailNics) - 1);
  flow_fields(io, "there", trial.there);
  flow_fields(io, "back", trial.back);
  io.field("latency_us", trial.latency_us, 0, kMostUs);
  io.list(
      "curve", trial.curve,
      [&](MemoryPoint& point) { io.object("curve", [&] { fields(io, point); }); },
      kMostCurvePoints);
}

}  // namespace collctl::runtime
