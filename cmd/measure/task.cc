#include "cmd/measure/task.h"

#include "base/format.h"
#include "cmd/measure/topology_dump.h"
#include "cmd/text/json_fields.h"

namespace collctl::cmd {

using namespace json_fields;

std::string RankSettings::to_json() const {
  return dump({{"device_request", int(device_request)},
               {"device_reason", device_reason},
               {"device", device},
               {"share_device", share_device},
               {"op_timeout_s", op_timeout_s},
               {"start_timeout_s", start_timeout_s},
               {"local_ranks", local_ranks},
               {"verbosity", verbosity}});
}

Result<RankSettings> RankSettings::from_json(const std::string& text) {
  constexpr const char* kContext = "reading a rank's settings";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  RankSettings s;
  int device_request = 0;
  f.whole("device_request", device_request, 0, 2);
  f.text("device_reason", s.device_reason);
  f.whole("device", s.device, -1, 1 << 16);
  f.flag("share_device", s.share_device);
  f.number("op_timeout_s", s.op_timeout_s, 0, 1e6);
  f.number("start_timeout_s", s.start_timeout_s, 0, 1e6);
  f.whole("local_ranks", s.local_ranks, 0, 1 << 20);
  f.whole("verbosity", s.verbosity, 0, 10);
  s.device_request = DeviceRequest(device_request);
  COLL_TRY_IN(f.status(), kContext);
  return s;
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
  COLL_TRY(dump_topology(context.rank));
  return context.spec.task->run(context);
}

std::string task_text(const std::string& what, const std::string& options,
                      std::span<const TaskField> fields) {
  const Json all = Json::parse(options);
  std::string text = format("collective\t\"{}\"\n", what);
  for (const TaskField& each : fields)
    text += format("{}\t{}\n", each.name, all.at(each.field).dump());
  return text;
}

}  // namespace collctl::cmd
