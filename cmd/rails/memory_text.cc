// GPU memory over NICs for people.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/format.h"
#include "cmd/rails/memory_judge.h"
#include "cmd/rails/memory_looks.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

using runtime::kHostMemory;
using runtime::MemoryFlow;
using runtime::MemoryTrial;

constexpr size_t kMostMemoryLines = 40;  // that are shown without -v

std::string figure(double value) {
  return value > 0 ? format("{:.3g}", value) : "-";
}

std::string figure(const MemoryFlow& flow) {
  return flow.end == RailEnd::ok ? figure(flow.GBps) : rail_word(flow.end);
}

// The last measurement of each two ends, in the order of hosts, GPUs and NICs.
std::vector<size_t> last_trials(const RailsReport& report, bool of_two_gpus) {
  std::map<std::tuple<int, int, int, int, int, int>, size_t> last;
  for (size_t t = 0; t < report.trials.size(); ++t) {
    const MemoryTrial& trial = report.trials[t];
    const bool from = trial.from_gpu != kHostMemory, to = trial.to_gpu != kHostMemory;
    if (of_two_gpus && from && to)
      last[{trial.from, trial.from_gpu, trial.from_nic, trial.to, trial.to_gpu, trial.to_nic}] = t;
    if (of_two_gpus || from == to) continue;
    last[{from ? trial.from : trial.to, from ? trial.from_gpu : trial.to_gpu,
          from ? trial.from_nic : trial.to_nic, 0, 0, 0}] = t;
  }
  std::vector<size_t> list;
  for (const auto& [key, trial] : last) list.push_back(trial);
  return list;
}

// A GPU over a NIC, beside host memory of another host: what it sends comes first.
Table gpu_rows(const RailsReport& report, const std::vector<size_t>& trials) {
  Table table{.columns = {{.title = "host", .left = true},
                          {.title = "GPU"},
                          {.title = "NIC", .left = true},
                          {.title = "path", .left = true},
                          {.title = "sends"},
                          {.title = "host mem."},
                          {.title = "gets"},
                          {.title = "host mem."},
                          {.title = "both"},
                          {.title = "8 B us"},
                          {.title = "by", .left = true}},
              .expendable = {"path", "by"}};
  for (const size_t t : trials) {
    const MemoryTrial& trial = report.trials[t];
    const bool from = trial.from_gpu != kHostMemory;
    const RailsHost& host = report.hosts[size_t(from ? trial.from : trial.to)];
    const runtime::RailGpu& gpu = host.gpus.list[size_t(from ? trial.from_gpu : trial.to_gpu)];
    const auto nic = size_t(from ? trial.from_nic : trial.to_nic);
    const MemoryFlow &sends = from ? trial.there : trial.back,
                     &gets = from ? trial.back : trial.there;
    const MemoryFlow *sends_beside = host_flow_of(report, {t, !from}),
                     *gets_beside = host_flow_of(report, {t, from});
    std::string by = use_text(sends.out);
    if (use_text(gets.in) != by) by += "; back " + use_text(gets.in);
    table.add({host.host.name, std::to_string(gpu.ordinal), host.nics[nic].name,
               gpu.nics[nic].path.empty() ? "-" : gpu.nics[nic].path, figure(sends),
               sends_beside != nullptr ? figure(*sends_beside) : "-", figure(gets),
               gets_beside != nullptr ? figure(*gets_beside) : "-",
               figure(sends.both_GBps + gets.both_GBps), figure(trial.latency_us), by});
  }
  return table;
}

std::string end_text(const RailsReport& report, int host, int gpu, int nic) {
  const RailsHost& at = report.hosts[size_t(host)];
  return format("{} {} {}", at.host.name, memory_name(at, gpu), at.nics[size_t(nic)].name);
}

std::string trial_text(const RailsReport& report, const MemoryTrial& trial) {
  return format("{} - {}", end_text(report, trial.from, trial.from_gpu, trial.from_nic),
                end_text(report, trial.to, trial.to_gpu, trial.to_nic));
}

Table pair_rows(const RailsReport& report, const std::vector<size_t>& trials) {
  Table table{.columns = {{.title = "GPUs", .left = true},
                          {.title = "there"},
                          {.title = "back"},
                          {.title = "both"},
                          {.title = "8 B us"}}};
  for (const size_t t : trials) {
    const MemoryTrial& trial = report.trials[t];
    table.add({trial_text(report, trial), figure(trial.there), figure(trial.back),
               figure(trial.there.both_GBps + trial.back.both_GBps), figure(trial.latency_us)});
  }
  return table;
}

Table curve_rows(const RailsReport& report) {
  Table table{.columns = {{.title = "memory", .left = true},
                          {.title = "size"},
                          {.title = "there"},
                          {.title = "back"},
                          {.title = "both"}}};
  for (const MemoryTrial& trial : report.trials)
    for (const runtime::MemoryPoint& point : trial.curve)
      table.add({trial_text(report, trial), human_bytes(point.bytes), figure(point.there_GBps),
                 figure(point.back_GBps), figure(point.both_GBps)});
  return table;
}

}  // namespace

std::vector<DocumentPart> memory_parts(const RailsReport& report) {
  std::vector<DocumentPart> parts;
  const std::vector<size_t> gpus = last_trials(report, false), pairs = last_trials(report, true);
  if (gpus.empty() && pairs.empty()) return parts;
  const bool few = gpus.size() <= kMostMemoryLines;
  parts.push_back(
      {Facts{{format("GPU memory, GB/s of messages of {} to and from host memory of another host "
                     "(of one host: its own), and host memory over the same NICs",
                     human_bytes(report.message_bytes))}}});
  parts.push_back({gpu_rows(report, gpus), few ? Shown::always : Shown::whole});
  if (!few)
    parts.push_back({Facts{{format("{} of GPUs and NICs are not shown; -v shows them",
                                   counted(gpus.size(), "row"))}},
                     Shown::brief});
  if (!pairs.empty())
    parts.push_back({pair_rows(report, pairs), few ? Shown::always : Shown::whole});
  if (!report.sizes.empty()) parts.push_back({curve_rows(report)});
  return parts;
}

}  // namespace collctl::cmd
