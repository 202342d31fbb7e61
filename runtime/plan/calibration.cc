#include "runtime/plan/calibration.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/format.h"
#include "base/printable.h"

namespace collctl::runtime {
namespace {

constexpr const char *kTitle = "collctl-calibration 2", *kGpuTitle = "collctl-calibration-gpu 1";
constexpr float kLeastLineUs = 0.001F, kMostLineUs = 100;
constexpr std::string_view kMachine = "machine ";
constexpr float kLeastKernelUs = 0.05F, kMostKernelUs = 10'000;
constexpr float kLeastGbps = 0.01F, kMostGbps = 10'000;

void bound(float& value, float least, float most) {
  if (!(value >= least && value <= most)) value = 0;
}

template <size_t N>
std::string numbers(const float (&values)[N]) {
  std::string text;
  for (const float value : values) text += format(" {:.9g}", double(value));
  return text;
}

// "word N N ..." to its end.
template <size_t N>
bool read_line(std::istream& in, const char* word, float (&values)[N]) {
  std::string line, first, more;
  if (!std::getline(in, line)) return false;
  std::istringstream words(line);
  words.imbue(std::locale::classic());
  if (!(words >> first) || first != word) return false;
  for (float& value : values)
    if (!(words >> value)) return false;
  return !(words >> more);
}

}  // namespace

void sanitize(Calibration& c) {
  for (float& us : c.line_us) bound(us, kLeastLineUs, kMostLineUs);
  for (float& gbps : c.window_gbps) bound(gbps, kLeastGbps, kMostGbps);
  c.reserved = 0;
  bool whole = false;
  for (const float us : c.line_us) whole |= us > 0;
  for (const float gbps : c.window_gbps) whole &= gbps > 0;
  if (!whole) c = {};
}

std::string machine_signature(const base::Processors& p) {
  return format("{}, family {} model {}, {} sockets, {} cores, {} threads, {} nodes, cache {}",
                base::printable(p.model.name), p.model.family, p.model.model, p.packages, p.cores,
                p.online.size(), p.nodes.size(), p.cache_bytes);
}

std::string to_text(const Calibration& c, const std::string& signature) {
  return format("{}\nmachine {}\nline_us{}\nwindow_gbps{}\n", kTitle, signature, numbers(c.line_us),
                numbers(c.window_gbps));
}

std::optional<Calibration> calibration_of(const std::string& text, const std::string& signature) {
  std::istringstream in(text);
  std::string title, machine, more;
  Calibration read;
  if (!std::getline(in, title) || title != kTitle) return {};
  if (!std::getline(in, machine) || machine != std::string(kMachine) + signature) return {};
  if (!read_line(in, "line_us", read.line_us)) return {};
  if (!read_line(in, "window_gbps", read.window_gbps)) return {};
  if (std::getline(in, more)) return {};
  const Calibration said = read;
  sanitize(read);
  if (!read.measured() || !(read == said)) return {};
  return read;
}

bool GpuCalibration::measured() const {
  return std::ranges::any_of(base_us, [](float us) { return us > 0; });
}

void sanitize(GpuCalibration& c) {
  bound(c.launch_us, kLeastKernelUs, kMostKernelUs);
  for (size_t i = 0; i < std::size(c.base_us); ++i) {
    bound(c.base_us[i], kLeastKernelUs, kMostKernelUs);
    bound(c.gbps[i], kLeastGbps, kMostGbps);
    if (c.base_us[i] == 0 || c.gbps[i] == 0) c.base_us[i] = c.gbps[i] = 0;
  }
}

std::string to_text(const GpuCalibration& c, const std::string& signature) {
  const float launch_us[] = {c.launch_us};
  return format("{}\nmachine {}\nlaunch_us{}\nbase_us{}\ngbps{}\n", kGpuTitle, signature,
                numbers(launch_us), numbers(c.base_us), numbers(c.gbps));
}

std::optional<GpuCalibrationText> gpu_calibration_of(const std::string& text) {
  std::istringstream in(text);
  std::string title, machine, more;
  GpuCalibration read;
  if (!std::getline(in, title) || title != kGpuTitle) return {};
  if (!std::getline(in, machine) || !machine.starts_with(kMachine)) return {};
  float launch_us[1];
  if (!read_line(in, "launch_us", launch_us)) return {};
  read.launch_us = launch_us[0];
  if (!read_line(in, "base_us", read.base_us) || !read_line(in, "gbps", read.gbps)) return {};
  if (std::getline(in, more)) return {};
  const GpuCalibration said = read;
  sanitize(read);
  if (!read.measured() || !(read == said)) return {};
  return GpuCalibrationText{machine.substr(kMachine.size()), read};
}

std::string describe(const GpuCalibration& c) {
  std::string text;
  if (c.launch_us > 0) text = format("a launch {:.3g} us", double(c.launch_us));
  for (size_t i = 0; i < kCalibratedKernels.size(); ++i)
    if (c.base_us[i] > 0)
      text +=
          format("{}{} {} {:.3g} us, {:.3g} GB/s", text.empty() ? "" : "; ",
                 name_of(kCalibratedKernels[i].algorithm), name_of(kCalibratedKernels[i].protocol),
                 double(c.base_us[i]), double(c.gbps[i]));
  return text;
}

std::string describe(const Calibration& c) {
  std::string text;
  constexpr const char* kNear[] = {"within a cache", "within a socket", "between sockets"};
  for (size_t n = 0; n < std::size(kNear); ++n)
    if (c.line_us[n] > 0)
      text +=
          format("{}{:.3g} us {}", text.empty() ? "a flag " : ", ", double(c.line_us[n]), kNear[n]);
  for (size_t i = 0; i < kCalibratedBytes.size(); ++i)
    text += format("{}{:.3g}", i == 0 ? "; exchanges of 4K, 64K, 512K, 4M at " : ", ",
                   double(c.window_gbps[i]));
  return text + " GB/s";
}

}  // namespace collctl::runtime
