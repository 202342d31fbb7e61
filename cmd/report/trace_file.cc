// The trace of a measurement (--trace) as Chrome's trace format has it: an array with one event a
// line, so that a file without its end is read as well. Perfetto opens it.
#include <fcntl.h>

#include "base/format.h"
#include "base/version.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

namespace {

constexpr JsonWriter::Numbers kNumbers = JsonWriter::Numbers::exact;

// Names a process (a host) or a thread (a rank) of the picture.
std::string named(const char* what, int process, int thread, const std::string& name) {
  JsonWriter json;
  json.begin_object().field("name", what).field("ph", "M").field("pid", process);
  json.field("tid", thread).key("args").begin_object().field("name", name).end_object();
  return json.end_object().take() + ",\n";
}

std::map<int, int> hosts_of(const BenchHeader& header) {
  std::map<int, int> host_of;
  for (size_t h = 0; h < header.hosts.size(); ++h)
    for (const int rank : header.hosts[h].ranks) host_of[rank] = int(h);
  return host_of;
}

}  // namespace

std::string trace_header(const BenchHeader& header) {
  std::string text = "[\n";
  for (size_t h = 0; h < header.hosts.size(); ++h) {
    text += named("process_name", int(h), 0, "host " + header.hosts[h].host.name);
    for (const int rank : header.hosts[h].ranks)
      text += named("thread_name", int(h), rank, format("rank {}", rank));
  }
  return text;
}

std::string trace_rows(const BenchReport& report, const BenchTrace& trace) {
  if (!report.header || report.rows.empty()) return "";
  const BenchRow& row = report.rows.back();
  const std::map<int, int> host_of = hosts_of(*report.header);
  const std::string name = format("{} {}", name_of(report.spec.collective), human_bytes(row.bytes));
  std::string text;
  for (const TraceEvent& event : trace.events) {
    JsonWriter json(kNumbers);
    json.begin_object().field("name", name).field("cat", "collective").field("ph", "X");
    json.field("ts", event.start_us).field("dur", event.elapsed_us);
    const auto host = host_of.find(event.rank);
    json.field("pid", host == host_of.end() ? 0 : host->second).field("tid", event.rank);
    json.key("args").begin_object().field("bytes", row.bytes);
    json.field("dtype", kernels::name_of(row.type));
    if (row.has_op) json.field("redop", kernels::name_of(row.op));
    if (row.root >= 0) json.field("root", row.root);
    json.field("algorithm", row.algorithm).field("protocol", row.protocol);
    json.field("channels", row.channels).field("in_place", event.in_place);
    json.field("iteration", event.iteration);
    double waited = 0;
    for (const TraceEvent::Wait& wait : event.waits) waited += wait.recv_us + wait.send_us;
    json.field("waited_us", waited);
    json.objects("waits", event.waits, [&](const TraceEvent::Wait& wait) {
      json.field("peer", wait.peer).field("recv_us", wait.recv_us).field("send_us", wait.send_us);
    });
    text += json.end_object().end_object().take() + ",\n";
  }
  return text;
}

// The array's end, as an event that says how the run ended.
std::string trace_end(const BenchReport& report, const Verdict& verdict) {
  JsonWriter json;
  json.begin_object().field("name", "collctl").field("ph", "M").field("pid", 0).field("tid", 0);
  json.key("args").begin_object().field("version", base::kVersion);
  json.field("exit_code", verdict.exit_code()).field("left_out", report.trace_left_out);
  return json.end_object().end_object().take() + "\n]\n";
}

}  // namespace collctl::cmd
