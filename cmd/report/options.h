// What the output options of a line mean. Errors: usage. Threads: values.
#pragma once
#include "cmd/cli/parse.h"
#include "cmd/measure/bench.h"
#include "cmd/report/output.h"

namespace collctl::cmd {

// `spec`: of a measurement; null: of anything else. `draws`: pictures can be asked for.
Result<OutputOptions> interpret_output(const ParsedLine& line, const BenchSpec* spec,
                                       bool draws = false);

void add_output_options(std::vector<Option>& table);

}  // namespace collctl::cmd
