// Meaning of a measurement's options. Errors: usage. Threads: values.
#pragma once
#include "cmd/cli/parse.h"
#include "cmd/measure/bench.h"
#include "cmd/verify/buffer_shape.h"

namespace collctl::cmd {

// `ranks`: of the job, to check roots; 0: known when the hosts have answered.
Result<BenchSpec> interpret_bench(const ParsedLine& line, DeviceRequest device, int ranks);
// -b, -e, -f and --step-bytes; what is not given stays as it is, but for an end that would be
// crossed.
Status interpret_sizes(const ParsedLine& line, SizeRange& range);
inline Result<std::vector<uint64_t>> sizes_of(const BenchSpec& spec) {
  return size_series(spec);
}
// The bytes that a text means that parse() has checked.
uint64_t bytes_of(const std::string& text);
// Given options without a meaning for this collective, as sentences for standard error.
std::vector<std::string> useless_options(const ParsedLine& line);

// The rows about sizes, about what is measured and how, and about the choices of the planner.
void add_size_options(std::vector<Option>& table);
void add_measure_options(std::vector<Option>& table);
void add_select_options(std::vector<Option>& table);
// Names in the table of algorithms, and "all".
std::vector<std::string> algorithm_names();

}  // namespace collctl::cmd
