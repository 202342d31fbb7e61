// Command lines as typed, and what becomes of them.
#pragma once
#include <algorithm>
#include <set>

#include "cmd/cli/foreign_options.h"
#include "cmd/cli/parse.h"
#include "cmd/job/device_choice.h"
#include "cmd/job/options.h"
#include "cmd/measure/options.h"
#include "cmd/measure/versus.h"
#include "cmd/report/options.h"
#include "cmd/window_test/window_test.h"
#include "tests/catch.h"

namespace collctl::cmd::testing {

inline std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> list;
  size_t at = 0;
  while (at < line.size()) {
    const size_t space = std::min(line.find(' ', at), line.size());
    if (space > at) list.push_back(line.substr(at, space - at));
    at = space + 1;
  }
  return list;
}

inline ParsedLine good(const std::string& line) {
  auto parsed = parse(words(line));
  INFO(line << ": " << (parsed.ok() ? "" : parsed.error().chain()));
  REQUIRE(parsed.ok());
  return *parsed;
}

// The whole sentence of the usage error that a line must cause.
inline std::string usage_error(const std::string& line) {
  auto parsed = parse(words(line));
  INFO(line);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().code == ErrorCode::usage);
  CHECK(parsed.error().chain().find('\n') == std::string::npos);
  return parsed.error().chain();
}

inline std::string bench_error(const std::string& line, int ranks = 4) {
  const ParsedLine parsed = good(line);
  auto launch = interpret_launch(parsed);
  if (!launch.ok()) return launch.error().message;
  if (parsed.collective->kind == CommandKind::task) {
    const auto task = window_test_task(parsed);
    return task.ok() ? "" : task.error().message;
  }
  auto spec = interpret_bench(parsed, interpret_device(parsed), ranks);
  if (!spec.ok()) return spec.error().message;
  auto output = interpret_output(parsed, &*spec);
  return output.ok() ? "" : output.error().message;
}

inline BenchSpec bench(const std::string& line) {
  const ParsedLine parsed = good(line);
  auto spec = interpret_bench(parsed, interpret_device(parsed), 4);
  REQUIRE(spec.ok());
  return *spec;
}

}  // namespace collctl::cmd::testing
