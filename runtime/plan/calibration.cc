#include "runtime/plan/calibration.h"

#include <cstdio>
#include <iterator>
#include <sstream>

#include "base/format.h"
#include "base/printable.h"

namespace collctl::runtime {
namespace {

constexpr const char* kTitle = "collctl-calibration 1";
constexpr float kLeastLineUs = 0.001F, kMostLineUs = 100;
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
  if (!std::getline(in, machine) || machine != "machine " + signature) return {};
  if (!read_line(in, "line_us", read.line_us)) return {};
  if (!read_line(in, "window_gbps", read.window_gbps)) return {};
  if (std::getline(in, more)) return {};
  const Calibration said = read;
  sanitize(read);
  if (!read.measured() || !(read == said)) return {};
  return read;
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
