// What every host must have (--expect FILE), whatever the others have. The file is untrusted. Pure
// but for interpret_expect, which reads it.
//
//   gpus=8 rdma=8 driver=550.54.15 firmware=28.39.* mtu=9000 speed=400 cpus=128 memory=2T
//   [H100]          # only hosts with a GPU whose name has this in it
//   gpus=8
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/judge/finding.h"
#include "launcher/remote/probe.h"

namespace collctl::cmd {

struct ExpectedValue {
  std::string key, value;
  std::string model;  // of a GPU; empty: of every host
  size_t line = 0;
};
struct Expectation {
  std::string file;
  std::vector<ExpectedValue> values;
};
inline constexpr size_t kMostExpectText = 64 << 10, kMostExpected = 1000;

// Errors: usage, with file, line and column.
Result<Expectation> parse_expect(const std::string& file, const std::string& text);
// --expect; nothing is expected without it.
Result<Expectation> interpret_expect(const ParsedLine& line);
// A finding for each value, named "expect KEY". A later line of the file overrides an earlier one,
// and what is said of a model all that is said of every host.
void add_expectations(const std::string& host, const launcher::HostFacts& facts,
                      const Expectation& expect, std::vector<Finding>& findings);

}  // namespace collctl::cmd
