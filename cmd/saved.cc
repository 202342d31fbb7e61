#include "cmd/saved.h"

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cmd/burn/burn.h"
#include "cmd/check/check.h"
#include "cmd/doctor/doctor.h"
#include "cmd/gpu_test/gpu_test.h"
#include "cmd/memory_test/memory_test.h"
#include "cmd/nccl_facts/nccl_facts.h"
#include "cmd/rails/rails.h"
#include "cmd/status/ras.h"
#include "cmd/window_test/window_test.h"

namespace collctl::cmd {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr const char* kNoEnd = "the file has no end: the run was killed, or goes on";

std::vector<std::string> reasons_of(const Judgement& judged) {
  std::vector<std::string> reasons;
  for (const Reason& reason : judged.verdict.reasons()) reasons.push_back(reason.message);
  return reasons;
}

Status fill_bench(Saved& saved) {
  COLL_ASSIGN(const SavedReport read, read_report(saved.document.json));
  saved.document = bench_document(read.report, read.verdict, saved.document.json);
  saved.document.judged.verdict = read.verdict;
  saved.document.judged.exit_code = read.exit_code;
  saved.bench = read.report;
  return {};
}

Status fill_rails(Saved& saved) {
  const Judgement& judged = saved.document.judged;
  COLL_ASSIGN(const RailsReport report, read_rails(judged.document));
  COLL_ASSIGN(Record io, Record::read(judged.document));
  double below = 0;
  if (io.has("below", true)) io.field("below", below, 0, 1);
  COLL_TRY(io.status());
  RailsFindings found = judge_rails(report, below);
  found.checks = judged.checks;  // with hosts that took no part
  found.culprits = judged.culprits;
  found.summary = reasons_of(judged);
  saved.paths = rails_paths(report, found);
  saved.document = rails_document(report, found, saved.document.json);
  return {};
}

Status fill_doctor(Saved& saved) {
  const Judgement& judged = saved.document.judged;
  COLL_ASSIGN(const Survey survey, read_survey(judged.document));
  saved.document = doctor_document(
      survey, {.checks = judged.checks, .culprits = judged.culprits, .summary = reasons_of(judged)},
      saved.document.json);
  return {};
}

Status fill_check(Saved& saved) {
  COLL_ASSIGN(const CheckReport report, read_check(saved.document.judged));
  COLL_ASSIGN(const std::string picture, more_pictures(report));
  saved.paths = report.paths;
  saved.document = check_document(report, saved.document.json);
  saved.document.more_svg = picture;
  return {};
}

// Reports that are read and shown by two functions.
template <auto read, auto shown>
Status fill_by(Saved& saved) {
  COLL_ASSIGN(const auto report, read(saved.document.judged.document));
  saved.document = shown(report, saved.document.json);
  return {};
}

// A document without a reader of its own: its lists as tables, and how it ended by what it says.
Status fill_lists(Saved& saved) {
  Judgement& judged = saved.document.judged;
  Record io = *Record::read(judged.document);  // it was read before
  std::vector<Finding> findings;
  if (io.has("equal", true)) {  // topo --diff
    bool equal = true;
    io.field("equal", equal);
    if (!equal) findings.emplace_back(Finding{.name = "diff"}).fail(ErrorCode::failed, "not equal");
  }
  if (io.has("exit_code", true)) io.field("exit_code", judged.exit_code, 0, 255);
  if (judged.schema == "collctl.topo-hosts/1") {
    std::vector<int> groups;
    io.list("groups", groups, [&](int&) { io.object("groups", [] {}); });
    if (groups.size() > 1)
      findings.emplace_back(Finding{.name = "machine"})
          .fail(ErrorCode::failed, "not all hosts are the same machine");
    std::vector<std::string> hosts;
    io.objects("hosts", hosts, [&](std::string& host) {
      io.field("host", host);
      if (io.has("error", true))
        findings.emplace_back(Finding{.name = "machine"})
            .fail(ErrorCode::launch, format("{} could not be asked", host));
    });
  }
  COLL_TRY(io.status());
  if (!findings.empty()) judged.verdict = Verdict(findings, std::nullopt);
  if (judged.exit_code == 0) judged.exit_code = judged.verdict.exit_code();
  saved.document.title = judged.schema.substr(0, judged.schema.find('/'));
  saved.document.heading = saved.document.title;
  saved.document.parts.push_back(
      {Drawn{[json = saved.document.json](size_t width) { return lists_text(json, width); }}});
  return {};
}

struct Kind {
  const char* schema;
  const char* rows;  // the list in it
  Status (*fill)(Saved& saved);
};
constexpr Kind kKinds[] = {
    {"collctl.bench/1", "results", fill_bench},
    {"collctl.check/1", "checks", fill_check},
    {"collctl.doctor/1", "checks", fill_doctor},
    {"collctl.rails/1", "checks", fill_rails},
    {"collctl.window-test/1", "checks", fill_by<read_window_report, window_document>},
    {"collctl.topo/1", "gpus", fill_lists},
    {"collctl.topo-hosts/1", "groups", fill_lists},
    {"collctl.topo-diff/1", "differences", fill_lists},
    {"collctl.topo-hosts-diff/1", "hosts", fill_lists},
    {"collctl.run/1", "ranks", fill_lists},
    {"collctl.runs/1", "timings", fill_lists},
    {"collctl.diff/1", "timings", fill_lists},
    {"collctl.trend/1", "figures", fill_lists},
    {"collctl.status/1", "jobs", fill_lists},
    {"collctl.ras/1", "missing", fill_by<read_ras_report, ras_document>},
    {"collctl.memory-test/1", "rows", fill_by<read_memory, memory_document>},
    {"collctl.gpu-test/1", "hosts", fill_by<read_gpu_report, gpu_document>},
    {"collctl.burn-test/1", "devices", fill_by<read_burn, burn_document>},
    {"collctl.nccl-facts/1", "variables", fill_by<read_nccl_facts, nccl_facts_document>},
};

Result<const Kind*> kind_of(const std::string& schema) {
  std::string known;
  for (const Kind& kind : kKinds) {
    if (schema == kind.schema) return &kind;
    known += format("{}{}", known.empty() ? "" : ", ", kind.schema);
  }
  return Error(ErrorCode::usage, format("schema '{}'; expected one of {}", schema, known),
               "a report is what a command writes with --json, -o FILE.json or -o FILE.jsonl");
}

// --- lines ---

std::string text_of(const Ordered& json) {
  return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

// A text of an object; empty: it has none of that name.
std::string word_in(const Ordered& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

Ordered no_end() {
  return {{"ok", false},
          {"reasons", Ordered::array({{{"code", kNotTested.word},
                                       {"message", kNoEnd},
                                       {"host", nullptr},
                                       {"rank", nullptr}}})}};
}

// A collective's: header, results, faults, closing, and its end.
std::string joined_records(const std::vector<Ordered>& lines) {
  Ordered all = lines.front(), end;
  all.erase("record");
  all["results"] = Ordered::array();
  for (const Ordered& line : lines) {
    const std::string record = word_in(line, "record");
    Ordered content = line;
    content.erase("record");
    if (record == "result") all["results"].push_back(content);
    if (record == "fault") all["faults"].push_back(content);
    if (record == "closing") all.update(content);
    if (record == "verdict") all["verdict"] = content;
    if (record == "error") end = content;
  }
  if (!end.is_null()) {
    end["measured"] = all;
    return text_of(end);
  }
  if (!all.contains("verdict")) all["verdict"] = no_end();
  return text_of(all);
}

// A soak's: rounds, and last the whole of it.
Result<std::string> joined_rounds(const std::vector<std::string>& lines) {
  std::optional<SoakTotal> total;
  for (const std::string& line : lines) {
    COLL_ASSIGN(const Judgement judged, read_judgement(line));
    if (judged.schema != "collctl.check/1")
      return Error(ErrorCode::usage,
                   format("a line of schema '{}' among those of a soak", judged.schema));
    COLL_ASSIGN(const CheckReport round, read_check(judged));
    if (round.soak) return line;
    if (!total) total.emplace(round.seconds * SoakTotal::kIntervals);  // how long is not known
    total->add(round);
  }
  const CheckReport report = total->report(kNoEnd);
  return check_json(report, Verdict(report.findings, std::nullopt));
}

}  // namespace

Result<std::string> document_of_lines(const std::string& text) {
  const size_t first = text.find('\n');
  if (first == std::string::npos || text.find_first_not_of(" \n\r\t", first) == std::string::npos)
    return text;
  if (!Record::read(text.substr(0, first))) return text;  // a document of several lines
  std::vector<std::string> texts;
  std::vector<Ordered> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end == std::string::npos ? text.size() : end + 1;
    if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
    if (const auto read = Record::read(line); !read) {
      if (end == std::string::npos) break;  // it was killed while it wrote this
      return Error(read.error()).within(format("line {}", texts.size() + 1));
    }
    texts.push_back(line);
    lines.push_back(Ordered::parse(line));
  }
  const Ordered& head = lines.front();
  if (word_in(head, "record") == "header") return joined_records(lines);
  if (head.contains("round")) return joined_rounds(texts);
  // A document without its list, and the entries.
  Ordered all = head;
  const bool broke = all.contains("measured") && all["measured"].is_object();
  Ordered& inner = broke ? all["measured"] : all;
  COLL_ASSIGN(const Kind* const kind, kind_of(word_in(inner, "schema")));
  const char* rows =
      inner.contains("choices") || inner.contains("cluster") ? "choices" : kind->rows;
  Ordered& list = inner[rows] = Ordered::array();
  for (size_t i = 1; i < lines.size(); ++i) list.push_back(std::move(lines[i]));
  return text_of(all);
}

Result<Saved> read_saved(const std::string& text) {
  COLL_ASSIGN(const std::string json, document_of_lines(text));
  COLL_ASSIGN(Judgement judged, read_judgement(json));
  if (judged.schema == "collctl.error/1" && judged.verdict.error())
    return Error(ErrorCode::usage, "it is about a run that broke off before anything was measured")
        .within(judged.verdict.error()->chain());
  COLL_ASSIGN(const Kind* const kind, kind_of(judged.schema));
  Saved saved{.document = {}};
  saved.document.judged = std::move(judged);
  saved.document.json = json;
  saved.document.rows = kind->rows;
  COLL_TRY(kind->fill(saved));
  return saved;
}

}  // namespace collctl::cmd
