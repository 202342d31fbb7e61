#include "cmd/status/ras.h"

#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "cmd/cli/option_rows.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr double kWholeAskSeconds = 12;  // of which NCCL has half for asking its processes
constexpr size_t kMostLines = 20;

void add_missing(const RasStatus& status, bool dead, const char* what, std::string& text) {
  NamesBy<std::string> processes;  // by host
  size_t count = 0;
  for (const RasProcess& one : status.missing) {
    if (one.dead != dead) continue;
    ++count;
    processes[one.host].push_back(format("{} (GPU {}{})", one.pid, one.gpus,
                                         one.rank < 0 ? "" : format(", rank {}", one.rank)));
  }
  if (count == 0) return;
  std::vector<std::string> hosts;
  for (const auto& [host, some] : processes.groups()) hosts.push_back(host);
  text += format("{} {}, on {}:\n", format("{} process{}", count, count == 1 ? "" : "es"), what,
                 folded_hosts(hosts));
  size_t lines = 0;
  for (const auto& [host, some] : processes.groups())
    if (lines++ < kMostLines) text += format("  {}: {}\n", host, joined(some));
  if (lines > kMostLines)
    text += format("  and {} more hosts (--json has all)\n", lines - kMostLines);
}

std::string text_of(const RasReport& report) {
  const RasStatus& status = report.status;
  std::string text =
      format("NCCL {} at {}: {} of {} answered\n", status.version, report.address,
             counted(status.ranks, "rank"), counted(status.communicators, "communicator"));
  add_missing(status, false, "without an answer", text);
  add_missing(status, true, "given up", text);
  if (status.timeouts > 0)
    text += format("{} in vain while it asked\n", counted(status.timeouts, "wait"));
  size_t lines = 0;
  for (const std::string& problem : status.problems)
    if (lines++ < kMostLines) text += problem + "\n";
  if (lines > kMostLines) text += format("and {} more (--json has all)\n", lines - kMostLines);
  if (status.missing.empty() && status.problems.empty())
    text += "no process is missing, and all are at the same operation\n";
  else if (status.missing.empty())
    text += "no process is missing; what stays so when it is asked again hangs\n";
  return base::printable(text);
}

}  // namespace

std::string ras_json(const RasReport& report) {
  JsonWriter json;
  begin_document(json, "collctl.ras/1").field("address", report.address);
  write_fields(json, report.status);
  return json.end_object().take() + "\n";
}

Result<RasReport> read_ras_report(const std::string& json) {
  COLL_ASSIGN(Record io, Record::read(json));
  RasReport report;
  io.field("address", report.address, 512);
  fields(io, report.status);
  COLL_TRY(io.status());
  return report;
}

Document ras_document(const RasReport& report, std::string json) {
  Document document = document_with(std::move(json), "missing");
  document.title = "collctl status --ras " + report.address;
  document.has_verdict = false;
  if (!report.status.missing.empty()) document.judged.exit_code = int(ErrorCode::failed);
  document.parts.push_back({Drawn{[report](size_t) { return text_of(report); }}});
  return document;
}

Result<int> ras_command(const ParsedLine& line, const OutputOptions& output, Console& console) {
  const std::string address = !line.words.empty()
                                  ? line.words[0]
                                  : base::environment("NCCL_RAS_ADDR").value_or(kRasAddress);
  RasReport report{.address = address};
  COLL_ASSIGN(report.status, ask_ras(address, base::Deadline::after_seconds(kWholeAskSeconds)));
  const Document document = ras_document(report, ras_json(report));
  COLL_TRY(deliver(document, output, console));
  return document.judged.exit_code;
}

void add_status_options(std::vector<Option>& t) {
  const Adder add{t, Group::select, kStatus};
  add("ras", kinds::flag(), "a job of NCCL's on this host, as NCCL's own RAS says",
      "In place of JOB an address, else that of NCCL_RAS_ADDR or localhost:28028. The job may be "
      "anybody's and need not know collctl; its NCCL is 2.24 or later, and keeps that port open "
      "unless NCCL_RAS_ENABLE=0. Processes that do not answer are named; the exit code is 1 then.");
}

}  // namespace collctl::cmd
