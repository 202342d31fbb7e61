// The report for programs: JSON, JSON Lines, CSV. Keys are a contract; units are in the names.
#include "base/format.h"
#include "cmd/text/json_writer.h"
#include "cmd/job/launch_json.h"
#include "cmd/report/report.h"

namespace collctl::cmd {
namespace {

template <class T>
void write_array(JsonWriter& json, const char* key, const std::vector<T>& values) {
  json.key(key).begin_array();
  for (const T& value : values) json.value(value);
  json.end_array();
}

void write_gpus(JsonWriter& json, const HostLine& host) {
  json.key("gpus").begin_array();
  for (size_t i = 0; i < host.gpus.size(); ++i) {
    const GpuLine& gpu = host.gpus[i];
    json.begin_object()
        .field("rank", host.ranks[i])
        .field("dev", host.devices[i])
        .field("name", gpu.name)
        .field("busid", gpu.bus_id)
        .field("held_bytes", gpu.held_bytes);
    if (!gpu.note.empty()) json.field("note", gpu.note);
    json.end_object();
  }
  json.end_array();
}

void write_windows(JsonWriter& json, const WindowsLine& windows) {
  json.key("windows").begin_object().field("bytes", windows.bytes).key("teams").begin_array();
  for (const auto& team : windows.teams) {
    json.begin_object();
    write_array(json, "ranks", team);
    json.end_object();
  }
  json.end_array();
  if (!windows.note.empty()) json.field("note", windows.note);
  json.end_object();
}

void write_header(JsonWriter& json, const BenchReport& report) {
  const BenchHeader header = report.header.value_or(BenchHeader{});
  json.field("schema", "collctl.bench/1");
  json.field("version", header.version);
  json.field("op", report.spec.soak ? "soak" : name_of(report.spec.collective));
  if (report.spec.soak)
    json.field("seed", report.spec.soak_seed).field("operations", report.spec.soak_operations);
  json.field("ranks", header.ranks);
  json.field("device", header.device);
  if (!header.device_reason.empty()) json.field("device_reason", header.device_reason);
  json.key("hosts").begin_array();
  for (const HostLine& host : header.hosts) {
    json.begin_object().field("host", host.host);
    write_array(json, "ranks", host.ranks);
    write_array(json, "devices", host.devices);
    write_array(json, "pids", host.pids);
    if (!host.gpus.empty()) write_gpus(json, host);
    json.end_object();
  }
  json.end_array();
  json.key("links").begin_array();
  for (const LinkLine& link : header.links) {
    json.begin_object().field("channel", link.channel).field("from", link.from);
    json.field("to", link.to).field("via", link.via);
    if (!link.why.empty()) json.field("why", link.why);
    json.end_object();
  }
  json.end_array();
  json.field("init_s", header.init_seconds);
  if (header.windows) write_windows(json, *header.windows);
  if (header.cuda_graph != 0) json.field("cuda_graph", header.cuda_graph);
  if (!header.versus.empty()) json.field("beside", header.versus);
  if (!header.note.empty()) json.field("note", header.note);
}

void write_timing(JsonWriter& json, const char* key, const Timing& t, bool percentiles) {
  if (!t.measured) return;
  json.key(key).begin_object().field("time_us", t.time_us);
  if (percentiles)
    json.field("p50_us", t.p50_us)
        .field("p99_us", t.p99_us)
        .field("min_us", t.min_us)
        .field("max_us", t.max_us);
  json.field("algbw_GBps", t.algbw_GBps).field("busbw_GBps", t.busbw_GBps);
  json.key("wrong");
  if (t.wrong < 0)
    json.null();
  else
    json.value(t.wrong);
  json.field("slowest_rank", t.slowest_rank).end_object();
}

// The best of what another library was set up to do, and all of it.
void write_versus(JsonWriter& json, const char* key, const Timing& t) {
  if (t.versus.empty()) return;
  const VersusTiming& best = t.versus[0];
  json.key(key).begin_object().field("name", best.name).field("time_us", best.time_us);
  json.field("ratio", t.ratio()).field("variant", best.variant).key("variants").begin_array();
  for (const VersusTiming& other : t.versus)
    json.begin_object().field("name", other.variant).field("time_us", other.time_us).end_object();
  json.end_array().end_object();
}

void write_row(JsonWriter& json, const BenchReport& report, const BenchRow& row) {
  json.field("bytes", row.bytes)
      .field("count", row.count)
      .field("dtype", name_of(row.type))
      .field("redop", row.has_op ? name_of(row.op) : "none")
      .field("root", row.root)
      .field("algorithm", row.algorithm)
      .field("protocol", row.protocol)
      .field("channels", row.channels);
  if (report.spec.window) json.field("straight", row.direct);
  write_timing(json, "out_of_place", row.out_of_place, report.spec.sync_each);
  write_timing(json, "in_place", row.in_place, report.spec.sync_each);
  const bool first = row.out_of_place.measured;
  write_versus(json, "vs", first ? row.out_of_place : row.in_place);
  if (first) write_versus(json, "vs_in_place", row.in_place);
}

void write_fault(JsonWriter& json, const DataFault& fault) {
  json.field("kind", fault.kind)
      .field("message", fault.message)
      .field("rank", fault.rank)
      .field("peer", fault.peer)
      .field("channel", fault.channel)
      .field("chunk", fault.chunk)
      .field("step", fault.step)
      .field("first_element", fault.first_element)
      .field("first_byte", fault.first_byte)
      .field("last_byte", fault.last_byte)
      .field("bad_elements", fault.bad_elements);
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  json.field("ok", verdict.ok).key("reasons").begin_array();
  for (const Reason& reason : verdict.reasons) {
    json.begin_object().field("code", reason.code).field("message", reason.message);
    json.key("host");
    if (reason.host.empty())
      json.null();
    else
      json.value(reason.host);
    json.key("rank");
    if (reason.rank < 0)
      json.null();
    else
      json.value(reason.rank);
    json.end_object();
  }
  json.end_array();
}

void write_cost(JsonWriter& json, const char* key, const StartCost& cost, const char* variant) {
  json.key(key).begin_object();
  if (variant != nullptr) json.field("variant", variant);
  json.key("buffer_bytes");
  cost.buffer_bytes != 0 ? json.value(cost.buffer_bytes) : json.null();
  json.key("taken_bytes");
  cost.taken_bytes != 0 ? json.value(cost.taken_bytes) : json.null();
  json.end_object();
}

void write_closing(JsonWriter& json, const BenchReport& report) {
  if (!report.closing) return;
  const BenchClosing& closing = *report.closing;
  if (closing.costs) {
    json.key("memory").begin_object();
    write_cost(json, "collctl", closing.own_cost, nullptr);
    write_cost(json, "vs", closing.other_cost, closing.other_variant.c_str());
    json.end_object().key("start").begin_object();
    json.field("collctl_s", closing.own_cost.seconds).field("vs_s", closing.other_cost.seconds);
    json.end_object();
  }
  if (!report.spec.versus.empty()) {
    json.key("vs_not_measured").begin_array();
    for (const LeftOut& out : closing.left_out)
      json.begin_object().field("variant", out.variant).field("reason", out.reason).end_object();
    json.end_array();
  }
  if (!closing.busy.empty()) {
    json.key("busy_hosts").begin_array();
    for (const BusyHost& host : closing.busy)
      json.begin_object().field("host", host.host).field("why", host.why).end_object();
    json.end_array();
  }
  if (!report.header || report.header->device == "cpu") return;
  json.key("throttled").begin_array();
  for (const ThrottledGpu& gpu : closing.throttled)
    json.begin_object()
        .field("host", gpu.host)
        .field("rank", gpu.rank)
        .field("dev", gpu.device)
        .field("busid", gpu.bus_id)
        .field("why", gpu.why)
        .end_object();
  json.end_array();
}

void write_results(JsonWriter& json, const BenchReport& report) {
  json.key("results").begin_array();
  for (const BenchRow& row : report.rows) {
    json.begin_object();
    write_row(json, report, row);
    json.end_object();
  }
  json.end_array();
  if (const Comparison other = compared(report); other.timings != 0)
    json.key("compared")
        .begin_object()
        .field("name", other.name)
        .field("ratio_geometric_mean", other.ratio)
        .field("ratio_lowest", other.lowest)
        .field("timings", other.timings)
        .end_object();
  write_closing(json, report);
  if (report.faults.empty()) return;
  json.key("faults").begin_array();
  for (const DataFault& fault : report.faults) {
    json.begin_object();
    write_fault(json, fault);
    json.end_object();
  }
  json.end_array();
}

void write_error(JsonWriter& json, const Error& error, int exit_code) {
  json.field("schema", "collctl.error/1")
      .field("code", exit_code)
      .field("kind", base::code_name(error.code))
      .field("message", error.message);
  write_array(json, "context", error.contexts);
  json.field("hint", error.hint);
  if (error.rank >= 0) json.field("rank", error.rank);
  if (!error.host.empty()) json.field("host", error.host);
  if (error.signal != 0) json.field("signal", error.signal);
}

std::string line_of(JsonWriter& json) {
  return json.end_object().take() + "\n";
}

template <class Fill>
std::string record(const char* name, Fill fill) {
  JsonWriter json;
  json.begin_object().field("record", name);
  fill(json);
  return line_of(json);
}

}  // namespace

std::string bench_json(const BenchReport& report, const Verdict& verdict) {
  JsonWriter json;
  json.begin_object();
  write_header(json, report);
  write_launch(json, report.hosts);
  write_results(json, report);
  json.key("verdict").begin_object();
  write_verdict(json, verdict);
  json.end_object();
  return line_of(json);
}

std::string error_json(const Error& error, int exit_code, const BenchReport* report) {
  JsonWriter json;
  json.begin_object();
  write_error(json, error, exit_code);
  if (report != nullptr) write_launch(json, report->hosts);
  if (report != nullptr && report->header) {
    json.key("measured").begin_object();
    write_header(json, *report);
    write_results(json, *report);
    json.end_object();
  }
  return line_of(json);
}

std::string error_json_around(const std::string& measured, const Error& error, int exit_code) {
  JsonWriter json;
  json.begin_object();
  write_error(json, error, exit_code);
  json.key("measured").raw(measured);
  return line_of(json);
}

std::string jsonl_header(const BenchReport& report) {
  return record("header", [&](JsonWriter& json) { write_header(json, report); });
}

std::string jsonl_row(const BenchReport& report, const BenchRow& row) {
  return record("result", [&](JsonWriter& json) { write_row(json, report, row); });
}

std::string jsonl_fault(const DataFault& fault) {
  return record("fault", [&](JsonWriter& json) { write_fault(json, fault); });
}

std::string jsonl_closing(const BenchReport& report) {
  return record("closing", [&](JsonWriter& json) { write_closing(json, report); });
}

std::string jsonl_end(const Verdict& verdict, const Error* job_error, int exit_code) {
  return record(job_error != nullptr ? "error" : "verdict", [&](JsonWriter& json) {
    if (job_error != nullptr)
      write_error(json, *job_error, exit_code);
    else
      write_verdict(json, verdict);
  });
}

std::string csv_titles(const BenchSpec& spec) {
  std::string text = "op,ranks,bytes,count,dtype,redop,root,algorithm,protocol,channels";
  for (const char* place : {"out_of_place", "in_place"}) {
    text += format(",{}_time_us", place);
    if (spec.sync_each)
      for (const char* name : {"p50", "p99", "min", "max"})
        text += format(",{}_{}_us", place, name);
    text += format(",{0}_algbw_GBps,{0}_busbw_GBps,{0}_wrong", place);
    if (!spec.versus.empty()) text += format(",{0}_vs_time_us,{0}_vs_ratio", place);
  }
  if (spec.window) text += ",path";
  return text + "\n";
}

std::string csv_row(const BenchReport& report, const BenchRow& row) {
  std::string text = format("{},{},{},{},{},{},{},{},{},{}", name_of(report.spec.collective),
                            report.header ? report.header->ranks : 0, row.bytes, row.count,
                            name_of(row.type), row.has_op ? name_of(row.op) : "none", row.root,
                            row.algorithm, row.protocol, row.channels);
  for (const Timing* t : {&row.out_of_place, &row.in_place}) {
    if (!t->measured) {
      text += report.spec.sync_each ? ",,,,,,,," : ",,,,";
      if (!report.spec.versus.empty()) text += ",,";
      continue;
    }
    text += format(",{:.6g}", t->time_us);
    if (report.spec.sync_each)
      text += format(",{:.6g},{:.6g},{:.6g},{:.6g}", t->p50_us, t->p99_us, t->min_us, t->max_us);
    text += format(",{:.6g},{:.6g},{}", t->algbw_GBps, t->busbw_GBps,
                   t->wrong < 0 ? "" : std::to_string(t->wrong));
    if (report.spec.versus.empty()) continue;
    text += t->versus.empty() ? ",," : format(",{:.6g},{:.6g}", t->versus[0].time_us, t->ratio());
  }
  if (report.spec.window) text += format(",{}", row.path());
  return text + "\n";
}

std::string bench_csv(const BenchReport& report) {
  std::string text = csv_titles(report.spec);
  for (const BenchRow& row : report.rows) text += csv_row(report, row);
  return text;
}

}  // namespace collctl::cmd
