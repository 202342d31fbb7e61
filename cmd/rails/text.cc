// The reports of `rails`: tables for people, one object for scripts.
#include <algorithm>
#include <set>
#include <sstream>

#include "base/format.h"
#include "base/version.h"
#include "base/shell.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostPairs = 6;      // of hosts whose tables are shown without -v
constexpr size_t kMostFindings = 10;  // of one kind of finding

// What fails, in a word for a cell.
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
  const RailsVerdict& verdict;
  size_t there = 0;
  std::optional<size_t> back = {};

  const RailsHost& from() const { return report.hosts[size_t(report.pairs[there].from)]; }
  const RailsHost& to() const { return report.hosts[size_t(report.pairs[there].to)]; }
  const RailsCell& cell(size_t i, size_t j) const {
    return report.pairs[there].cells[i * to().nics.size() + j];
  }
  const RailsCell* cell_back(size_t i, size_t j) const {
    return back ? &report.pairs[*back].cells[j * from().nics.size() + i] : nullptr;
  }
  bool is_slow(const RailAt& at) const {
    return std::binary_search(verdict.slow.begin(), verdict.slow.end(), at);
  }
  // Of a fabric of rails, a path across them that leads nowhere is as it should be.
  bool meant(size_t i, size_t j) const {
    return !verdict.rail_only || from().nics[i].name == to().nics[j].name;
  }
  std::string text(size_t i, size_t j) const {
    const RailsCell& one = cell(i, j);
    const RailsCell* other = cell_back(i, j);
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

std::vector<BothWays> host_pairs(const RailsReport& report, const RailsVerdict& verdict) {
  std::vector<BothWays> list;
  for (size_t p = 0; p < report.pairs.size(); ++p) {
    const RailsPair& pair = report.pairs[p];
    if (pair.from > pair.to) continue;
    BothWays both{.report = report, .verdict = verdict, .there = p};
    for (size_t q = 0; q < report.pairs.size(); ++q)
      if (report.pairs[q].from == pair.to && report.pairs[q].to == pair.from) both.back = q;
    list.push_back(both);
  }
  return list;
}

std::string table(const BothWays& pair) {
  const auto &rows = pair.from().nics, &columns = pair.to().nics;
  const std::string corner = pair.from().host + " \\ " + pair.to().host;
  size_t first = corner.size();
  for (const RailsNic& nic : rows) first = std::max(first, nic.name.size());
  std::vector<size_t> widths;
  for (size_t j = 0; j < columns.size(); ++j) {
    size_t width = columns[j].name.size();
    for (size_t i = 0; i < rows.size(); ++i) width = std::max(width, pair.text(i, j).size());
    widths.push_back(width);
  }
  std::string text = format("  {:<{}}", corner, first);
  for (size_t j = 0; j < columns.size(); ++j)
    text += format("  {:>{}}", columns[j].name, widths[j]);
  for (size_t i = 0; i < rows.size(); ++i) {
    text += format("\n  {:<{}}", rows[i].name, first);
    for (size_t j = 0; j < columns.size(); ++j)
      text += format("  {:>{}}", pair.text(i, j), widths[j]);
  }
  return text + "\n";
}

// The GIDs that this NIC's paths use.
std::string gids_used(const RailsReport& report, size_t host, size_t nic) {
  std::set<int> used;
  for (const RailsPair& pair : report.pairs) {
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

std::string facts(const RailsReport& report) {
  std::string text;
  for (size_t h = 0; h < report.hosts.size(); ++h) {
    const RailsHost& host = report.hosts[h];
    if (report.one_host && h > 0) break;  // the same host again
    text += format("# {}:{}\n", host.host, host.nics.empty() ? " no NIC" : "");
    for (size_t n = 0; n < host.nics.size(); ++n) {
      const RailsNic& nic = host.nics[n];
      text += format("#   {}  {}", nic.name, nic.link);
      if (nic.rate_Gbps > 0) text += format("  {:g} Gb/s", nic.rate_Gbps);
      text += format("  MTU {}", nic.mtu);
      if (nic.lid != 0) text += format("  LID {}", nic.lid);
      if (!nic.address.empty()) text += "  " + nic.address;
      if (const std::string gids = gids_used(report, h, n); !gids.empty()) text += "  " + gids;
      text += "\n";
    }
    for (const std::string& unused : host.unused) text += format("#   not used: {}\n", unused);
    if (host.unused.empty() && !host.why_no_rdma.empty())
      text += format("#   no RDMA: {}\n", host.why_no_rdma);
  }
  return text;
}

std::string problems(const RailsVerdict& verdict) {
  std::vector<std::string> kinds;
  for (const RailFinding& finding : verdict.findings)
    if (std::find(kinds.begin(), kinds.end(), finding.kind) == kinds.end())
      kinds.push_back(finding.kind);
  std::string text;
  for (const std::string& kind : kinds) {
    size_t lines = 0;
    std::string remedy;
    for (const RailFinding& finding : verdict.findings) {
      if (finding.kind != kind) continue;
      remedy = finding.remedy;
      if (lines++ < kMostFindings) text += format("FAIL {}: {}\n", kind, finding.message);
    }
    if (lines > kMostFindings) text += format("  and {} more\n", lines - kMostFindings);
    text += format("  remedy: {}\n", remedy);
  }
  return text;
}

// Variables ("A=1 B=x") as a line for a shell: what hosts call their devices is quoted.
std::string export_line(const std::string& recommended, const char* prefix) {
  constexpr std::string_view kOurs = "COLLCTL_";
  std::string text = "export";
  std::istringstream words(recommended);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (!word.starts_with(kOurs) || equals == word.npos) continue;  // a device with a blank in its name
    text += format(" {}{}={}", prefix, word.substr(kOurs.size(), equals - kOurs.size()),
                   base::shell_quoted(word.substr(equals + 1)));
  }
  return text;
}

std::string message_size(uint64_t bytes) {
  if (bytes % (1u << 20) == 0) return format("{} MiB", bytes >> 20);
  if (bytes % 1024 == 0) return format("{} KiB", bytes >> 10);
  return format("{} B", bytes);
}

}  // namespace

std::string rails_text(const RailsReport& report, const RailsVerdict& verdict,
                       const RailsTextStyle& style) {
  std::string text;
  const size_t hosts = report.one_host ? 1 : report.hosts.size();
  if (!style.quiet) {
    text += format("# collctl {} rails: {} host{}, {}, messages of {}\n", base::kVersion, hosts,
                   hosts == 1 ? "" : "s", verdict.rdma ? "RDMA (NET/IB)" : "sockets (NET/Socket)",
                   message_size(report.message_bytes));
    if (report.one_host) text += "# there is only one host: its NICs loop back to each other\n";
    text += facts(report);
    text += "# GB/s from rows to columns and back, the lower of both";
    if (style.below > 0) text += format("; * below {:g} of the median", style.below);
    text += "\n# ! fails, > only there, < only back\n";
  }
  const auto pairs = host_pairs(report, verdict);
  size_t hidden = 0;
  for (const BothWays& pair : pairs) {
    if (!style.all_pairs && pairs.size() > kMostPairs && pair.all_good())
      ++hidden;
    else
      text += table(pair);
  }
  if (hidden > 0)
    text += format("# {} of {} pairs of hosts are all right and not shown; -v shows them\n", hidden,
                   pairs.size());
  text += problems(verdict);
  if (verdict.rail_only)
    text += "# rails: NICs reach those of their name only, as a rail-only fabric has it\n";
  if (verdict.good > 0)
    text += format("# {} of {} paths: median {:.3g} GB/s, least {:.3g} GB/s\n", verdict.good,
                   verdict.tried, verdict.median_GBps, verdict.least_GBps);
  std::string reasons;
  for (const auto& reason : verdict.reasons) reasons += (reasons.empty() ? "" : ", ") + reason;
  text += format("# Verdict: {}\n", reasons.empty() ? "passed" : reasons);
  if (!verdict.recommended.empty())
    text += format("# recommended for collctl, and for NCCL:\n{}\n{}\n",
                   export_line(verdict.recommended, "COLLCTL_"),
                   export_line(verdict.recommended, "NCCL_"));
  if (!verdict.note.empty()) text += format("# {}\n", verdict.note);
  // Much of it was said by hosts: a terminal must not obey it.
  for (char& c : text)
    if ((uint8_t(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  return text;
}

std::string rails_list(const RailsReport& report, const RailsVerdict& verdict) {
  JsonWriter json;
  json.begin_array();
  for (size_t p = 0; p < report.pairs.size(); ++p) {
    const RailsPair& pair = report.pairs[p];
    const RailsHost &from = report.hosts[size_t(pair.from)], &to = report.hosts[size_t(pair.to)];
    for (size_t cell = 0; cell < pair.cells.size(); ++cell) {
      const RailsCell& found = pair.cells[cell];
      const RailAt at{p, cell / to.nics.size(), cell % to.nics.size()};
      const bool slow =
          std::find(verdict.slow.begin(), verdict.slow.end(), at) != verdict.slow.end();
      const bool ok = found.end == RailEnd::ok;
      json.begin_object().field("name", "rail").field("host", from.host).field("peer", to.host);
      json.field("device", from.nics[at.from].name).field("peer_device", to.nics[at.to].name);
      json.field("status", ok && !slow ? "pass" : "fail").key("measured");
      ok ? json.value(found.GBps) : json.null();
      json.field("unit", "GB/s");
      json.field("message", slow ? std::string("slow") : ok ? "" : found.text).end_object();
    }
  }
  return json.end_array().take();
}

std::string rails_json(const RailsReport& report, const RailsVerdict& verdict) {
  JsonWriter json;
  json.begin_object().field("schema", "collctl.rails/1").field("version", base::kVersion);
  json.field("network", verdict.rdma ? "ib" : "socket");
  write_rails(json, report);
  json.field("rail_only", verdict.rail_only)
      .field("ways", verdict.tried)
      .field("good", verdict.good);
  json.field("median_GBps", verdict.median_GBps).field("least_GBps", verdict.least_GBps);
  json.key("findings").begin_array();
  for (const RailFinding& finding : verdict.findings)
    json.begin_object()
        .field("kind", finding.kind)
        .field("host", finding.host)
        .field("nic", finding.nic)
        .field("peer", finding.peer)
        .field("peer_nic", finding.peer_nic)
        .field("message", finding.message)
        .field("remedy", finding.remedy)
        .end_object();
  json.end_array().key("recommended");
  verdict.recommended.empty() ? json.null() : json.value(verdict.recommended);
  json.key("note");
  verdict.note.empty() ? json.null() : json.value(verdict.note);
  json.key("verdict").begin_object().field("ok", verdict.code == ErrorCode{});
  json.key("reasons").begin_array();
  for (const auto& reason : verdict.reasons)
    json.begin_object()
        .field("code", base::code_name(verdict.code))
        .field("message", reason)
        .end_object();
  return json.end_array().end_object().end_object().take() + "\n";
}

}  // namespace collctl::cmd
