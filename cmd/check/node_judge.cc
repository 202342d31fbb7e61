// Result of one run on a host: findings, and speeds that can be compared with the other hosts'.
#include <algorithm>

#include "base/format.h"
#include "base/host_devices.h"
#include "cmd/check/node.h"
#include "cmd/document/judgement.h"
#include "cmd/judge/counter_state.h"
#include "cmd/judge/json.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/report/read.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

Error no_report(const NodeJob& job) {
  if (auto failure = read_failure(job.output)) return std::move(*failure);
  const bool known = job.exit_code > 0 && job.exit_code <= int(ErrorCode::defect);
  const std::string last = job.errors.substr(0, job.errors.find('\n'));
  return {known ? ErrorCode(job.exit_code) : ErrorCode::failed,
          format("it ended with exit code {} and no report{}", job.exit_code,
                 last.empty() ? "" : ": " + last)};
}

namespace {

// The run left no report, or its machine has no such way between ranks.
void judge_error(const NodeJob& job, const Error& error, Finding& all) {
  if (job.optional && (error.code == ErrorCode::usage || error.code == ErrorCode::unavailable)) {
    all.warn(format("{}: {} cannot serve here: {}", job.host, job.name, error.message));
  } else {
    all.fail(error.code, format("{}: {}: {}", job.host, job.name, error.message), error.hint);
  }
}

// "2 of 2 links between its GPUs go via SHM: ..."
std::string detour_of(const BenchHeader& header) {
  std::map<std::string, size_t> ways;
  std::string why;
  for (const LinkLine& link : header.links)
    if (link.via.rfind("P2P", 0) != 0) {
      ++ways[link.via];
      if (why.empty()) why = link.why;
    }
  std::string text;
  for (const auto& [way, count] : ways)
    text += format("{}{} of {} links between its GPUs go via {}", text.empty() ? "" : ", ", count,
                   header.links.size(), way);
  return text.empty() || why.empty() ? text : format("{}: {}", text, why);
}

constexpr double kFarBelow = 0.5;

const char* source_words(const RowExpected& expected) {
  return expected.source == "model" ? "model" : "bound of the paths";
}

void judge_collective(const NodeJob& job, Finding& all, NodeResult& result) {
  auto saved = read_report(job.output);
  if (!saved) {
    judge_error(job, no_report(job), all);
    return;
  }
  if (const auto& error = saved->verdict.error()) judge_error(job, *error, all);
  if (saved->report.closing)
    for (const BusyHost& busy : saved->report.closing->busy)
      (busy.own_limit ? result.held_back : result.busy) = busy.why;
  std::vector<Finding> found = findings_of(saved->report, job.optional ? Limits{} : job.limits);
  if (!result.busy.empty()) leave_out_spoilt(found);
  for (Finding& finding : found) {
    if (finding.code == ErrorCode{}) continue;
    if (!job.not_again.empty() && says_too_slow(finding))
      finding.leave_out(
          format("{}; it could not be measured again: {}", finding.message, job.not_again));
    finding.name = all.name + "/" + finding.name;
    finding.at.host = job.host;
    if (finding.at.kind == SubjectKind::job) finding.at.kind = SubjectKind::host;
    finding.message = format("{}: {}", job.host, finding.message);
    result.findings.push_back(std::move(finding));
  }
  if (const auto& header = saved->report.header) {
    result.ranks = header->ranks;
    result.on_gpus = header->device == "cuda";
    if (result.on_gpus && !job.optional) result.detour = detour_of(*header);
  }
  result.timed = !saved->report.rows.empty();
  if (!saved->report.rows.empty() && !job.optional) {
    const BenchRow& last = saved->report.rows.back();
    const Timing& timing = last.out_of_place;
    if (timing.busbw_GBps > 0) result.speeds[job.name] = {timing.busbw_GBps, ""};
    say_speed(last, all);
    if (const auto* standard = last.standard();
        standard != nullptr && last.bytes > 0 && standard->busbw_GBps > 0)
      all.basis += format("; the {} expects {:.4g}", source_words(*standard), standard->busbw_GBps);
    judge_board(job, saved->report, result.busy, all);
    const std::string below = far_below(last);
    if (result.on_gpus && all.status == FindingStatus::pass && !below.empty())
      all.warn(format("{}: {}", job.host, below));
  }
  // Left out by a machine whose stores of 16 bytes arrive torn: tested when ranks start.
  const auto& rows = saved->report.rows;
  if (result.on_gpus && job.name == "allreduce/p2p" && all.status == FindingStatus::pass &&
      std::ranges::none_of(rows, [](const BenchRow& row) { return row.protocol == "ll128"; }))
    all.warn(format("{}: LL128 is not used between its GPUs", job.host),
             "COLLCTL_DEBUG=INFO collctl allreduce --proto all says why: no direct way between "
             "them, or stores that arrive torn");
  if (all.code == ErrorCode{} && !result.busy.empty()) all.reason = kBusyHost;
  if (!saved->verdict.error() && !job.optional) result.report = std::move(saved->report);
}

// A GPU's link rests at a low rate: it is judged after the last copies alone, and not where these
// were faster than it now is, since it rests again or they went another way (C2C).
void judge_pcie(const NodeJob& job, const MemoryRow& row, NodeResult& result) {
  const bool less = row.pcie_lanes < row.pcie_lanes_most || row.pcie_GTps < row.pcie_GTps_most;
  const double Mbps = base::pci_Mbps(row.pcie_lanes, row.pcie_GTps);
  if (row.what != "from device" || !less || 8e3 * row.GBps > Mbps) return;
  const auto text = [](double GTps, int lanes) { return format("{:g} GT/s x{}", GTps, lanes); };
  Finding finding{.name = "node/pcie",
                  .at = {.kind = SubjectKind::gpu, .host = job.host, .device = row.device}};
  finding.measured = text(row.pcie_GTps, row.pcie_lanes);
  finding.expected = text(row.pcie_GTps_most, row.pcie_lanes_most);
  finding.basis = "card and slot";
  result.findings.push_back(finding.fail(
      ErrorCode::failed,
      format("{}: the PCIe link of GPU {} runs at {} under load, card and slot can have {}",
             job.host, row.device, finding.measured, finding.expected),
      remedies::kSlot));
}

void judge_memory(const NodeJob& job, Finding& all, NodeResult& result) {
  const auto report = read_memory(job.output);
  if (!report) {
    judge_error(job, no_report(job), all);
    return;
  }
  std::vector<std::string> models;
  for (const MemoryRow& row : report->rows)
    if (!row.model.empty()) models.push_back(row.model);
  std::set<size_t> judged;
  for (const MemoryRow& row : report->rows) {
    const bool host = row.device == "host";
    const std::string what = host ? "memory" : row.what == "copy" ? "GPU memory" : row.what;
    Finding finding{.name = format("node/{}", what),
                    .at = {.kind = host ? SubjectKind::host : SubjectKind::gpu, .host = job.host}};
    if (!host) finding.at.device = row.device;
    finding.measured = format("{:.4g}", row.GBps);
    finding.unit = "GB/s";
    if (row.wrong)
      finding.fail(
          ErrorCode::bad_data,
          format("{}: {}: what was copied is not what arrived", job.host,
                 host ? "its memory" : "GPU " + row.device),
          host ? "test its memory (edac-util, memtester)" : "run dcgmi diag -r 3 on this GPU");
    judge_floor(job, row, host ? models : std::vector{row.model}, finding, judged);
    if (!row.busy.empty()) result.busy = row.busy;
    if (!row.busy.empty() && finding.code == ErrorCode{}) finding.reason = kBusyHost;
    result.findings.push_back(std::move(finding));
    const NodeResult::Speed speed{row.GBps, host ? "" : row.device};
    const auto [at, fresh] = result.speeds.try_emplace(what, speed);
    if (!fresh && row.GBps < at->second.GBps) at->second = speed;
    judge_pcie(job, row, result);
  }
  for (const auto& [key, value] : floors_of(job.expect, models))
    if (!judged.contains(value->line)) {
      result.findings.push_back(
          host_finding("node/" + key, job.host)
              .leave_out(format("{}: {}={} is expected ({}:{}), and it has no GPU that can be used",
                                job.host, key, value->value, job.expect.file, value->line)));
    }
}

// window-test judges itself.
void judge_window(const NodeJob& job, Finding& all, NodeResult& result) {
  if (const auto error = read_failure(job.output)) {
    judge_error(job, *error, all);
    return;
  }
  auto io = Record::read(job.output);
  std::optional<Verdict> verdict;
  if (io) io->object("verdict", [&] { verdict = read_verdict(*io, std::nullopt); });
  if (!io || !io->status() || !verdict) {
    judge_error(job, no_report(job), all);
    return;
  }
  result.timed = true;
  if (verdict->ok()) return;
  const std::string why =
      verdict->reasons().empty() ? "it failed" : verdict->reasons().front().message;
  if (verdict->incomplete())
    all.leave_out(format("{}: window-test: {}", job.host, why));
  else
    all.fail(verdict->code(), format("{}: window-test: {}", job.host, why),
             "collctl window-test on this host shows which pairs of ranks and which stage");
}

}  // namespace

void say_speed(const BenchRow& row, Finding& finding) {
  const bool moves = row.bytes > 0;  // all but a barrier
  finding.measured =
      format("{:.4g}", moves ? row.out_of_place.busbw_GBps : row.out_of_place.time_us);
  finding.unit = moves ? "GB/s" : "us";
  finding.basis =
      moves ? format("bus bandwidth at {}", human_bytes(row.bytes)) : "time of an operation";
}

std::string far_below(const BenchRow& row) {
  const Timing& timing = row.out_of_place;
  const RowExpected* const standard = row.standard();
  if (standard == nullptr || timing.time_us <= 0 || standard->efficiency(timing) >= kFarBelow)
    return {};
  const double share = 100 * standard->efficiency(timing);
  const std::string by =
      format("the {} expects (limited by {})", source_words(*standard), standard->limited_by);
  if (row.bytes == 0)  // a barrier
    return format("{:.4g} us, where {:.4g} ({:.0f} %) is what {}", timing.time_us,
                  standard->time_us, share, by);
  return format("{:.4g} GB/s at {}, {:.0f} % of the {:.4g} that {}", timing.busbw_GBps,
                human_bytes(row.bytes), share, standard->busbw_GBps, by);
}

NodeResult judge_job(const NodeJob& job) {
  NodeResult result;
  Finding all = host_finding(format("node/{}", job.name), job.host);
  if (job.error)
    judge_error(job, *job.error, all);
  else if (job.kind == NodeJobKind::collective)
    judge_collective(job, all, result);
  else if (job.kind == NodeJobKind::memory)
    judge_memory(job, all, result);
  else
    judge_window(job, all, result);
  result.findings.push_back(std::move(all));
  return result;
}

}  // namespace collctl::cmd
