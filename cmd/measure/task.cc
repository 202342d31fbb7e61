#include "cmd/measure/task.h"

#include "base/env.h"
#include "base/format.h"
#include "base/record.h"
#include "base/whole_file.h"
#include "cmd/text/file.h"
#include "topology/detect/discover.h"
#include "topology/detect/reader.h"
#include "topology/xml/topo_file.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {
namespace {

// Writes what is detected here, completed by TOPO_FILE, as NCCL does: when TOPO_DUMP_FILE is set
// and `rank` is TOPO_DUMP_FILE_RANK. Errors: unavailable: the file cannot be written; usage:
// TOPO_FILE is no topology file, or a knob has no legal value.
Status dump_topology(int rank) {
  const base::KnobValue file = base::knob_value(base::KnobId::topo_dump_file);
  if (file.text.empty()) return {};
  COLL_ASSIGN(const int64_t writer, base::knob_int(base::KnobId::topo_dump_file_rank));
  if (writer != rank) return {};
  COLL_TRY_IN(check_writable(file.text), file.origin);
  topology::Reader reader = topology::live_reader();
  topology::Detected here = discover(reader);
  COLL_TRY(topology::complete_by_topo_file(here.system, here.findings));
  COLL_TRY_IN(base::write_file_atomically(file.text, topology::write_xml(here.system)),
              file.origin);
  return {};
}

}  // namespace

void fields(Record& io, RankSettings& settings) {
  io.number("device_request", settings.device_request, int(DeviceRequest::automatic) + 1);
  io.field("device_reason", settings.device_reason);
  io.field("device", settings.device, -1, 1 << 16);
  io.field("share_device", settings.share_device);
  io.field("op_timeout_s", settings.op_timeout_s, 0, 1e6);
  io.field("start_timeout_s", settings.start_timeout_s, 0, 1e6);
  io.field("start_left_s", settings.start_left_s, 0, 1e6);
  io.field("local_ranks", settings.local_ranks, 0, 1 << 20);
  io.field("verbosity", settings.verbosity, 0, 10);
}

Result<TaskSpec> settled(const TaskSpec& asked, const TaskPlace& place) {
  TaskSpec known = asked;
  if (asked.task->settle != nullptr) {
    COLL_ASSIGN(known.options, asked.task->settle(asked, place));
  }
  known.settings.device_request = place.on_gpus ? DeviceRequest::cuda : DeviceRequest::cpu;
  known.settings.device_reason = place.why;
  return known;
}

Status run_task(const TaskContext& context) {
  if (context.continued == nullptr) COLL_TRY(dump_topology(context.rank));
  return context.spec.task->run(context);
}

std::string task_text(const std::string& what, const std::string& options,
                      std::span<const TaskField> fields) {
  std::string text = format("collective\t\"{}\"\n", what);
  for (const TaskField& each : fields)
    text += format("{}\t{}\n", each.name, base::json_part(options, each.field));
  return text;
}

}  // namespace collctl::cmd
