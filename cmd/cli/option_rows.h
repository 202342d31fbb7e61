// Functions that make the rows of THE table of options (cmd/options.cc); each folder has the rows
// that fill its records (cmd/*/option_rows.cc). A row is one call:
//
//   add("n,ranks", integer("N", 1, 65536, "every slot"), to<&LaunchOptions::ranks>, "how many
//   ranks",
//       "With hosts: ...");
//
// its letter and name, the kind of its value with bounds and what help shows as the default, the
// member that it fills (`to`, or `alike`; bind.h), one line of help and further sentences.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cmd/cli/bind.h"

namespace collctl::cmd {

inline constexpr uint32_t kCollectives = kBench;
inline constexpr uint32_t kOnRanks = kCollectives | kTimedTask;
inline constexpr uint32_t kLaunch = kOnRanks | kProgram | kTask | kCheck;  // here or on hosts

// The kinds of values; a function of rows uses this namespace.
namespace kinds {
using Words = std::vector<std::string>;
inline Option flag() {
  return {};
}
inline Option count() {
  return {.kind = ValueKind::count};
}
inline Option between(ValueKind kind, const char* value, double least, double most,
                      const char* fallback) {
  return {.kind = kind, .value = value, .fallback = fallback, .minimum = least, .maximum = most};
}
inline Option integer(const char* value, double least, double most, const char* fallback = "none") {
  return between(ValueKind::integer, value, least, most, fallback);
}
inline Option seconds(const char* value, double least, double most, const char* fallback = "none") {
  return between(ValueKind::duration, value, least, most, fallback);
}
// "%": a ratio, or so many percent.
inline Option number(const char* value, const char* unit, double least, double most,
                     const char* fallback) {
  Option option = between(ValueKind::number, value, least, most, fallback);
  option.unit = unit;
  return option;
}
inline Option limit(const char* value, const char* unit, double most) {
  Option option = between(ValueKind::limit, value, 0, most, "none");
  option.unit = unit;
  return option;
}
inline Option size(const char* fallback, double least = 0) {
  return between(ValueKind::size, "SIZE", least, 0, fallback);
}
inline Option one_of(const char* value, Words words, const char* fallback) {
  return {
      .kind = ValueKind::choice, .value = value, .fallback = fallback, .allowed = std::move(words)};
}
inline Option some_of(const char* value, Words words, const char* fallback = "none") {
  return {.kind = ValueKind::choices,
          .value = value,
          .fallback = fallback,
          .allowed = std::move(words)};
}
inline Option text(const char* value, const char* fallback = "none") {
  return {.kind = ValueKind::text, .value = value, .fallback = fallback};
}
inline Option file(const char* value = "FILE", const char* fallback = "none") {
  return {.kind = ValueKind::file, .value = value, .fallback = fallback};
}
inline Option directory() {
  return {.kind = ValueKind::directory, .value = "DIR", .fallback = "none"};
}
inline Option repeatable(Option option) {
  option.repeatable = true;
  return option;
}

}  // namespace kinds

// Adds rows of one group; most have the same scopes.
struct Adder {
  std::vector<Option>& table;
  Group group;
  uint32_t scopes;
  Adder in(uint32_t others) const { return {table, group, others}; }
  Option& operator()(Option option) const {
    option.group = group;
    if (option.scopes == 0) option.scopes = scopes;
    return table.emplace_back(std::move(option));
  }
  // "n,ranks": its letter and its name.
  Option& operator()(const char* name, Option option, Binding fills, const char* help,
                     const char* more = "") const {
    const bool letter = name[1] == ',';
    option.letter = letter ? name[0] : '\0';
    option.name = letter ? name + 2 : name;
    option.fills = fills;
    option.help = help;
    option.more = more;
    return (*this)(std::move(option));
  }
  // Read where it is needed.
  Option& operator()(const char* name, Option option, const char* help,
                     const char* more = "") const {
    return (*this)(name, std::move(option), Binding(), help, more);
  }
};

}  // namespace collctl::cmd
