// Findings, culprits and the verdict as in the JSON of every report that has them: written and read
// by one description. A measured value with a unit is a number. Threads: values.
#pragma once
#include <string>
#include <vector>

#include "base/record.h"
#include "cmd/judge/verdict.h"

namespace collctl::cmd {

void fields(Record& io, Finding& finding);
void fields(Record& io, Culprit& culprit);
// "checks" and "culprits" with their keys.
void write_checks(JsonWriter& json, const std::vector<Finding>& findings,
                  const std::vector<Culprit>& culprits);
// "ok" and "reasons" into an object that was begun; the error that ended the job is the first.
void verdict_fields(Record& io, const Verdict& verdict);
// And back; `error` as the report has it.
Verdict read_verdict(Record& io, std::optional<Error> error);
// "verdict" with its key.
void write_verdict(JsonWriter& json, const Verdict& verdict);
// Null where there is nothing to say.
void write_text_or_null(JsonWriter& json, const char* key, const std::string& text);

}  // namespace collctl::cmd
