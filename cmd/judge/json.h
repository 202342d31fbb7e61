// Findings as in the JSON of every report that has checks; a measured value with a unit is a
// number.
#pragma once
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

const char* status_word(FindingStatus status);  // "pass", "warn", "fail", "not-tested": stable
void write_finding(JsonWriter& json, const Finding& finding);
void write_culprits(JsonWriter& json, const std::vector<Culprit>& culprits);
// Null where there is nothing to say.
void write_text_or_null(JsonWriter& json, const char* key, const std::string& text);

}  // namespace collctl::cmd
