#include "cmd/report/read.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/report/fields.h"

namespace collctl::cmd {
namespace {

// What the table's columns depend on.
void conclude_spec(BenchReport& report) {
  BenchSpec& spec = report.spec;
  spec.max_bytes = 0;
  spec.ops.clear();
  spec.roots.clear();
  const auto add = [](auto& list, const auto& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  bool out = false, in = false, versus = false;
  for (const BenchRow& row : report.rows) {
    spec.max_bytes = std::max(spec.max_bytes, row.bytes);
    out = out || row.out_of_place.measured;
    in = in || row.in_place.measured;
    versus = versus || !row.out_of_place.versus.empty() || !row.in_place.versus.empty();
    add(spec.types, row.type);
    add(spec.ops, row.op);
    add(spec.roots, row.root);
  }
  spec.in_place = out && in ? InPlace::both : in ? InPlace::in_place : InPlace::out_of_place;
  if (versus || (report.header && !report.header->versus.empty())) spec.versus = {"default"};
}

// The code, from the reasons; one that is not of the table (a later version's) is a failure.
void conclude_verdict(Verdict& verdict) {
  if (verdict.ok) return;
  Verdict judged;
  for (const Reason& reason : verdict.reasons) {
    const ReasonRow* const row = find_reason(reason.code);
    judged.worsen(row != nullptr ? row->code : ErrorCode::failed);
  }
  verdict.code = judged.code;
}

void read_measured(JsonRecord& io, BenchReport& report) {
  report.spec.types.clear();
  header_fields(io, report);
  results_fields(io, report);
  conclude_spec(report);
  // "nccl 2.28.9: default, ring" is how it was set up.
  report.closing->other = report.header->versus.substr(0, report.header->versus.find(':'));
}

Status read_error(JsonRecord& io, SavedReport& saved) {
  Error error{ErrorCode::failed, ""};
  error_fields(io, error, saved.exit_code);
  saved.verdict.ok = false;
  saved.job_error = std::move(error);
  COLL_TRY(io.status());
  if (!io.has("measured", true))
    return Error(ErrorCode::usage, "it is about a run that broke off before anything was measured")
        .within(saved.job_error->chain());
  io.object("measured", [&] { read_measured(io, saved.report); });
  return io.status();
}

}  // namespace

Result<SavedReport> read_report(const std::string& text) {
  COLL_ASSIGN(JsonRecord io, JsonRecord::read(text));
  SavedReport saved;
  std::string schema;
  io.field("schema", schema);
  COLL_TRY(io.status());
  if (schema == "collctl.error/1") {
    COLL_TRY(read_error(io, saved));
    return saved;
  }
  if (schema != "collctl.bench/1")
    return Error(ErrorCode::usage, format("schema '{}'; expected collctl.bench/1", schema),
                 "a report is what a collective writes with --json or -o FILE.json");
  read_measured(io, saved.report);
  io.field("verdict", saved.verdict);
  COLL_TRY(io.status());
  conclude_verdict(saved.verdict);
  saved.exit_code = final_code(0, saved.verdict);
  return saved;
}

}  // namespace collctl::cmd
