// The report of a burn-in, as it travels and as a person reads it; and results beside each other.
#include <algorithm>
#include <bit>
#include <map>

#include "base/format.h"
#include "base/record.h"
#include "cmd/burn/burn.h"
#include "cmd/measure/fields.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

namespace {

constexpr size_t kMostBurnt = 8192, kMostWorks = 16, kMostBands = 4096, kMostWrong = 64;

}  // namespace

static void fields(Record& io, BurnSample& sample) {
  io.field("at_s", sample.at_s, 0, 1e9);
  const auto known = [&](const char* name, double& value) {
    if (io.has(name, value > 0)) io.field(name, value, 0, 1e6);
  };
  known("power_W", sample.power_W);
  known("clock_MHz", sample.clock_MHz);
  known("temperature_C", sample.temperature_C);
  known("memory_C", sample.memory_C);
  if (io.has("throttled", sample.throttled != 0)) io.field("throttled", sample.throttled);
}

static void fields(Record& io, BurnEvent& event) {
  io.field("at_s", event.at_s, 0, 1e9);
  io.field("what", event.what, 256);
  io.field("more", event.more);
}

static void fields(Record& io, BurnWrong& wrong) {
  io.field("what", wrong.what, 64);
  io.field("against", wrong.against, 64);
  io.field("round", wrong.round);
  io.field("place", wrong.place, 256);
  io.field("expected", wrong.expected);
  io.field("found", wrong.found);
  io.field("count", wrong.count);
}

static void fields(Record& io, BurnWork& work) {
  io.field("what", work.what, 64);
  io.field("TFLOPs", work.TFLOPs, 0, 1e9);
  io.field("products", work.products);
  io.field("bands", work.bands, kMostBands);
}

void fields(Record& io, BurnDevice& device) {
  io.field("device", device.device, 256);
  io.field("model", device.model, 256);
  io.field("gpu", device.gpu);
  io.unless_empty("why_not", device.why_not);
  int code = int(device.code);
  if (io.has("code", code != 0)) io.field("code", code, 0, 255);
  device.code = ErrorCode(code);
  io.field("rounds", device.rounds);
  io.field("memory_bytes", device.memory_bytes);
  io.field("memory_passes", device.memory_passes);
  io.field("works", device.works, kMostWorks);
  io.field("wrong", device.wrong, kMostWrong);
  io.field("samples", device.samples, 2 * BurnCurve::kMost);
  io.unless_empty("events", device.events, 4 * kMostBurnEvents);
}

static void fields(Record& io, BurnReport& report) {
  std::string schema = "collctl.burn-test/1";
  io.field("schema", schema);
  if (schema != "collctl.burn-test/1") io.fail("schema", "collctl.burn-test/1");
  Provenance made = provenance();
  fields(io, made);
  io.field("host", report.host, 256);
  io.field("seconds", report.seconds, 0, 1e9);
  io.field("devices", report.devices, kMostBurnt);
}

static void fields(Record& io, BurnPart& part) {
  io.field("what", part.what, 64);
  io.field("from", part.from);
  io.field("words", part.words);
}

static void fields(Record& io, BurnSpec& spec) {
  io.field("seconds", spec.seconds, 0, 1e9);
  io.field("most_memory", spec.most_memory);
  io.field("cores", spec.cores);
  io.field("part", spec.part);
}

std::string BurnSpec::to_json() const {
  return json_of(*this);
}

Result<BurnSpec> BurnSpec::from_json(const std::string& text) {
  return record_of<BurnSpec>(text);
}

std::string burn_json(const BurnReport& report) {
  return json_of(report);
}

Result<BurnReport> read_burn(const std::string& json) {
  return record_of<BurnReport>(json);
}

std::string bits_text(uint64_t different) {
  std::string bits;
  int more = 0;
  for (uint64_t left = different; left != 0; left &= left - 1) {
    if (bits.size() > 24)
      ++more;
    else
      bits += format("{}{}", bits.empty() ? "" : ", ", std::countr_zero(left));
  }
  return more > 0 ? format("{} and {} more", bits, more) : bits;
}

std::string wrong_text(const BurnWrong& wrong) {
  if (wrong.expected == wrong.found)
    return format("{} is not what it was in {}, {}", wrong.what, wrong.against, wrong.place);
  return format("{} in round {}, {}: {:#x}, not {:#x} (bit {}; {} in all, beside {})", wrong.what,
                wrong.round, wrong.place, wrong.found, wrong.expected,
                bits_text(wrong.expected ^ wrong.found), counted(wrong.count, "word"),
                wrong.against);
}

static std::string device_text(const BurnDevice& device) {
  std::string text = format("{:<14} {}", device.device, counted(device.rounds, "round"));
  for (const BurnWork& work : device.works)
    text += format(", {} {:.4g} TFLOP/s", work.what, work.TFLOPs);
  if (device.memory_bytes > 0)
    text += format(", {} of memory {}", human_bytes(device.memory_bytes),
                   device.memory_passes == 1 ? "once" : format("{} times", device.memory_passes));
  BurnSample all;
  for (const BurnSample& sample : device.samples) merge_sample(all, sample, 1);
  if (all.temperature_C > 0) text += format(", up to {:.0f} C", all.temperature_C);
  for (const BurnEvent& event : device.events)
    text += format(", {}: {} more at {:.0f} s", event.what, event.more, event.at_s);
  if (!device.why_not.empty()) text += ": not burnt: " + device.why_not;
  return text;
}

Document burn_document(const BurnReport& report, std::string json) {
  Facts shown;
  bool wrong = false, burnt = false;
  std::vector<const BurnDevice*> devices;
  for (const BurnDevice& device : report.devices) {
    devices.push_back(&device);
    wrong = wrong || !device.wrong.empty();
    burnt = burnt || (device.rounds > 0 && device.why_not.empty());
    shown.lines.push_back(device_text(device));
    for (const BurnWrong& word : device.wrong)
      shown.lines.push_back(format("{:<14} WRONG DATA: {}", device.device, wrong_text(word)));
  }
  for (const BurnVote& each : vote(devices)) {
    wrong = true;
    shown.lines.push_back(vote_text(each, devices));
  }
  Document document = document_with(std::move(json), "devices");
  document.title = "collctl burn-test: " + report.host;
  document.has_verdict = false;
  document.judged.exit_code = wrong   ? int(ErrorCode::bad_data)
                              : burnt ? 0
                                      : int(ErrorCode::incomplete);
  document.parts.push_back({std::move(shown)});
  return document;
}

void merge_sample(BurnSample& into, const BurnSample& next, size_t weight) {
  const auto least = [](double a, double b) { return a == 0 || (b > 0 && b < a) ? b : a; };
  const double w = double(weight);
  into.power_W = into.power_W == 0 ? next.power_W : (into.power_W * w + next.power_W) / (w + 1);
  into.clock_MHz = least(into.clock_MHz, next.clock_MHz);
  into.temperature_C = std::max(into.temperature_C, next.temperature_C);
  into.memory_C = std::max(into.memory_C, next.memory_C);
  into.throttled |= next.throttled;
}

void add_event(std::vector<BurnEvent>& events, const BurnEvent& event) {
  const auto same = std::find_if(events.rbegin(), events.rend(),
                                 [&](const BurnEvent& one) { return one.what == event.what; });
  if (events.size() >= kMostBurnEvents && same != events.rend())
    same->more += event.more;
  else if (events.size() < 2 * kMostBurnEvents)
    events.push_back(event);
}

void BurnCurve::add(const BurnSample& sample) {
  if (pending_ > 0 && pending_ < each_) {
    merge_sample(samples_.back(), sample, pending_++);
    return;
  }
  if (samples_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) {
      samples_[i] = samples_[2 * i];
      merge_sample(samples_[i], samples_[2 * i + 1], 1);
    }
    samples_.resize(kMost / 2);
    each_ *= 2;
  }
  samples_.push_back(sample);
  pending_ = 1;
}

namespace {

// One kind of product of one model.
std::optional<BurnVote> vote_on(const std::string& what,
                                const std::vector<std::pair<size_t, const BurnWork*>>& all) {
  BurnVote result;
  result.what = what;
  for (const auto& [device, work] : all) {
    result.of.push_back(device);
    result.bands = std::max(result.bands, work->bands.size());
  }
  bool differ = false, undecided = false;
  for (size_t band = 0; band < result.bands; ++band) {
    std::map<std::optional<uint64_t>, size_t> counts;
    const auto of = [band](const BurnWork& work) {
      return band < work.bands.size() ? std::optional(work.bands[band]) : std::nullopt;
    };
    for (const auto& [device, work] : all) ++counts[of(*work)];
    if (counts.size() == 1) continue;
    if (!differ) result.band = band;
    differ = true;
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (2 * most->second <= all.size()) {
      undecided = true;
      continue;
    }
    for (const auto& [device, work] : all)
      if (of(*work) != most->first &&
          std::find(result.odd.begin(), result.odd.end(), device) == result.odd.end())
        result.odd.push_back(device);
  }
  if (!differ) return std::nullopt;
  if (undecided) result.odd.clear();
  std::sort(result.odd.begin(), result.odd.end());
  return result;
}

}  // namespace

std::vector<BurnVote> vote(std::span<const BurnDevice* const> devices) {
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<size_t, const BurnWork*>>>
      groups;  // by model and kind of product
  for (size_t d = 0; d < devices.size(); ++d)
    for (const BurnWork& work : devices[d]->works)
      if (!work.bands.empty()) groups[{devices[d]->model, work.what}].emplace_back(d, &work);
  std::vector<BurnVote> votes;
  for (const auto& [name, all] : groups)
    if (auto result = vote_on(name.second, all)) votes.push_back(std::move(*result));
  return votes;
}

std::string vote_text(const BurnVote& vote, std::span<const BurnDevice* const> devices) {
  const bool told = !vote.odd.empty();
  std::string names;
  for (const size_t device : told ? vote.odd : vote.of)
    names += (names.empty() ? "" : ", ") + devices[device]->device;
  const std::string where = format("from part {} of {} on", vote.band + 1, vote.bands);
  return told ? format("{} of {} is not that of the {} others, {}", vote.what, names,
                       vote.of.size() - vote.odd.size(), where)
              : format("{} of {} differ, {}; nobody can tell which is right", vote.what, names,
                       where);
}

}  // namespace collctl::cmd
