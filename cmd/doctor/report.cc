// The doctor's findings for people and for scripts.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/json_writer.h"
#include "cmd/doctor/doctor.h"
#include "cmd/judge/finding.h"
#include "cmd/judge/json.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"

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
    longest = std::max(longest, check->figure());
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
    // All that is found of devices is one column.
    std::string& cell = column(check.name.substr(0, check.name.find('/'))).cells[check.at.host];
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
void add_table(const Survey& survey, const Diagnosis& diagnosis, Document& document) {
  std::string same;
  Grid grid{.matrix = {.rows = {.title = "host", .left = true}}};
  for (const auto& host : survey.hosts) grid.matrix.rows.cells.push_back(host.spec.name);
  for (const Column& column : columns(diagnosis)) {
    if (!column.wanted) {
      same +=
          format("{}{} {}", same.empty() ? "" : ", ", column.name, column.cells.begin()->second);
      continue;
    }
    TableColumn& made = grid.matrix.columns.emplace_back();
    made.title = column.name;
    made.left = true;
    for (const auto& host : survey.hosts) {
      const auto cell = column.cells.find(host.spec.host());
      made.cells.push_back(cell == column.cells.end() ? "-" : cell->second);
    }
  }
  if (!same.empty()) document.parts.push_back({Facts{{"same on all hosts: " + same}}});
  document.parts.push_back({std::move(grid)});
}

// Which interfaces jobs leave alone unless they are named, and why; alike hosts in one line.
Facts unused_interfaces(const Survey& survey) {
  NamesBy<std::string> alike;
  for (const auto& host : survey.hosts) {
    std::string text;
    for (const auto& one : host.facts ? host.facts->interfaces : std::vector<base::NetInterface>())
      if (!one.aside.empty() && !one.loopback)
        text += format("{}{} ({})", text.empty() ? "" : ", ", one.name, one.aside);
    if (!text.empty()) alike[text].push_back(host.spec.name);
  }
  Facts unused;
  for (const auto& [text, names] : alike.groups())
    unused.lines.push_back(format("not used by jobs on {}: {}", folded_hosts(names), text));
  return unused;
}

// One host: a line for each check.
Table list(const Diagnosis& diagnosis) {
  Table table{titled({"<check", "<found"})};
  for (const Finding& check : diagnosis.checks)
    if (check.name != "connect") table.add({check.name, cell_text(check)});
  return table;
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
  json.key("state");
  if (host.state.state)
    json.raw(json_of(*host.state.state));
  else
    json.null();
  json.end_object();
}

}  // namespace

Document doctor_document(const Survey& survey, const Diagnosis& diagnosis, std::string json) {
  const size_t hosts = survey.hosts.size();
  const auto lost = size_t(
      std::ranges::count_if(survey.hosts, [](const auto& host) { return host.error.has_value(); }));
  Document document = document_with(std::move(json), "checks");
  document.title =
      format("collctl doctor: {}", hosts == 1 ? survey.hosts[0].spec.name : counted(hosts, "host"));
  document.summary = joined(diagnosis.summary);
  document.heading = document.title;
  if (lost > 0) document.heading = format("{}, {} could not be asked", document.title, lost);
  Facts connections;
  for (const auto& host : survey.hosts) document.hosts.push_back(host.spec.name);
  for (const auto& host : survey.hosts)
    if (!host.client.empty())
      connections.lines.push_back(format("{}: {}", host.spec.name, host.client));
  document.parts.push_back({std::move(connections), Shown::whole});
  document.parts.push_back({unused_interfaces(survey), Shown::whole});
  if (hosts == 1 && lost == 0)
    document.parts.push_back({list(diagnosis)});
  else
    add_table(survey, diagnosis, document);
  return document;
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
  io.objects("hosts", survey.hosts, [&](SurveyedHost& host) {
    bool reached = true;
    Host named;
    io.field("host", named);
    host.spec.id = named.id;
    host.spec.name = named.name;
    io.field("reached", reached);
    if (!reached) host.error = Error(ErrorCode::launch, "it could not be asked");
    if (io.has("client", true)) io.field("client", host.client);
  });
  COLL_TRY(io.status());
  return survey;
}

}  // namespace collctl::cmd
