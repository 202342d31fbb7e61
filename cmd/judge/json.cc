#include "cmd/judge/json.h"

#include "base/format.h"
#include "cmd/measure/fields.h"

namespace collctl::cmd {
namespace {

void text_or_null(Record& io, const char* name, std::string& text) {
  if (!io.null(name, text.empty())) io.field(name, text);
}
void text_or_null(Record& io, const char* name, Host& host) {
  if (!io.null(name, !host.named())) io.field(name, host);
}

void measured_field(Record& io, Finding& finding) {
  if (io.reading()) text_or_null(io, "unit", finding.unit);
  if (finding.unit.empty()) return text_or_null(io, "measured", finding.measured);
  if (io.null("measured", finding.measured.empty())) return;
  double number = finding.figure();
  io.field("measured", number);
  if (io.reading()) finding.measured = format("{:.15g}", number);
}

template <class T>
void unless_zero(Record& io, const char* name, T& number, T most) {
  if (io.has(name, number != 0)) io.field(name, number, T(0), most);
}

void rank_field(Record& io, const char* name, int& rank) {
  if (io.has(name, rank >= 0)) io.field(name, rank, 0, kMostRankNumber);
}

}  // namespace

void fields(Record& io, Finding& finding) {
  Subject& at = finding.at;
  int code = int(finding.code);
  io.field("name", finding.name);
  text_or_null(io, "host", at.host);
  text_or_null(io, "peer", at.peer);
  text_or_null(io, "device", at.device);
  io.name("status", finding.status, kFindingStatuses, status_word);
  measured_field(io, finding);
  text_or_null(io, "expected", finding.expected);
  if (!io.reading()) text_or_null(io, "unit", finding.unit);
  io.field("odd", finding.odd);
  text_or_null(io, "message", finding.message);
  text_or_null(io, "remedy", finding.remedy);
  // Fields that the first reports did not have.
  if (io.has("kind", true)) io.name("kind", at.kind, kSubjectKinds, subject_word);
  io.unless_empty("peer_device", at.peer_device);
  rank_field(io, "rank", at.rank);
  rank_field(io, "peer_rank", at.peer_rank);
  unless_zero(io, "code", code, 255);
  io.unless_empty("reason", finding.reason);
  io.unless_empty("basis", finding.basis);
  io.unless_empty("cell", finding.cell);
  unless_zero(io, "of", finding.of, UINT64_MAX);
  if (finding.of != 0) io.field("n", finding.n, 0, finding.of);
  if (io.reading()) finding.code = ErrorCode(code);
}

void fields(Record& io, Culprit& culprit) {
  io.name("kind", culprit.kind, kSubjectKinds, subject_word);
  io.field("name", culprit.name);
  io.field("confidence", culprit.confidence, 0, 1);
  io.field("evidence", culprit.evidence);
  if (io.has("unreachable", culprit.unreachable)) io.field("unreachable", culprit.unreachable);
  const bool part = culprit.kind == SubjectKind::gpu || culprit.kind == SubjectKind::nic;
  const bool link = culprit.kind == SubjectKind::link;  // inside a host; others have none
  if (io.has("host", (part || link) && culprit.host.named()))
    io.field("host", culprit.host);
  else if (io.reading() && culprit.kind == SubjectKind::host)
    culprit.host = base::saved_host(culprit.name);
  else if (io.reading() && part)  // reports that do not say it: the name begins with it
    culprit.host = base::saved_host(culprit.name.substr(0, culprit.name.find(' ')));
}

static void fields(Record& io, Reason& reason) {
  io.field("code", reason.code);
  io.field("message", reason.message);
  text_or_null(io, "host", reason.host);
  if (!io.null("rank", reason.rank < 0)) io.field("rank", reason.rank, 0, kMostRankNumber);
}

void write_checks(JsonWriter& json, const std::vector<Finding>& findings,
                  const std::vector<Culprit>& culprits) {
  Record io(json);
  io.field("checks", described(findings));
  io.field("culprits", described(culprits));
}

void verdict_fields(Record& io, const Verdict& verdict) {
  bool ok = verdict.ok();
  std::vector<Reason> reasons = verdict.reasons();
  if (const auto& error = verdict.error())
    reasons.insert(reasons.begin(),
                   {base::code_name(error->code), error->chain(), error->host, error->rank});
  io.field("ok", ok);
  io.field("reasons", reasons);
}

Verdict read_verdict(Record& io, std::optional<Error> error) {
  bool ok = true;
  std::vector<Reason> reasons;
  io.field("ok", ok);
  io.field("reasons", reasons);
  std::vector<Finding> findings;
  for (Reason& reason : reasons) {
    Finding& finding = findings.emplace_back();
    finding.fail(code_of_reason(reason.code), std::move(reason.message));
    finding.reason = std::move(reason.code);
    finding.at = {.host = base::saved_host(reason.host), .rank = reason.rank};
  }
  if (!ok && findings.empty()) findings.emplace_back().fail(ErrorCode::failed, "");
  return {findings, std::move(error)};
}

void write_verdict(JsonWriter& json, const Verdict& verdict) {
  json.key("verdict").begin_object();
  Record io(json);
  verdict_fields(io, verdict);
  json.end_object();
}

void write_text_or_null(JsonWriter& json, const char* key, const std::string& text) {
  json.key(key);
  text.empty() ? json.null() : json.value(text);
}

}  // namespace collctl::cmd
