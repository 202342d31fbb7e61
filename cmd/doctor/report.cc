// The doctor's findings for people and for scripts.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/version.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/json.h"
#include "cmd/judge/text.h"
#include "cmd/report/report.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {
namespace {

// The cells of one check, by host.
struct Column {
  std::string name;
  std::map<Host, std::string> cells;
  bool wanted = false;  // has something to say: the cells differ, or one is marked
};

std::string reach_cell(const std::vector<const Finding*>& checks) {
  size_t good = 0;
  double longest = 0;
  for (const Finding* check : checks) {
    if (check->status != FindingStatus::pass) continue;
    ++good;
    longest = std::max(longest, std::strtod(check->measured.c_str(), nullptr));
  }
  std::string text = format("{}/{}", good, checks.size());
  if (good > 0)
    text += longest < 1e4 ? format(" {:.0f} us", longest) : format(" {:.0f} ms", longest / 1e3);
  return good == checks.size() ? text : text + " !";
}

std::vector<Column> columns(const Diagnosis& diagnosis) {
  std::vector<Column> list;
  std::map<Host, std::vector<const Finding*>> reach;
  const auto column = [&](const std::string& name) -> Column& {
    for (Column& known : list)
      if (known.name == name) return known;
    return list.emplace_back(Column{name, {}, false});
  };
  for (const Finding& check : diagnosis.checks) {
    if (!check.at.host.named()) continue;
    if (check.at.peer.named()) {
      reach[check.at.host].push_back(&check);
      continue;
    }
    std::string& cell = column(check.name).cells[check.at.host];
    // A device that fails stands before what the host has in all.
    if (cell.empty() || check.status == FindingStatus::fail) cell = cell_text(check);
  }
  for (const auto& [host, checks] : reach) column("reach").cells[host] = reach_cell(checks);
  for (Column& one : list) {
    one.wanted = one.name == "connect" || one.name == "clock" || one.name == "reach";
    for (const auto& [host, cell] : one.cells)
      one.wanted = one.wanted || cell != one.cells.begin()->second || cell.ends_with('!') ||
                   cell.ends_with('*');
  }
  return list;
}

// Hosts by checks; what is the same on all hosts stands in one line before.
std::string table(const Survey& survey, const Diagnosis& diagnosis) {
  const auto all = columns(diagnosis);
  std::string same, text = "# host";
  std::vector<std::string> rows;
  size_t width = 4;
  for (const auto& host : survey.hosts) width = std::max(width, host.spec.name.size());
  text += std::string(width - 4, ' ');
  for (const auto& host : survey.hosts) rows.push_back(format("  {:<{}}", host.spec.name, width));
  for (const Column& column : all) {
    if (!column.wanted) {
      same +=
          format("{}{} {}", same.empty() ? "" : ", ", column.name, column.cells.begin()->second);
      continue;
    }
    width = column.name.size();
    for (const auto& [host, cell] : column.cells) width = std::max(width, cell.size());
    text += format("  {:<{}}", column.name, width);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto cell = column.cells.find(survey.hosts[i].spec.host());
      rows[i] += format("  {:<{}}", cell == column.cells.end() ? "-" : cell->second, width);
    }
  }
  text.resize(text.find_last_not_of(' ') + 1);
  text += "\n";
  for (std::string& row : rows) {
    row.resize(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return (same.empty() ? "" : format("# same on all hosts: {}\n", same)) + text;
}

// One host: a line for each check.
std::string list(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& check : diagnosis.checks)
    if (check.name != "connect") text += format("  {:<8}  {}\n", check.name, cell_text(check));
  return text;
}

std::string oddities(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& check : diagnosis.checks)
    if (check.odd && check.status == FindingStatus::pass) {
      text += format("odd  {}: {}: {}\n", check.name, check.at.host, check.message);
      if (!check.remedy.empty()) text += format("  remedy: {}\n", check.remedy);
    }
  return text;
}

void write_host(JsonWriter& json, const SurveyedHost& host) {
  json.begin_object().field("host", host.spec.name).field("reached", !host.error);
  if (host.up_s > 0) json.field("seconds", host.up_s);
  write_text_or_null(json, "client", host.client);
  json.key("facts");
  if (host.facts)
    json.raw(launcher::facts_to_json(*host.facts));
  else
    json.null();
  json.end_object();
}

}  // namespace

std::string doctor_text(const Survey& survey, const Diagnosis& diagnosis, bool connections) {
  size_t lost = 0;
  for (const auto& host : survey.hosts) lost += host.error ? 1 : 0;
  const size_t count = survey.hosts.size();
  std::string text = format("# collctl doctor {}: {}", base::kVersion,
                            count == 1 ? survey.hosts[0].spec.name : format("{} hosts", count));
  if (lost > 0) text += format(", {} could not be asked", lost);
  text += "\n";
  for (const auto& host : survey.hosts)
    if (connections && !host.client.empty())
      text += format("# {}: {}\n", host.spec.name, host.client);
  text += (count == 1 && lost == 0 ? list(diagnosis) : table(survey, diagnosis));
  text += oddities(diagnosis) + problems_text(diagnosis.checks) + suspects_text(diagnosis.culprits);
  return shown(text + verdict_text(diagnosis.verdict()));
}

std::string doctor_json(const Survey& survey, const Diagnosis& diagnosis) {
  JsonWriter json;
  begin_document(json, "collctl.doctor/1");
  json.key("hosts").begin_array();
  for (const auto& host : survey.hosts) write_host(json, host);
  json.end_array();
  write_checks(json, diagnosis.checks, diagnosis.culprits);
  return judged_json(json, diagnosis.verdict());
}

Result<Survey> read_survey(const std::string& json) {
  COLL_ASSIGN(Record io, Record::read(json));
  Survey survey;
  io.list("hosts", survey.hosts, [&](SurveyedHost& host) {
    io.object("hosts", [&] {
      bool reached = true;
      Host named;
      io.field("host", named);
      host.spec.id = named.id;
      host.spec.name = named.name;
      io.field("reached", reached);
      if (!reached) host.error = Error(ErrorCode::launch, "it could not be asked");
      if (io.has("client", true)) io.field("client", host.client);
    });
  });
  COLL_TRY(io.status());
  return survey;
}

}  // namespace collctl::cmd
