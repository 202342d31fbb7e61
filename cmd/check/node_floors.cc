// Floors of the suite `node`: what the site expects, else what is publicly known of boards, PCIe
// links and memory channels.
#include <algorithm>
#include <cstdlib>

#include "base/format.h"
#include "cmd/check/node.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

const char* floor_key(const MemoryRow& row) {
  if (row.device == "host") return "copy";
  return row.what == "copy" ? "gpu_copy" : row.what == "to device" ? "to_gpu" : "from_gpu";
}

// Below what is asked for: a fault, unless it could not be measured again or the host was busy.
struct FloorAsked {
  double GBps;
  std::string as_text, basis;  // of the report: the number, and who asks for it
};
void judge_against(const NodeJob& job, double seen, const std::string& busy,
                   const FloorAsked& asked, const std::string& message, Finding& finding,
                   const char* remedy) {
  finding.expected = asked.as_text;
  finding.basis = asked.basis;
  if (seen >= asked.GBps || finding.status == FindingStatus::fail) return;
  if (!job.not_again.empty()) {
    finding.leave_out(format("{}; it could not be measured again: {}", message, job.not_again));
    return;
  }
  if (!busy.empty() && is_excusable(seen, asked.GBps)) {
    spoil(finding, format("{}; the host was busy ({}), so this says little", message, busy));
    return;
  }
  finding.fail(ErrorCode::failed, message, remedy);
  finding.reason = kBelowFloor;
}

constexpr const char* kSlowMemory =
    "look for missing memory modules and a busy host (dmidecode -t memory; top)";
constexpr const char* kSlowGpu =
    "compare clocks, power limits and the PCIe link (nvidia-smi -q -d CLOCK,PERFORMANCE; collctl "
    "topo)";

const Floor* board_floor(const NodeJob& job, const std::string& board, const std::string& what,
                         int gpus = 0) {
  return job.floors == nullptr ? nullptr : find_floor(*job.floors, board, what, gpus);
}

// Speeds that the public limits of links and channels let expect: less is told and no fault, as
// they are those of other machines.
void tell_below(const NodeJob& job, const MemoryRow& row, const Floor& floor, double parts,
                const std::string& of, Finding& finding, const char* remedy) {
  const double least = floor.GBps * parts;
  finding.expected = format("{:.4g}", least);
  finding.basis = format("{}: {}, {}", of, floor.source, floor.date);
  if (row.GBps >= least || !row.busy.empty() || finding.status != FindingStatus::pass) return;
  finding.warn(format("{}: {}{} at {:.4g} GB/s, {} has at least {:.4g} ({}, {})", job.host,
                      floor_key(row), row.device == "host" ? "" : " of GPU " + row.device, row.GBps,
                      of, least, floor.source, floor.date),
               remedy);
}

// False: nothing is known of its link, or of the host's channels.
bool judge_link(const NodeJob& job, const MemoryRow& row, Finding& finding) {
  if (job.floors == nullptr) return false;
  if (row.device == "host") {
    const Floor* floor = row.channels > 0 ? find_channel_floor(*job.floors, row.MTps) : nullptr;
    if (floor == nullptr) return false;
    tell_below(job, row, *floor, row.channels,
               format("{} at {:g} MT/s", counted(size_t(row.channels), "memory channel"), row.MTps),
               finding, kSlowMemory);
    return true;
  }
  const Floor* floor =
      row.pcie_lanes > 0 ? find_link_floor(*job.floors, floor_key(row), row.pcie_GTps) : nullptr;
  if (floor == nullptr) return false;
  tell_below(job, row, *floor, double(row.pcie_lanes) / floor->lanes,
             format("a PCIe link of {:g} GT/s x{}", row.pcie_GTps, row.pcie_lanes), finding,
             kSlowGpu);
  return true;
}

}  // namespace

void judge_floor(const NodeJob& job, const MemoryRow& row, const std::vector<std::string>& models,
                 Finding& finding, std::set<size_t>& judged) {
  const bool host = row.device == "host";
  const char* const key = floor_key(row);
  const std::string what = format("{}: {}{}", job.host, key, host ? "" : " of GPU " + row.device);
  const auto floors = floors_of(job.expect, models);
  if (const auto floor = floors.find(key); floor != floors.end()) {
    const ExpectedValue& value = *floor->second;
    judged.insert(value.line);
    const std::string basis = format("{}:{}", job.expect.file, value.line);
    judge_against(job, row.GBps, row.busy,
                  {std::strtod(value.value.c_str(), nullptr), value.value, basis},
                  format("{} at {:.4g} GB/s, at least {} is expected ({})", what, row.GBps,
                         value.value, basis),
                  finding, host ? kSlowMemory : kSlowGpu);
  } else if (const Floor* board = board_floor(job, row.model, key)) {
    judge_against(
        job, row.GBps, row.busy,
        {board->GBps, format("{:.4g}", board->GBps), format("{}, {}", board->source, board->date)},
        format("{} ({}) at {:.4g} GB/s, {}", what, row.model, row.GBps, board->text()), finding,
        kSlowGpu);
  } else if (!judge_link(job, row, finding) && !host && job.floors != nullptr &&
             !is_known(*job.floors, row.model)) {
    finding.basis = format("no floor is known of {}", row.model);
  }
}

void judge_board(const NodeJob& job, const BenchReport& report, const std::string& busy,
                 Finding& all) {
  if (job.name != "allreduce" || !report.header || report.header->hosts.size() != 1) return;
  const auto& gpus = report.header->hosts[0].gpus;
  const BenchRow& last = report.rows.back();
  if (gpus.empty()) return;
  if (std::ranges::any_of(gpus, [&](const GpuLine& gpu) { return gpu.name != gpus[0].name; }))
    return;
  const Floor* floor = board_floor(job, gpus[0].name, "allreduce", int(gpus.size()));
  if (floor == nullptr) return;
  if (last.bytes < kFloorBytes) {
    all.basis += format("; its floor counts from {} on", human_bytes(kFloorBytes));
    return;
  }
  const double seen = last.out_of_place.busbw_GBps;
  judge_against(job, seen, busy,
                {floor->GBps, format("{:.4g}", floor->GBps),
                 format("{}; {}, {}", all.basis, floor->source, floor->date)},
                format("{}: all-reduce of {} x {} at {:.4g} GB/s, {}", job.host, gpus.size(),
                       gpus[0].name, seen, floor->text()),
                all,
                "collctl topo shows how the GPUs are connected; look at nvidia-smi nvlink -s and "
                "the fabric manager, and compare clocks and power limits");
}

}  // namespace collctl::cmd
