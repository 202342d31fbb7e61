#include "cmd/cli/values.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "base/env.h"
#include "base/format.h"
#include "base/record.h"
#include "base/split.h"
#include "cmd/cli/foreign_options.h"
#include "cmd/cli/parse.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr std::string_view kPercent = "%";

std::optional<double> decimal(const std::string& text) {
  if (text.empty() || !(std::isdigit(uint8_t(text[0])) || text[0] == '.')) return std::nullopt;
  if (text.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != 0 || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool whole(const std::string& text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

std::string expectation(const Option& option) {
  std::string words = joined(option.allowed);
  switch (option.kind) {
    case ValueKind::integer:
      return format("a whole number {:.0f}..{:.0f}{}{}", option.minimum, option.maximum,
                    words.empty() ? "" : " or ", words);
    case ValueKind::number:
      if (option.unit == kPercent)
        return format("a ratio {}..{}, or {:.0f}%..{:.0f}%", option.minimum, option.maximum,
                      100 * option.minimum, 100 * option.maximum);
      return format("a number {}..{:.0f}", option.minimum, option.maximum);
    case ValueKind::duration:
      return format("seconds {}..{:.0f}, or 500ms, 90s, 2m, 1h", option.minimum, option.maximum);
    case ValueKind::size:
      return "a size such as 8, 1K, 4M or 1G";
    case ValueKind::limit:
      return format("{}: {}, with @ and a size if not the default one", option.value,
                    option.unit == kPercent ? "a ratio, or with %" : option.unit);
    case ValueKind::choice:
      return words;
    case ValueKind::choices:
      return format("{} (or several with commas)", words);
    default:
      return option.value;
  }
}

bool legal(const Option& option, const std::string& value) {
  const auto allows = [&](const std::string& word) {
    return std::ranges::find(option.allowed, word) != option.allowed.end();
  };
  switch (option.kind) {
    case ValueKind::flag:
    case ValueKind::count:
      return true;
    case ValueKind::integer: {
      if (allows(value)) return true;
      if (!whole(value)) return false;
      const double number = double(std::strtoll(value.c_str(), nullptr, 10));
      return number >= option.minimum && number <= option.maximum;
    }
    case ValueKind::number:
    case ValueKind::duration:
      return number_of(option, value).has_value();
    case ValueKind::size: {
      const auto bytes = base::parse_bytes(value);
      return bytes.ok() && double(*bytes) >= option.minimum;
    }
    case ValueKind::limit: {
      const size_t at = value.find('@');
      return number_of(option, value.substr(0, at)) &&
             (at == std::string::npos || base::parse_bytes(value.substr(at + 1)).ok());
    }
    case ValueKind::choice:
      return allows(value);
    case ValueKind::choices: {
      const auto parts = expand_choices(option, value);
      return !parts.empty() && std::ranges::all_of(parts, allows);
    }
    case ValueKind::text:
    case ValueKind::file:
    case ValueKind::directory:
      return !value.empty();
  }
  return false;
}

}  // namespace

std::optional<double> number_of(const Option& option, const std::string& value) {
  std::optional<double> number;
  if (option.kind == ValueKind::duration) {
    if (const auto seconds = base::parse_seconds(value)) number = *seconds;
  } else {
    const bool named = !option.unit.empty() && value.ends_with(option.unit);
    number = decimal(value.substr(0, value.size() - (named ? option.unit.size() : 0)));
    if (number && named && option.unit == kPercent) *number /= 100;
  }
  const bool bounded = option.maximum > option.minimum;
  if (number && bounded && (*number < option.minimum || *number > option.maximum)) return {};
  return number;
}

std::vector<std::string> expand_choices(const Option& option, const std::string& value) {
  std::vector<std::string> parts;
  for (const std::string_view part : base::split(value, ',')) {
    if (part == "all") {
      parts.assign(option.allowed.begin(), option.allowed.end());
      parts.erase(std::remove(parts.begin(), parts.end(), "all"), parts.end());
      return parts;
    }
    if (std::ranges::find(parts, part) == parts.end()) parts.emplace_back(part);
  }
  return parts;
}

std::vector<std::string> given_words(const Option& option, const std::vector<std::string>& given) {
  std::vector<std::string> words;
  for (size_t i = option.repeatable ? 0 : given.size() - 1; i < given.size(); ++i) {
    const bool several = option.kind == ValueKind::choices;
    for (std::string& word : several ? expand_choices(option, given[i]) : std::vector{given[i]})
      words.push_back(std::move(word));
  }
  return words;
}

int64_t whole_value(const Option& option, const std::vector<std::string>& given) {
  if (!takes_value(option) || option.kind == ValueKind::file) return int64_t(given.size());
  const std::string& value = given.back();
  if (option.kind == ValueKind::size) return int64_t(*base::parse_bytes(value));
  const auto word = std::ranges::find(option.allowed, value);
  if (option.kind != ValueKind::integer) return word - option.allowed.begin();
  return word != option.allowed.end() ? -1 : std::strtoll(value.c_str(), nullptr, 10);
}

void word_field(base::Record& io, const Option& option, const char* name, uint64_t& number) {
  if (option.allowed.empty()) return io.field(name, number, 0, uint64_t(option.maximum));
  std::string word = io.reading() ? "" : option.allowed.at(number);
  io.field(name, word);
  if (!io.reading()) return;
  const auto at = std::ranges::find(option.allowed, word);
  number = uint64_t(at - option.allowed.begin());
  if (at == option.allowed.end()) io.fail(name, joined(option.allowed)), number = 0;
}

std::string field_name(const Option& option) {
  std::string name = option.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_field(const Option& option) {
  for (const Option& row : options())
    if (row.fills.record == option.fills.record && std::string_view(row.name) == option.name)
      return &row == &option;
  return false;
}

std::string alike_line(const Option& option, const std::string& json) {
  return format("--{}\t{}\n", option.name, base::json_part(json, field_name(option).c_str()));
}

Status check_value(const Option& option, const std::string& value) {
  const bool file = option.kind == ValueKind::file;
  if (legal(option, value) && !(file && !meant_value(option, value).empty())) return {};
  std::string message = format("--{}{} {}: expected {}", option.name,
                               option.letter == 0 ? "" : format(" (-{})", option.letter),
                               value.empty() ? "''" : value.substr(0, 80), expectation(option));
  if (file || option.kind == ValueKind::choice || option.kind == ValueKind::choices) {
    std::string near = meant_value(option, value);
    if (near.empty()) {
      std::vector<std::string> words = option.allowed;
      for (const auto& [theirs, ours] : option.synonyms) {
        std::istringstream each(theirs);
        words.insert(words.end(), std::istream_iterator<std::string>(each), {});
      }
      near = nearest(value, words);
    }
    if (!near.empty()) message += format("; did you mean {}?", near);
  }
  return usage(message);
}

}  // namespace collctl::cmd
