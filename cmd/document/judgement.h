// How a run ended and what was found, as the document of any command says it: written and read by
// the same descriptions. Nothing in a file is trusted. Threads: values.
#pragma once
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/record.h"
#include "cmd/judge/verdict.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {

// Findings in a document of any schema, and how its run ended.
struct Judgement {
  std::string schema = {};
  std::string document = {};  // itself, or what was measured before the run broke off
  std::vector<Finding> checks = {};
  std::vector<Culprit> culprits = {};
  Verdict verdict{{}, std::nullopt};  // a document without one passed
  int exit_code = 0;
  Provenance made = {};
  std::string level = {};  // of a check
  double seconds = 0;      // that it took; 0: it does not say
};
// "2026-11-29T21:30:00+01:00, collctl 0.1.0, level quick, 55.4 s: collctl check"; empty: the
// document is of a version that did not say.
std::string made_text(const Judgement& judged);
Result<Judgement> read_judgement(const std::string& json);
// The document is our own: one that cannot be read is a defect, and the verdict says so.
Judgement judgement_of(const std::string& json);

// An error with the exit code that it led to (collctl.error/1), inside an object.
void error_fields(Record& io, Error& error, int& exit_code);
// That of a run that has measured nothing; none: the text is no such thing.
std::optional<Error> read_failure(const std::string& text);
// Into an object that was begun, with how the document came about.
void write_error(JsonWriter& json, const Error& error, int exit_code);
// A document of a job that broke off before anything was measured.
std::string error_json(const Error& error, int exit_code);
// The end of any document: an object that was begun gets its verdict; of a job that broke off it
// becomes what the error was `measured` before.
std::string judged_json(JsonWriter& measured, const Verdict& verdict);

}  // namespace collctl::cmd
