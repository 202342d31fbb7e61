#include "base/env.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/format.h"

namespace collctl::base {
namespace {

constexpr Knob kKnobs[] = {
#define COLL_KNOB(id, name, field, kind, value, low, high, flags, help) \
  {KnobId::id, name, field, KnobKind::kind, value, low, high, flags, help},
#include "base/knobs.inc"
#undef COLL_KNOB
};

std::map<std::string, std::string, std::less<>> g_secrets;  // set by take_secrets() only

struct FromFile {
  std::string path;
  size_t order;  // from 1 on; the environment is 0
};
std::map<std::string, FromFile, std::less<>> g_from_files;  // set by take_default() only

size_t order_of(const std::string& variable) {
  const auto found = g_from_files.find(variable);
  return found == g_from_files.end() ? 0 : found->second.order;
}

Error bad_value(const KnobValue& v, const std::string& expected) {
  return {ErrorCode::usage, format("{} = '{}': expected {}", v.origin, v.text, expected)};
}

}  // namespace

std::span<const Knob> knobs() {
  return kKnobs;
}

const Knob& knob(KnobId id) {
  COLL_CHECK(id < KnobId::count);
  return kKnobs[int(id)];
}

std::optional<std::string> environment(const char* name) {
  // A copy with more rights than its caller (set-uid) takes no word of the caller's: files to
  // write, libraries to load.
  static const bool more_rights = ::getauxval(AT_SECURE) != 0;
  const std::string_view known(name);
  if (more_rights && (known.starts_with("COLLCTL_") || known.starts_with("NCCL_")))
    return std::nullopt;
  if (const auto taken = g_secrets.find(name); taken != g_secrets.end()) return taken->second;
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

void take_secrets() {
  for (const Knob& k : kKnobs) {
    const std::string name = std::string("COLLCTL_") + k.name;
    char* const value = (k.flags & kSecret) != 0 ? std::getenv(name.c_str()) : nullptr;
    if (value == nullptr) continue;
    g_secrets[name] = value;
    ::explicit_bzero(value, std::strlen(value));
    ::unsetenv(name.c_str());
  }
}

ScopedVariable::ScopedVariable(std::string name, const std::string& value)
    : name_(std::move(name)), before_(environment(name_.c_str())) {
  ::setenv(name_.c_str(), value.c_str(), 1);
}

ScopedVariable::~ScopedVariable() {
  if (before_)
    ::setenv(name_.c_str(), before_->c_str(), 1);
  else
    ::unsetenv(name_.c_str());
}

bool take_default(const std::string& name, const std::string& value, const std::string& file,
                  size_t order) {
  if (std::getenv(name.c_str()) != nullptr || ::setenv(name.c_str(), value.c_str(), 0) != 0)
    return false;
  g_from_files[name] = {file, order + 1};
  return true;
}

std::string file_of_variable(const std::string& name) {
  const auto found = g_from_files.find(name);
  return found == g_from_files.end() ? "" : found->second.path;
}

std::vector<std::string> environment_list() {
  std::vector<std::string> list;
  for (char** at = ::environ; at != nullptr && *at != nullptr; ++at) list.emplace_back(*at);
  return list;
}

KnobValue knob_value(KnobId id) {
  const Knob& k = knob(id);
  std::optional<KnobValue> found;
  for (const std::string& name : {std::string("COLLCTL_") + k.name, std::string(k.nccl_name)}) {
    const auto value = name.empty() ? std::nullopt : environment(name.c_str());
    if (!value || value->empty()) continue;
    if (found && order_of(found->variable) <= order_of(name)) continue;
    const std::string file = file_of_variable(name);
    found = {*value, file.empty() ? name : format("{} ({})", name, file), name, file};
  }
  return found ? *found : KnobValue{k.default_value, "default"};
}

Result<uint64_t> parse_bytes(const std::string& text) {
  const Error expected(ErrorCode::usage,
                       format("'{}': expected a size such as 8, 1K, 4M or 1G", text));
  if (text.empty() || text[0] < '0' || text[0] > '9') return expected;
  errno = 0;
  char* end = nullptr;
  const uint64_t number = std::strtoull(text.c_str(), &end, 10);
  if (errno == ERANGE) return expected;
  std::string unit(end);
  for (auto& c : unit) c = char(c >= 'a' && c <= 'z' ? c - 32 : c);
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  const char letters[] = "KMGT";
  for (int i = 0; i < 4; ++i) {
    const std::string letter(1, letters[i]);
    if (unit == letter || unit == letter + "B" || unit == letter + "IB") shift = 10 * (i + 1);
  }
  if (shift < 0) return expected;
  if (shift > 0 && (number >> (63 - shift)) != 0)
    return Error(ErrorCode::usage, format("'{}': too large", text));
  return number << shift;
}

Result<double> parse_seconds(const std::string& text) {
  constexpr struct {
    std::string_view name;
    double seconds;
  } kUnits[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};
  const Error expected(
      ErrorCode::usage,
      format("'{}': expected a duration such as 90, 500ms, 90s, 15m, 2h or 1h30m", text));
  if (text.find_first_not_of("0123456789.eE-") == std::string::npos && text[0] != '-') {
    char* end = nullptr;
    const double plain = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0 || !std::isfinite(plain)) return expected;
    return plain;
  }
  double seconds = 0;
  size_t unit = 0;  // units get smaller from left to right
  for (size_t at = 0; at < text.size(); ++unit) {
    const size_t digits = std::min(text.find_first_not_of("0123456789.", at), text.size());
    const size_t end = std::min(text.find_first_of("0123456789.", digits), text.size());
    const std::string number = text.substr(at, digits - at);
    char* rest = nullptr;
    const double value = std::strtod(number.c_str(), &rest);
    if (number.empty() || *rest != 0) return expected;
    const std::string name = text.substr(digits, end - digits);  // empty: "1h30" lacks one
    while (unit < std::size(kUnits) && kUnits[unit].name != name) ++unit;
    if (unit == std::size(kUnits)) return expected;
    seconds += value * kUnits[unit].seconds;
    at = end;
  }
  if (!std::isfinite(seconds)) return expected;
  return seconds;
}

Result<int64_t> knob_int(KnobId id) {
  const Knob& k = knob(id);
  const KnobValue v = knob_value(id);
  int64_t number = 0;
  if (k.kind == KnobKind::bytes) {
    auto bytes = parse_bytes(v.text);
    if (!bytes) return bad_value(v, "a size such as 512K or 4M");
    number = int64_t(*bytes);
  } else {
    errno = 0;
    char* end = nullptr;
    number = std::strtoll(v.text.c_str(), &end, 10);
    if (end == v.text.c_str() || *end != 0 || errno != 0)
      return bad_value(v, format("a whole number {}..{}", k.minimum, k.maximum));
  }
  if (number < k.minimum || number > k.maximum)
    return bad_value(v, format("a value in {}..{}", k.minimum, k.maximum));
  return number;
}

Result<double> knob_seconds(KnobId id) {
  const Knob& k = knob(id);
  const KnobValue v = knob_value(id);
  const auto seconds = parse_seconds(v.text);
  if (!seconds || *seconds < double(k.minimum) / 1000 || *seconds > double(k.maximum))
    return bad_value(v, format("seconds in 0.001..{}, or 500ms, 90s, 2m, 1h", k.maximum));
  return *seconds;
}

Status check_knobs() {
  for (const Knob& k : kKnobs) {
    if (k.kind == KnobKind::text) continue;
    if (k.kind == KnobKind::seconds)
      COLL_TRY(knob_seconds(k.id));
    else
      COLL_TRY(knob_int(k.id));
  }
  return {};
}

}  // namespace collctl::base
