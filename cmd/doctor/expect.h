// Requirements on every host (--expect FILE), whatever the others have. The file is untrusted. Pure
// but for interpret_expect, which reads it.
//
//   gpus=8 rdma=8 driver=550.54.15 firmware=28.39.* mtu=9000 speed=400 cpus=128 memory=2T
//   [H100]          # only hosts with a GPU whose name has this in it
//   gpus=8 to_gpu=45
#pragma once
#include <cstdint>
#include <map>
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
  std::string file = {};
  std::vector<ExpectedValue> values = {};
};
inline constexpr size_t kMostExpectText = 64 << 10, kMostExpected = 1000;

// Errors: usage, with file, line and column.
Result<Expectation> parse_expect(const std::string& file, const std::string& text);
// --expect; nothing is expected without it.
Result<Expectation> interpret_expect(const ParsedLine& line);
// A finding for each value, named "expect KEY". A later line of the file overrides an earlier one,
// and what is said of a model all that is said of every host.
void add_expectations(const Host& host, const launcher::HostFacts& facts, const Expectation& expect,
                      std::vector<Finding>& findings);

// A floor, unlike a fact, takes a measurement: least GB/s of copies in the memory of a host (copy)
// and a GPU (gpu_copy, read and written), to a GPU and from it (to_gpu, from_gpu).
enum class ExpectKind : uint8_t { fact, floor };
bool expects(const Expectation& expect, ExpectKind kind);
// By key, those in force where GPUs of these models are.
std::map<std::string, const ExpectedValue*> floors_of(const Expectation& expect,
                                                      const std::vector<std::string>& models);

}  // namespace collctl::cmd
