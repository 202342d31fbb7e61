// `doctor`: whether hosts are fit for jobs, before one is started.
#include "cmd/doctor/doctor.h"

#include "base/env.h"
#include "base/format.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/report/options.h"
#include "cmd/text/console.h"
#include "cmd/text/file.h"

namespace collctl::cmd {

namespace {

Result<Survey> survey_for(const ParsedLine& line, const LaunchOptions& launch) {
  if (!line.has("replay")) return make_survey(launch);
  for (const char* other : {"record", "expect"})
    if (line.has(other))
      return Error(ErrorCode::usage,
                   format("--replay has no meaning with --{}: it asks no host", other));
  if (!launch.hosts.hosts.empty())
    return Error(ErrorCode::usage, "--replay has no meaning with a list of hosts: it asks none");
  return replayed_survey(line.text("replay"));
}

}  // namespace

Result<int> doctor_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  COLL_ASSIGN(const OutputOptions output, interpret_files(line, {.monitoring = true}));
  COLL_ASSIGN(const Expectation expect, interpret_expect(line));
  const bool quiet = line.has("quiet");
  launch.talk = console_talk(console, quiet);
  if (!quiet)
    for (const auto& warning : launch.hosts.warnings) console.note(warning);
  COLL_ASSIGN(const Survey survey, survey_for(line, launch));
  Diagnosis diagnosis =
      line.has("replay") ? diagnose_states(survey) : diagnose_hosts(survey, expect);
  if (expects(expect, ExpectKind::floor))
    diagnosis.checks.push_back(Finding{.name = "expect"}.leave_out(
        format("speeds of copies in {} were not measured", expect.file),
        "collctl check --only node measures them"));
  const Document document = doctor_document(survey, diagnosis, doctor_json(survey, diagnosis));
  COLL_TRY(deliver(document, output, console));
  if (line.has("record")) COLL_TRY(write_recordings(line.text("record"), states_of(survey)));
  return diagnosis.verdict().exit_code();
}

}  // namespace collctl::cmd
