#include "cmd/document/judgement.h"

#include "base/format.h"
#include "cmd/judge/json.h"

namespace collctl::cmd {

void error_fields(Record& io, Error& error, int& exit_code) {
  std::string schema = "collctl.error/1", kind = base::code_name(error.code);
  io.field("schema", schema);
  io.field("code", exit_code, 1, 255);
  io.field("kind", kind);
  if (io.reading()) error.code = code_of_reason(kind);
  io.field("message", error.message);
  io.field("context", error.contexts);
  io.field("hint", error.hint);
  if (io.has("rank", error.rank >= 0)) io.field("rank", error.rank);
  io.unless_empty("host", error.host);
  if (io.reading()) error.on(base::saved_host(error.host));
  if (io.has("signal", error.signal != 0)) io.field("signal", error.signal);
}

void write_error(JsonWriter& json, const Error& error, int exit_code) {
  Record io(json);
  error_fields(io, described(error), exit_code);
  fields(io, described(provenance()));
}

std::string error_json(const Error& error, int exit_code) {
  JsonWriter json;
  write_error(json.begin_object(), error, exit_code);
  return json.end_object().take() + "\n";
}

std::string judged_json(JsonWriter& measured, const Verdict& verdict) {
  if (!verdict.error()) {
    write_verdict(measured, verdict);
    return measured.end_object().take() + "\n";
  }
  JsonWriter json;
  json.begin_object();
  write_error(json, *verdict.error(), verdict.exit_code());
  json.key("measured").raw(measured.end_object().take());
  return json.end_object().take() + "\n";
}

std::optional<Error> read_failure(const std::string& text) {
  auto io = Record::read(text);
  if (!io) return std::nullopt;
  std::string schema;
  io->field("schema", schema);
  Error error{ErrorCode::failed, ""};
  int exit_code = 0;
  if (!io->status() || schema != "collctl.error/1") return std::nullopt;
  error_fields(*io, error, exit_code);
  if (!io->status()) return std::nullopt;
  return error;
}

std::string made_text(const Judgement& judged) {
  const auto& [version, date, command] = judged.made;
  if (date.empty()) return "";
  std::string text = format("{}, collctl {}", date, version);
  if (!judged.level.empty()) text += ", level " + judged.level;
  if (judged.seconds > 0) text += format(", {:.1f} s", judged.seconds);
  return command.empty() ? text : text + ": " + command;
}

Result<Judgement> read_judgement(const std::string& text) {
  COLL_ASSIGN(Record io, Record::read(text));
  Judgement read{.document = text};
  std::optional<Error> error;
  io.field("schema", read.schema);
  if (io.status() && read.schema == "collctl.error/1") {
    error_fields(io, error.emplace(ErrorCode::failed, ""), read.exit_code);
    COLL_TRY(io.status());
    if (!io.has("measured", true)) {
      read.verdict = {{}, std::move(error)};
      return read;
    }
    io.document("measured", read.document);
    COLL_ASSIGN(io, Record::read(read.document));
    io.field("schema", read.schema);
  }
  fields(io, read.made);
  if (io.has("level", true)) io.field("level", read.level);
  if (io.has("seconds", true)) io.field("seconds", read.seconds, 0);
  if (io.has("checks", true)) io.field("checks", read.checks);
  if (io.has("culprits", true)) io.field("culprits", read.culprits);
  if (error)
    read.verdict = {{}, std::move(error)};
  else if (io.has("verdict", true))
    io.object("verdict", [&] { read.verdict = read_verdict(io, std::nullopt); });
  COLL_TRY(io.status());
  if (read.exit_code == 0) read.exit_code = read.verdict.exit_code();
  return read;
}

Judgement judgement_of(const std::string& json) {
  auto read = read_judgement(json);
  if (read) return std::move(*read);
  read.error().code = ErrorCode::defect;
  const Verdict verdict{{}, std::move(read.error())};
  return {.document = json, .verdict = verdict, .exit_code = verdict.exit_code()};
}

}  // namespace collctl::cmd
