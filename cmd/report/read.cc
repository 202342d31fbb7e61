#include "cmd/report/read.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/judge/json.h"
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
  bool out = false, in = false, versus = false, expected = false;
  for (const BenchRow& row : report.rows) {
    spec.max_bytes = std::max(spec.max_bytes, row.bytes);
    out = out || row.out_of_place.measured;
    in = in || row.in_place.measured;
    versus = versus || !row.out_of_place.versus.empty() || !row.in_place.versus.empty();
    expected = expected || row.expected;
    add(spec.types, row.type);
    add(spec.ops, row.op);
    add(spec.roots, row.root);
  }
  spec.in_place = out && in ? InPlace::both : in ? InPlace::in_place : InPlace::out_of_place;
  spec.expects = expected;
  if (versus || (report.header && !report.header->versus.empty())) spec.versus = {"default"};
  if (report.header && !report.header->versus.empty() &&
      report.header->versus.rfind(kRivalNames[int(Rival::nccl)], 0) != 0)
    spec.rival = Rival::mpi;
}

void read_measured(Record& io, BenchReport& report) {
  report.spec.types.clear();
  header_fields(io, report);
  results_fields(io, report);
  conclude_spec(report);
  // "nccl 2.28.9: default, ring" is how it was set up.
  report.closing->other = report.header->versus.substr(0, report.header->versus.find(':'));
}

// What was measured before the run broke off; its exit code is the one that it ended with.
Result<SavedReport> read_error(Record& io) {
  Error error{ErrorCode::failed, ""};
  int exit_code = 0;
  error_fields(io, error, exit_code);
  COLL_TRY(io.status());
  if (!io.has("measured", true))
    return Error(ErrorCode::usage, "it is about a run that broke off before anything was measured")
        .within(error.chain());
  SavedReport saved{.report = {}, .verdict = {{}, std::move(error)}, .exit_code = exit_code};
  io.object("measured", [&] { read_measured(io, saved.report); });
  COLL_TRY(io.status());
  return saved;
}

}  // namespace

Result<SavedReport> read_report(const std::string& text) {
  COLL_ASSIGN(Record io, Record::read(text));
  std::string schema;
  io.field("schema", schema);
  COLL_TRY(io.status());
  if (schema == "collctl.error/1") return read_error(io);
  if (schema != "collctl.bench/1")
    return Error(ErrorCode::usage, format("schema '{}'; expected collctl.bench/1", schema),
                 "a report is what a collective writes with --json or -o FILE.json");
  SavedReport saved{.report = {}, .verdict = {{}, std::nullopt}, .exit_code = 0};
  read_measured(io, saved.report);
  io.object("verdict", [&] { saved.verdict = read_verdict(io, std::nullopt); });
  COLL_TRY(io.status());
  saved.exit_code = saved.verdict.exit_code();
  return saved;
}

}  // namespace collctl::cmd
