#include "cmd/report/one_rank.h"

#include <utility>

#include "base/env.h"
#include "base/format.h"
#include "cmd/job/job.h"
#include "cmd/job/options.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

Status run_one_rank(const TaskContext& context,
                    const std::function<Result<std::string>()>& measure) {
  context.sink.phase(context.rank, "measure");
  if (context.size != 1)
    return Error(ErrorCode::usage,
                 format("{} is one rank's, not {} ranks'", context.spec.task->name, context.size),
                 "-n 1; with hosts -N 1, one host at a time");
  COLL_ASSIGN(const std::string record, measure());
  COLL_TRY(context.sink.record(record));
  context.sink.phase(context.rank, "finish");
  return {};
}

Result<int> one_rank_command(
    const ParsedLine& given, Console& console, const RankTask& task, std::string options,
    const std::function<Result<Document>(const std::string& record)>& shown) {
  COLL_TRY(base::check_knobs());
  COLL_ASSIGN(const OutputOptions output, interpret_files(given));
  ParsedLine line = given;
  const bool hosts = line.has("hosts") || line.has("hostfile");
  if (!line.has("ranks") && !line.has("ranks-per-host"))
    line.given[hosts ? "ranks-per-host" : "ranks"] = {"1"};
  COLL_ASSIGN(const LaunchOptions launch, interpret_launch(line));
  TaskSpec spec{.task = &task, .options = std::move(options)};
  spec.settings.device_request = DeviceRequest::cpu;  // it opens GPUs by itself
  LastRecord sink;
  const JobOutcome outcome = run_task_job(launch, spec, sink);
  if (outcome.error) return *outcome.error;
  COLL_ASSIGN(const Document document, shown(sink.text));
  COLL_TRY(deliver(document, output, console));
  return document.judged.exit_code;
}

}  // namespace collctl::cmd
