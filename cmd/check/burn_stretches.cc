// Stretches of a burn-in put together, and the part of them that a report keeps.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/burn.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostSamplesKept = 20'000;  // of all devices

// The same kind of product in a later stretch.
void add_work(BurnDevice& to, const BurnWork& work) {
  const auto known = std::ranges::find(to.works, work.what, &BurnWork::what);
  if (known == to.works.end()) {
    to.works.push_back(work);
    return;
  }
  if (known->bands != work.bands) {
    const auto part = std::ranges::mismatch(known->bands, work.bands).in1 - known->bands.begin();
    to.wrong.push_back(
        {.what = work.what,
         .against = kEarlierRun,
         .round = 0,
         .place = format("part {} of {} of its first product", part + 1, known->bands.size()),
         .count = 1});
  }
  const double all = double(known->products + work.products);
  if (all > 0)
    known->TFLOPs =
        (known->TFLOPs * double(known->products) + work.TFLOPs * double(work.products)) / all;
  known->products += work.products;
}

}  // namespace

bool is_core(const BurnDevice& device) {
  return !device.gpu && !device.works.empty();
}

void add_burnt(std::vector<BurntDevice>& all, const Host& host, const BurnReport& report,
               double since_s) {
  for (const BurnDevice& device : report.devices) {
    auto known = std::ranges::find_if(all, [&](const BurntDevice& one) {
      return one.host == host && one.device.device == device.device;
    });
    const bool fresh = known == all.end();
    if (fresh) {
      known = all.insert(all.end(), {host, device});
      known->device.samples.clear();
      known->device.events.clear();
    }
    BurnDevice& to = known->device;
    for (BurnSample sample : device.samples) {
      sample.at_s += since_s;
      to.samples.push_back(sample);
    }
    for (BurnEvent event : device.events) {
      event.at_s += since_s;
      add_event(to.events, event);
    }
    if (fresh) continue;
    for (BurnWrong wrong : device.wrong) {
      const auto same = std::ranges::find_if(to.wrong, [&](const BurnWrong& one) {
        return one.what == wrong.what && one.against == wrong.against;
      });
      wrong.round += to.rounds;
      if (same == to.wrong.end())
        to.wrong.push_back(std::move(wrong));
      else
        same->count += wrong.count;
    }
    for (const BurnWork& work : device.works) add_work(to, work);
    to.rounds += device.rounds;
    to.memory_bytes = std::max(to.memory_bytes, device.memory_bytes);
    to.memory_passes += device.memory_passes;
    if (!to.why_not.empty()) continue;
    to.why_not = device.why_not;
    to.code = device.code;
  }
}

std::vector<BurntDevice> kept_burnt(std::vector<BurntDevice> all) {
  std::erase_if(all, [](const BurntDevice& burnt) {
    return is_core(burnt.device) && burnt.device.wrong.empty();
  });
  const size_t most =
      std::clamp<size_t>(kMostSamplesKept / std::max<size_t>(all.size(), 1), 8, BurnCurve::kMost);
  for (BurntDevice& burnt : all) {
    for (BurnWork& work : burnt.device.works) work.bands.clear();
    auto& samples = burnt.device.samples;
    const size_t each = (samples.size() + most - 1) / most;
    if (each < 2) continue;
    std::vector<BurnSample> fewer;
    for (size_t i = 0; i < samples.size(); ++i)
      if (i % each == 0)
        fewer.push_back(samples[i]);
      else
        merge_sample(fewer.back(), samples[i], i % each);
    samples = std::move(fewer);
  }
  return all;
}

static void fields(Record& io, BurntDevice& burnt) {
  io.field("host", burnt.host);
  fields(io, burnt.device);
}

void write_burnt(JsonWriter& json, const std::vector<BurntDevice>& burnt) {
  Record io(json);
  io.field("burn", described(burnt));
}

void read_burnt(Record& io, std::vector<BurntDevice>& burnt) {
  constexpr size_t kMostDevices = 1 << 16;
  io.field("burn", burnt, kMostDevices);
}

}  // namespace collctl::cmd
