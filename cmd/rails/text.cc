// The report of `rails`: its document for people, one object for scripts.
#include <algorithm>
#include <set>
#include <sstream>

#include "base/format.h"
#include "base/shell.h"
#include "cmd/judge/json.h"
#include "cmd/rails/memory_judge.h"
#include "cmd/rails/usual.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostPairs = 6;  // of hosts whose tables are shown without -v

// A path's failure, in a word for a cell.
std::string cell_word(RailEnd end, const RailsNic& from, const RailsNic& to) {
  switch (end) {
    case RailEnd::ok:
      return "";
    case RailEnd::unlike:
      return "-";
    case RailEnd::no_address:
      return "GID";
    case RailEnd::unreachable:
      return "no route";
    case RailEnd::silent:
      return "no answer";
    case RailEnd::large_lost:
      return format("MTU {}/{}", from.mtu, to.mtu);
    case RailEnd::failed:
      return "failed";
    case RailEnd::bad_data:
      return "wrong data";
  }
  return "";
}

// A pair of hosts as the table shows it: one direction, and the other where it was tried.
struct BothWays {
  const RailsReport& report;
  const RailsFindings& found;
  size_t there = 0;
  std::optional<size_t> back = {};

  const RailsHost& from() const { return report.hosts[size_t(report.pairs[there].from)]; }
  const RailsHost& to() const { return report.hosts[size_t(report.pairs[there].to)]; }
  const RailResult& cell(size_t i, size_t j) const {
    return report.pairs[there].cells[i * to().nics.size() + j];
  }
  const RailResult* cell_back(size_t i, size_t j) const {
    return back ? &report.pairs[*back].cells[j * from().nics.size() + i] : nullptr;
  }
  bool is_slow(const RailAt& at) const { return std::ranges::binary_search(found.slow, at); }
  // In a fabric of rails, a path across them that leads nowhere is as it should be.
  bool meant(size_t i, size_t j) const {
    return !found.rail_only || from().nics[i].name == to().nics[j].name;
  }
  std::string text(size_t i, size_t j) const {
    const RailResult& one = cell(i, j);
    const RailResult* other = cell_back(i, j);
    const bool other_ok = other == nullptr || other->end == RailEnd::ok;
    const char* mark = meant(i, j) ? " !" : "";
    const RailsNic &a = from().nics[i], &b = to().nics[j];
    if (one.end == RailEnd::unlike) return "-";
    if (one.end != RailEnd::ok)
      return (other_ok && other != nullptr ? "> " : "") + cell_word(one.end, a, b) + mark;
    if (!other_ok) return "< " + cell_word(other->end, b, a) + mark;
    const double least = other != nullptr ? std::min(one.GBps, other->GBps) : one.GBps;
    const bool slow = is_slow({there, i, j}) || (back && is_slow({*back, j, i}));
    return format("{:.3g}{}", least, slow ? " *" : "");
  }
  bool all_good() const {
    for (size_t i = 0; i < from().nics.size(); ++i)
      for (size_t j = 0; j < to().nics.size(); ++j)
        if (meant(i, j) && text(i, j).find_first_of("!*") != std::string::npos) return false;
    return true;
  }
};

std::vector<BothWays> host_pairs(const RailsReport& report, const RailsFindings& found) {
  std::vector<BothWays> list;
  for (size_t p = 0; p < report.pairs.size(); ++p) {
    const RailPair& pair = report.pairs[p];
    if (pair.from > pair.to) continue;
    BothWays both{.report = report, .found = found, .there = p};
    for (size_t q = 0; q < report.pairs.size(); ++q)
      if (report.pairs[q].from == pair.to && report.pairs[q].to == pair.from) both.back = q;
    list.push_back(both);
  }
  return list;
}

// Hosts of one NIC each are one matrix.
bool fits_one_matrix(const RailsReport& report) {
  return report.hosts.size() > 2 &&
         std::ranges::all_of(report.hosts, [](const auto& h) { return h.nics.size() == 1; });
}

TextMatrix one_matrix(const RailsReport& report, const RailsFindings& found) {
  TextMatrix matrix{.rows = {.left = true}};
  matrix.rows.title = "from \\ to";
  for (const RailsHost& host : report.hosts) {
    matrix.rows.cells.push_back(format("{} {}", host.host, host.nics[0].name));
    TableColumn& column = matrix.columns.emplace_back();
    column.title = host.host.name;
    column.cells.assign(report.hosts.size(), "-");
  }
  for (size_t p = 0; p < report.pairs.size(); ++p) {
    const RailPair& pair = report.pairs[p];
    const RailResult& cell = pair.cells[0];
    const bool slow = std::ranges::binary_search(found.slow, RailAt{p, 0, 0});
    const std::string word = cell_word(cell.end, report.hosts[size_t(pair.from)].nics[0],
                                       report.hosts[size_t(pair.to)].nics[0]);
    matrix.columns[size_t(pair.to)].cells[size_t(pair.from)] =
        cell.end == RailEnd::ok       ? format("{:.3g}{}", cell.GBps, slow ? " *" : "")
        : cell.end == RailEnd::unlike ? word
                                      : word + " !";
  }
  return matrix;
}

TextMatrix table(const BothWays& pair) {
  const auto &rows = pair.from().nics, &columns = pair.to().nics;
  TextMatrix matrix{.rows = {.left = true}};
  matrix.rows.title = pair.from().host.name + " \\ " + pair.to().host.name;
  for (const RailsNic& nic : rows) matrix.rows.cells.push_back(nic.name);
  for (size_t j = 0; j < columns.size(); ++j) {
    TableColumn& column = matrix.columns.emplace_back();
    column.title = columns[j].name;
    for (size_t i = 0; i < rows.size(); ++i) column.cells.push_back(pair.text(i, j));
  }
  return matrix;
}

// The GIDs that this NIC's paths use.
std::string gids_used(const RailsReport& report, size_t host, size_t nic) {
  std::set<int> used;
  for (const RailPair& pair : report.pairs) {
    const size_t columns = report.hosts[size_t(pair.to)].nics.size();
    for (size_t cell = 0; cell < pair.cells.size(); ++cell) {
      if (size_t(pair.from) == host && cell / columns == nic)
        used.insert(pair.cells[cell].from_gid);
      if (size_t(pair.to) == host && cell % columns == nic) used.insert(pair.cells[cell].to_gid);
    }
  }
  std::string text;
  for (const RailsGid& gid : report.hosts[host].nics[nic].gids)
    if (used.contains(gid.index))
      text +=
          format("{}GID {} {} ({})", text.empty() ? "" : ", ", gid.index, gid.address, gid.type);
  return text;
}

// Kind of a NIC, without what only this one has.
std::string kind_text(const RailsNic& nic) {
  std::string text = nic.link;
  if (nic.rate_Gbps > 0) text += format(" {:g} Gb/s", nic.rate_Gbps);
  return text + format(" MTU {}", nic.mtu);
}

// Hosts whose NICs are alike are one line.
Facts alike_hosts(const RailsReport& report) {
  NamesBy<std::string> alike;
  for (const RailsHost& host : report.hosts) {
    NamesBy<std::string> nics;
    for (const RailsNic& nic : host.nics) nics[kind_text(nic)].push_back(nic.name);
    std::string text;
    for (const auto& [kind, names] : nics.groups()) {
      text += text.empty() ? "" : "; ";
      for (const std::string& name : names) text += name + (&name == &names.back() ? " " : ", ");
      text += kind;
    }
    alike[text.empty() ? "no NIC" : text].push_back(host.host.name);
  }
  Facts facts;
  for (const auto& [text, hosts] : alike.groups())
    facts.lines.push_back(format("{}: {}", folded_hosts(hosts), text));
  return facts;
}

// Every NIC with the addresses that its paths use.
Table each_nic(const RailsReport& report) {
  Table table{titled({"<host", "<NIC", "<link", "Gb/s", "MTU", "LID", "<address"})};
  for (size_t h = 0; h < report.hosts.size(); ++h) {
    const RailsHost& host = report.hosts[h];
    if (report.one_host && h > 0) break;  // the same host again
    for (size_t n = 0; n < host.nics.size(); ++n) {
      const RailsNic& nic = host.nics[n];
      const std::string gids = gids_used(report, h, n);
      const char* const gap = nic.address.empty() || gids.empty() ? "" : ", ";
      table.add({host.host.name, nic.name, nic.link,
                 nic.rate_Gbps > 0 ? format("{:g}", nic.rate_Gbps) : "-", std::to_string(nic.mtu),
                 nic.lid != 0 ? std::to_string(nic.lid) : "-", nic.address + gap + gids});
    }
  }
  return table;
}

// NICs that are not used, and why; hosts that say the same are one line.
Facts not_used(const RailsReport& report) {
  NamesBy<std::string> said;
  for (size_t h = 0; h < report.hosts.size(); ++h) {
    const RailsHost& host = report.hosts[h];
    if (report.one_host && h > 0) break;
    for (const std::string& unused : host.unused)
      said["not used: " + unused].push_back(host.host.name);
    if (!host.busy.empty()) said["busy: " + host.busy].push_back(host.host.name);
    if (!host.gpus.why_none.empty())
      said["GPUs cannot be used: " + host.gpus.why_none].push_back(host.host.name);
    if (host.unused.empty() && !host.why_no_rdma.empty())
      said["no RDMA: " + host.why_no_rdma].push_back(host.host.name);
  }
  Facts facts;
  for (const auto& [text, hosts] : said.groups())
    facts.lines.push_back(format("{}: {}", folded_hosts(hosts), text));
  return facts;
}

// Variables ("A=1 B=x") as a line for a shell: what hosts call their devices is quoted.
std::string export_line(const std::string& recommended, const char* prefix) {
  constexpr std::string_view kOurs = "COLLCTL_";
  std::string text = "export";
  std::istringstream words(recommended);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (!word.starts_with(kOurs) || equals == word.npos)
      continue;  // a device with a blank in its name
    text += format(" {}{}={}", prefix, word.substr(kOurs.size(), equals - kOurs.size()),
                   base::shell_quoted(word.substr(equals + 1)));
  }
  return text;
}

// The matrices, and what their marks mean.
void add_matrices(const RailsReport& report, const RailsFindings& found, Document& document) {
  const bool one = fits_one_matrix(report);
  std::string legend =
      one ? "GB/s from rows to columns" : "GB/s from rows to columns and back, the lower of both";
  if (found.below > 0) legend += format("; * below {:g} of what is usual", found.below);
  legend += one ? "; ! fails" : "; ! fails, > only there, < only back";
  if (one) {
    document.parts.push_back({Grid{legend, one_matrix(report, found)}});
    return;
  }
  const auto pairs = host_pairs(report, found);
  size_t hidden = 0;
  for (const BothWays& pair : pairs) {
    const bool good = pairs.size() > kMostPairs && pair.all_good();
    hidden += good;
    document.parts.push_back({Grid{legend, table(pair)}, good ? Shown::whole : Shown::always});
    legend.clear();
  }
  if (hidden > 0)
    document.parts.push_back(
        {Facts{{format("{} of {} pairs of hosts are all right and not shown; -v shows them", hidden,
                       pairs.size())}},
         Shown::brief});
}

}  // namespace

PathMatrix rails_paths(const RailsReport& report, const RailsFindings& found) {
  PathMatrix paths;
  std::vector<size_t> first;  // end of each host
  const size_t hosts = report.hosts.size();
  for (size_t h = 0; h < hosts; ++h) {
    // One host stands there twice, and reaches itself.
    first.push_back(report.one_host ? 0 : paths.ends.size());
    if (report.one_host && h > 0) continue;
    for (const RailsNic& nic : report.hosts[h].nics)
      paths.ends.push_back({report.hosts[h].host, nic.name});
    if (!report.hosts[h].busy.empty()) paths.busy.push_back(report.hosts[h].host);
  }
  paths.GBps.assign(paths.ends.size(), std::vector<double>(paths.ends.size(), kNotTried));
  for (const RailAt& at : all_cells(report)) {
    const RailPair& pair = report.pairs[at.pair];
    const RailResult& cell = cell_at(report, at);
    const bool meant = !found.rail_only || nic_from(report, at).name == nic_to(report, at).name;
    if (cell.end == RailEnd::unlike || (cell.end != RailEnd::ok && !meant)) continue;
    paths.GBps[first[size_t(pair.from)] + at.from][first[size_t(pair.to)] + at.to] =
        cell.end == RailEnd::ok ? cell.GBps : 0;
  }
  return paths;
}

Document rails_document(const RailsReport& report, const RailsFindings& found, std::string json) {
  const size_t hosts = report.one_host ? 1 : report.hosts.size();
  Document document = document_with(std::move(json), "checks");
  document.title =
      format("collctl rails: {}", hosts == 1 ? report.hosts[0].host.name : counted(hosts, "host"));
  document.heading = format("collctl rails: {}, {}, messages of {}", counted(hosts, "host"),
                            found.rdma ? "RDMA (NET/IB)" : "sockets (NET/Socket)",
                            human_bytes(report.message_bytes));
  document.summary = joined(found.summary);
  document.svg = paths_svg("Paths between NICs", rails_paths(report, found));
  for (size_t h = 0; h < hosts; ++h) document.hosts.push_back(report.hosts[h].host.name);
  if (report.one_host)
    document.parts.push_back({Facts{{"there is only one host: its NICs loop back to each other"}}});
  document.parts.push_back({alike_hosts(report), Shown::brief});
  document.parts.push_back({each_nic(report), Shown::whole});
  document.parts.push_back({not_used(report)});
  if (!report.pairs.empty()) add_matrices(report, found, document);
  for (DocumentPart& part : memory_parts(report)) document.parts.push_back(std::move(part));
  Facts facts;
  if (found.good > 0)
    facts.lines.push_back(format("{} of {} paths pass: median {:.3g} GB/s, least {:.3g} GB/s",
                                 found.good, found.tried, found.median_GBps, found.least_GBps));
  if (found.rail_only)
    facts.lines.push_back(
        "rails: NICs reach those of their name only, as a rail-only fabric has it");
  if (found.came_back > 0)
    facts.lines.push_back(format("bad once and good when measured again: {} of {} paths",
                                 found.came_back, found.tried));
  document.parts.push_back({std::move(facts)});
  if (!found.recommended.empty())
    document.parts.push_back({Drawn{[recommended = found.recommended](size_t) {
                                return format("recommended for collctl, and for NCCL:\n{}\n{}\n",
                                              export_line(recommended, "COLLCTL_"),
                                              export_line(recommended, "NCCL_"));
                              }},
                              Shown::always, true});
  if (!found.note.empty()) document.parts.push_back({Facts{{found.note}}, Shown::always, true});
  return document;
}

std::string rails_json(const RailsReport& report, const RailsFindings& found,
                       const Verdict& verdict) {
  JsonWriter json;
  begin_document(json, "collctl.rails/1");
  json.field("network", found.rdma ? "ib" : "socket");
  write_rails(json, report);
  json.field("rail_only", found.rail_only).field("ways", found.tried).field("good", found.good);
  json.field("median_GBps", found.median_GBps).field("least_GBps", found.least_GBps);
  // Failures, in the form of the first reports.
  json.key("findings").begin_array();
  for (const Finding& finding : found.checks)
    if (finding.status == FindingStatus::fail && finding.name != "blame")
      json.begin_object()
          .field("kind", finding.reason)
          .field("host", finding.at.host)
          .field("nic", finding.at.device)
          .field("peer", finding.at.peer)
          .field("peer_nic", finding.at.peer_device)
          .field("message", finding.message)
          .field("remedy", finding.remedy)
          .end_object();
  json.end_array();
  write_checks(json, found.checks, found.culprits);
  json.field("below", found.below);
  write_text_or_null(json, "recommended", found.recommended);
  write_text_or_null(json, "note", found.note);
  return judged_json(json, verdict);
}

}  // namespace collctl::cmd
