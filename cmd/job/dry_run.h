// `run --dry-run`: which ranks would run where, as a table or as collctl.run/1. Contacts nobody:
// what only the hosts know is "asked at start" (null in JSON).
#pragma once
#include "base/json_writer.h"
#include "cmd/command_line.h"

namespace collctl::cmd {

Result<int> dry_run(const ParsedLine& line, const LaunchOptions& launch, Console& console);

// What all forms of collctl.run/1 begin with: schema, version, op, program.
void write_run_head(JsonWriter& json, const ParsedLine& line);
// An array of numbers as the value of a key.
void write_ints(JsonWriter& json, const char* key, const std::vector<int>& values);

}  // namespace collctl::cmd
