// The report for programs: JSON, JSON Lines, CSV. Keys are a contract; units are in the names.
#include "cmd/judge/json.h"
#include "base/format.h"
#include "cmd/job/dry_run.h"
#include "cmd/measure/fields.h"
#include "cmd/report/read.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {
namespace {

std::string line_of(JsonWriter& json) {
  return json.end_object().take() + "\n";
}

// One line of JSON Lines.
template <class Fill>
std::string record(const char* name, Fill fill) {
  JsonWriter json;
  json.begin_object().field("record", name);
  Record io(json);
  fill(io);
  return line_of(json);
}

}  // namespace

std::string bench_json(const BenchReport& report, const Verdict& verdict) {
  if (verdict.error()) return error_json(*verdict.error(), verdict.exit_code(), report);
  JsonWriter json;
  json.begin_object();
  Record io(json);
  header_fields(io, described(report));
  write_launch(json, report.hosts);
  results_fields(io, described(report));
  write_verdict(json, verdict);
  return line_of(json);
}

std::string error_json(const Error& error, int exit_code, const BenchReport& report) {
  JsonWriter json;
  json.begin_object();
  write_error(json, error, exit_code);
  write_launch(json, report.hosts);
  if (report.header) {
    Record io(json);
    io.object("measured", [&] {
      header_fields(io, described(report));
      results_fields(io, described(report));
    });
  }
  return line_of(json);
}

std::string jsonl_header(const BenchReport& report) {
  return record("header", [&](Record& io) { header_fields(io, described(report)); });
}

std::string jsonl_row(const BenchReport& report, const BenchRow& row) {
  return record("result", [&](Record& io) { row_fields(io, described(report), described(row)); });
}

std::string jsonl_loss(const LossLine& loss) {
  return record("lost", [&](Record& io) { fields(io, described(loss)); });
}

std::string jsonl_fault(const DataFault& fault) {
  return record("fault", [&](Record& io) { fields(io, described(fault)); });
}

std::string jsonl_closing(const BenchReport& report) {
  return record("closing", [&](Record& io) { closing_fields(io, described(report)); });
}

std::string jsonl_end(const Verdict& verdict) {
  const auto& error = verdict.error();
  return record(error ? "error" : "verdict", [&](Record& io) {
    int exit_code = verdict.exit_code();
    if (error)
      error_fields(io, described(*error), exit_code);
    else
      verdict_fields(io, verdict);
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
  if (spec.split) text += ",group,slowest_group";
  return text + "\n";
}

std::string csv_row(const BenchReport& report, const BenchRow& row) {
  std::string text = format("{},{},{},{},{},{},{},{},{},{}", name_of(report.spec.collective),
                            ranks_of(report, row), row.bytes, row.count, name_of(row.type),
                            row.has_op ? name_of(row.op) : "none", row.root, row.algorithm,
                            row.protocol, row.channels);
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
  if (report.spec.split) text += format(",{},{}", row.group, row.slowest_group ? 1 : 0);
  return text + "\n";
}

std::string bench_csv(const BenchReport& report) {
  std::string text = csv_titles(report.spec);
  for (const BenchRow& row : report.rows) text += csv_row(report, row);
  return text;
}

}  // namespace collctl::cmd
