// The history of checks as JSON: collctl.trend/1.

#include "base/format.h"
#include "base/json_writer.h"
#include "cmd/check/trend.h"
#include "cmd/judge/json.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

void write_subject(JsonWriter& json, const Subject& at) {
  json.field("kind", subject_word(at.kind));
  write_text_or_null(json, "host", at.host.name);
  write_text_or_null(json, "device", at.device);
  write_text_or_null(json, "peer", at.peer.name);
  write_text_or_null(json, "peer_device", at.peer_device);
}

void write_date(JsonWriter& json, const char* key, int64_t unix_s) {
  write_text_or_null(json, key, unix_s == 0 ? "" : utc_date(unix_s));
}

void write_figures(JsonWriter& json, const Trend& trend) {
  json.objects("figures", trend.figures, [&](const TrendFigure& figure) {
    json.field("what", figure.what);
    write_subject(json, figure.at);
    write_text_or_null(json, "hosts", figure.hosts);
    write_text_or_null(json, "size", figure.size);
    json.field("level", figure.level).field("version", figure.version).field("unit", "GB/s");
    json.field("count", figure.values.size()).field("spoilt", figure.spoilt);
    if (!figure.values.empty()) {
      json.field("first", figure.first).field("median", figure.median);
      json.field("last", figure.last).field("worst", figure.worst);
    }
    if (figure.early > 0) json.field("early", figure.early).field("late", figure.late);
    json.field("declines", figure.declines);
  });
  json.objects("series", trend.figures, [&](const TrendFigure& figure) {
    json.key("dates").begin_array();
    for (const auto& [time, value] : figure.values) json.value(utc_date(time));
    json.end_array().key("values").begin_array();
    for (const auto& [time, value] : figure.values) json.value(value);
    json.end_array();
  });
}

}  // namespace

void write_trend(JsonWriter& json, const Trend& trend, const std::string& folder,
                 const HistoryFiles& files) {
  json.field("folder", folder).field("below", trend.below).field("older", files.older);
  json.objects("skipped", files.skipped, [&](const HistoryFiles::Skipped& file) {
    json.field("file", file.file).field("why", file.why);
    json.field("damaged", file.damaged);
  });
  json.objects("runs", trend.runs, [&](const TrendRun& run) {
    json.field("file", run.file);
    write_date(json, "date", run.unix_s);
    json.field("version", run.version).field("level", run.level);
    json.field("exit_code", run.exit_code).field("hosts", run.hosts.size());
  });
  json.objects("hosts", trend.hosts, [&](const TrendHost& host) {
    json.field("host", host.host).field("state", host_word(host.state));
    write_date(json, "since", host.since);
    json.field("checks", host.checks).field("failed", host.failed);
    write_date(json, "last", host.last);
    json.field("missing", host.missing).list("not_passed", host.not_passed);
  });
  json.list("resume", trend.well_again());
  json.objects("findings", trend.findings, [&](const TrendFinding& one) {
    json.field("state", trend_word(one.state));
    write_date(json, "since", one.since);
    write_date(json, "last", one.last);
    write_date(json, "well", one.state == TrendState::better ? one.well : 0);
    json.field("failed", one.failed).field("looked", one.looked).field("after", one.after);
    json.field("check", one.finding.name);
    write_subject(json, one.finding.at);
    json.field("message", one.finding.message);
    write_text_or_null(json, "remedy", one.finding.remedy);
  });
  write_figures(json, trend);
}

}  // namespace collctl::cmd
