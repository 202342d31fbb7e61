#include "cmd/judge/json.h"

#include <cstdlib>

namespace collctl::cmd {
namespace {

void write_value(JsonWriter& json, const char* key, const std::string& text, bool number) {
  json.key(key);
  if (text.empty())
    json.null();
  else if (number)
    json.value(std::strtod(text.c_str(), nullptr));
  else
    json.value(text);
}

}  // namespace

const char* status_word(FindingStatus status) {
  switch (status) {
    case FindingStatus::pass:
      return "pass";
    case FindingStatus::warn:
      return "warn";
    case FindingStatus::fail:
      return "fail";
    case FindingStatus::not_tested:
      break;
  }
  return "not-tested";
}

void write_text_or_null(JsonWriter& json, const char* key, const std::string& text) {
  write_value(json, key, text, false);
}

void write_finding(JsonWriter& json, const Finding& finding) {
  json.begin_object().field("name", finding.name);
  write_text_or_null(json, "host", finding.host);
  write_text_or_null(json, "peer", finding.peer);
  write_text_or_null(json, "device", finding.device);
  json.field("status", status_word(finding.status));
  const bool number = !finding.unit.empty();
  write_value(json, "measured", finding.measured, number);
  write_text_or_null(json, "expected", finding.expected);
  write_text_or_null(json, "unit", finding.unit);
  json.field("odd", finding.odd);
  write_text_or_null(json, "message", finding.message);
  write_text_or_null(json, "remedy", finding.remedy);
  json.end_object();
}

void write_culprits(JsonWriter& json, const std::vector<Culprit>& culprits) {
  json.key("culprits").begin_array();
  for (const Culprit& culprit : culprits)
    json.begin_object()
        .field("kind", culprit.kind)
        .field("name", culprit.name)
        .field("confidence", culprit.confidence)
        .field("evidence", culprit.evidence)
        .end_object();
  json.end_array();
}

}  // namespace collctl::cmd
