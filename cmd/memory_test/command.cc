// The command `memory-test`.
#include "base/env.h"
#include "cmd/job/options.h"
#include "cmd/memory_test/memory_test.h"

namespace collctl::cmd {
Result<int> memory_command(const ParsedLine& given, Console& console) {
  COLL_TRY(base::check_knobs());
  ParsedLine line = given;
  const bool hosts = line.has("hosts") || line.has("hostfile");
  if (!line.has("ranks") && !line.has("ranks-per-host"))
    line.given[hosts ? "ranks-per-host" : "ranks"] = {"1"};
  COLL_ASSIGN(const LaunchOptions launch, interpret_launch(line));
  // It opens the GPUs by itself, one after the other.
  TaskSpec task{.task = &kMemoryTask, .settings = {}, .options = "{}"};
  task.settings.device_request = DeviceRequest::cpu;
  LastRecord sink;
  const JobOutcome outcome = run_task_job(launch, task, sink);
  if (outcome.error) return *outcome.error;
  COLL_ASSIGN(const MemoryReport report, read_memory(sink.text));
  bool wrong = false;
  for (const MemoryRow& row : report.rows) wrong = wrong || row.wrong;
  console.out(line.has("json") ? memory_json(report) + "\n" : memory_text(report));
  return wrong ? int(ErrorCode::bad_data) : 0;
}

}  // namespace collctl::cmd
