// The doctor's findings for people and for scripts.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/format.h"
#include "base/json_writer.h"
#include "base/version.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/json.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostLines = 10;  // of one check that fails on many hosts

std::string cell_text(const Finding& check) {
  std::string text = check.cell;
  if (text.empty()) text = check.measured + (check.unit.empty() ? "" : " " + check.unit);
  if (check.status == FindingStatus::fail) return text + " !";
  return check.odd ? text + " *" : text;
}

// The cells of one check, by host.
struct Column {
  std::string name;
  std::map<std::string, std::string> cells;
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
  std::map<std::string, std::vector<const Finding*>> reach;
  const auto column = [&](const std::string& name) -> Column& {
    for (Column& known : list)
      if (known.name == name) return known;
    return list.emplace_back(Column{name, {}, false});
  };
  for (const Finding& check : diagnosis.checks) {
    if (check.host.empty()) continue;
    if (!check.peer.empty()) {
      reach[check.host].push_back(&check);
      continue;
    }
    std::string& cell = column(check.name).cells[check.host];
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
      const auto cell = column.cells.find(survey.hosts[i].spec.name);
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

// What failed, check by check, each with its remedies.
std::string problems(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  for (const Finding& check : diagnosis.checks)
    if (check.status != FindingStatus::pass &&
        std::find(names.begin(), names.end(), check.name) == names.end())
      names.push_back(check.name);
  std::string text;
  for (const std::string& name : names) {
    std::vector<std::string> remedies;
    size_t lines = 0;
    for (const Finding& check : diagnosis.checks) {
      if (check.name != name || check.status == FindingStatus::pass) continue;
      if (!check.remedy.empty() &&
          std::find(remedies.begin(), remedies.end(), check.remedy) == remedies.end())
        remedies.push_back(check.remedy);
      if (lines++ >= kMostLines) continue;
      const char* word = check.status == FindingStatus::fail ? "FAIL" : "not tested";
      const bool named = check.host.empty() || check.message.rfind(check.host, 0) == 0;
      text += format("{} {}: {}{}\n", word, name, named ? "" : check.host + ": ", check.message);
    }
    if (lines > kMostLines) text += format("  and {} more\n", lines - kMostLines);
    for (const auto& remedy : remedies) text += format("  remedy: {}\n", remedy);
  }
  return text;
}

std::string oddities(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& check : diagnosis.checks)
    if (check.odd && check.status == FindingStatus::pass) {
      text += format("odd  {}: {}: {}\n", check.name, check.host, check.message);
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
  text += oddities(diagnosis) + problems(diagnosis);
  for (const Culprit& culprit : diagnosis.culprits)
    if (!culprit.unreachable)
      text += format("# suspect {} {}: {}\n", culprit.kind, culprit.name, culprit.evidence);
  std::string reasons;
  for (const auto& reason : diagnosis.reasons) reasons += (reasons.empty() ? "" : ", ") + reason;
  text += format("# Verdict: {}\n", reasons.empty() ? "passed" : reasons);
  // Much of it was said by hosts: a terminal must not obey it.
  for (char& c : text)
    if ((uint8_t(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  return text;
}

std::string doctor_json(const Survey& survey, const Diagnosis& diagnosis) {
  JsonWriter json;
  json.begin_object().field("schema", "collctl.doctor/1").field("version", base::kVersion);
  json.key("hosts").begin_array();
  for (const auto& host : survey.hosts) write_host(json, host);
  json.end_array().key("checks").begin_array();
  for (const Finding& check : diagnosis.checks) write_finding(json, check);
  json.end_array();
  write_culprits(json, diagnosis.culprits);
  json.key("verdict").begin_object();
  json.field("ok", diagnosis.code == ErrorCode{}).key("reasons").begin_array();
  for (const auto& reason : diagnosis.reasons)
    json.begin_object()
        .field("code", base::code_name(diagnosis.code))
        .field("message", reason)
        .end_object();
  return json.end_array().end_object().end_object().take() + "\n";
}

}  // namespace collctl::cmd
