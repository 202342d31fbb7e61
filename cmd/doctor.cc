// `doctor`: whether hosts are fit for jobs, before one is started.
#include "cmd/doctor.h"

#include "base/env.h"
#include "cmd/command_line.h"
#include "cmd/progress.h"

namespace collctl::cmd {

Result<int> doctor_command(const ParsedLine& line, Console& console) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  const bool quiet = line.has("quiet");
  launch.talk = console_talk(console, quiet || line.has("json"));
  if (!quiet)
    for (const auto& warning : launch.hosts.warnings) console.note(warning);
  COLL_ASSIGN(const Survey survey, make_survey(launch));
  const Diagnosis diagnosis = diagnose_hosts(survey);
  console.out(line.has("json") ? doctor_json(survey, diagnosis)
                               : doctor_text(survey, diagnosis, line.has("verbose")));
  return int(diagnosis.code);
}

}  // namespace collctl::cmd
