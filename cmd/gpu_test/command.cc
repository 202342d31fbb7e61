// The rank task `gpu-test` and its command: one rank of a host opens all its GPUs.
#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/host_state.h"
#include "base/record.h"
#include "cmd/cli/option_rows.h"
#include "cmd/gpu_test/bench.h"
#include "cmd/measure/fields.h"
#include "cmd/report/one_rank.h"
#include "cmd/report/options.h"
#include "cmd/topo/view.h"
#include "kernels/cuda/launcher/launcher.h"

namespace collctl::cmd {

void fields(Record& io, GpuTestSpec& spec) {
  io.field("seconds", spec.seconds, 0, 60);
  io.field("bytes", spec.bytes, uint64_t{64} << 10, uint64_t{1} << 40);
}

namespace {

// "NVL" through switches; of GPUs that are joined directly with the speed of their links, as not
// all pairs have as many.
void name_paths(GpuReport& report) {
  const auto view = read_view(ViewOptions{});
  if (!view) return;
  std::vector<int> nodes;
  for (const GpuEnd& end : report.gpus) {
    const auto id = topology::parse_bus_id(end.device);
    const auto at = std::ranges::find_if(view->graph.gpus, [&](int gpu) {
      return id && view->graph.nodes[size_t(gpu)].id == id->value;
    });
    nodes.push_back(at == view->graph.gpus.end() ? -1 : *at);
  }
  for (GpuPair& pair : report.pairs) {
    const int from = nodes[size_t(pair.from)], to = nodes[size_t(pair.to)];
    if (from < 0 || to < 0 || from == to) continue;
    const topology::Path& path = view->base.at(from, to);
    pair.path = topology::path_type_name(path.type);
    if (path.type == topology::PathType::nvl && path.hops == 1)
      pair.path += format(" {:.0f} GB/s", path.gbps);
  }
}

Result<std::string> gpu_record(const TaskContext& context) {
  COLL_ASSIGN(const GpuTestSpec spec,
              record_of<GpuTestSpec>(context.spec.options, "reading the options of gpu-test"));
  const auto* given = context.spec.settings.launcher;
  GpuReport report{.host = base::this_host()};
  if (!base::nvidia_gpus_here().empty()) {
    COLL_ASSIGN(report, measure_gpus(spec, given != nullptr ? *given : kernels::cuda::launcher()));
    if (report.gpus.size() > 1) name_paths(report);
  }
  return gpu_json(report);
}

Status run_gpu_test(const TaskContext& context) {
  return run_one_rank(context, [&] { return gpu_record(context); });
}

Command gpu_row(uint32_t own) {
  return {.name = "gpu-test",
          .kind = CommandKind::task,
          .arguments = "[-H HOST] [--json]",
          .scopes = kTask | own,
          .summary = "copies and loads between a host's GPUs, and with its memory",
          .description =
              "One rank copies between every two GPUs of its host by copy engine and by kernels, "
              "one way and both, between all of them at once, and between each GPU and the memory "
              "of each NUMA node; loads 8 bytes after 8 from each other GPU; and compares what "
              "arrived.",
          .examples = {{"collctl gpu-test --json", "this host"}},
          .hidden = true,
          .run = gpu_command};
}

void add_gpu_options(std::vector<Option>& t, uint32_t own) {
  using namespace kinds;
  add_file_option(t, own, FileKinds{}, kWholeFiles);
  const Adder add{t, Group::measure, own};
  add("seconds", seconds("S", 0, 60, "0.008"), to<&GpuTestSpec::seconds>,
      "how long each figure is measured, at least two copies (gpu-test)")
      .hidden = true;
}

}  // namespace

Result<GpuReport> measure_gpus(const GpuTestSpec& spec, const kernels::cuda::Launcher& launcher) {
  GpuReport report{.host = base::this_host()};
  const auto users = base::gpu_users();  // before this process is one
  const base::HostLoad before = base::host_load();
  COLL_TRY(GpuBench(spec, launcher, report).run());
  report.busy = busy_reason(before, 1);
  for (const auto& gpu : report.gpus)
    if (const auto user = users.find(gpu.device); report.busy.empty() && user != users.end())
      report.busy = user->second;
  return report;
}

const RankTask kGpuTask{
    .name = "gpu-test", .run = run_gpu_test, .command = gpu_row, .add_options = add_gpu_options};

Result<int> gpu_command(const ParsedLine& given, Console& console) {
  GpuTestSpec spec;
  COLL_TRY(fill(given, spec));
  return one_rank_command(given, console, kGpuTask, json_of(spec),
                          [](const std::string& record) -> Result<Document> {
                            COLL_ASSIGN(const GpuReport report, read_gpu_report(record));
                            return gpu_document(report, gpu_json(report));
                          });
}

}  // namespace collctl::cmd
