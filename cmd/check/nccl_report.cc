// The suite `nccl` in JSON and on the page: NCCL beside ours size by size, and what it chose.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/nccl.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

static void fields(Record& io, NcclHost& host) {
  io.field("host", host.host);
  fields(io, host.facts);
}

static void fields(Record& io, OwnWay& way) {
  io.field("via", way.via);
  io.field("links", way.links);
}

static void fields(Record& io, NcclRow& row) {
  io.field("collective", row.collective);
  io.field("bytes", row.bytes);
  io.object("collctl", [&] {
    io.field("time_us", row.own_us, 0);
    io.field("busbw_GBps", row.own_GBps, 0);
    io.field("algorithm", row.own_algorithm);
    io.field("protocol", row.own_protocol);
    io.field("channels", row.own_channels, 0, kMostNcclChannels);
  });
  io.object("nccl", [&] {
    io.field("time_us", row.nccl_us, 0);
    io.field("busbw_GBps", row.nccl_GBps, 0);
    if (io.has("algorithm", !row.algorithm.empty())) io.field("algorithm", row.algorithm);
    if (io.has("protocol", !row.protocol.empty())) io.field("protocol", row.protocol);
    if (io.has("channels", row.channels > 0))
      io.field("channels", row.channels, 0, kMostNcclChannels);
    if (io.has("wrong", row.wrong >= 0)) io.field("wrong", row.wrong, 0);
  });
  double ratio = row.ratio();
  if (!io.reading()) io.field("ratio", ratio);
  io.field("again", row.again);
}

void fields(Record& io, NcclReport& report) {
  io.field("name", report.name);
  io.field("ranks", report.ranks, 0);
  io.field("hosts", report.hosts, 1 << 16);
  io.field("rows", report.rows);
  io.field("collctl_ways", report.own_ways, 1 << 16);
  io.field("seen", report.seen, 1 << 16);
}

namespace {

std::string library_text(const NcclLibrary& library) {
  if (library.path.empty()) return "none";
  return format("{}{}", library.path,
                library.version.empty() ? "" : format(" ({})", library.version));
}

// Hosts by what they say alike: "n[1-4]: ...".
void add_lines(const std::string& what, NamesBy<std::string>& by, Facts& facts) {
  for (const auto& [text, names] : by.groups())
    facts.lines.push_back(format("{} on {}: {}", what, folded_hosts(names), text));
}

std::string ways_text(const NcclLog& log) {
  std::vector<std::string> words;
  constexpr size_t kMostWays = 6;
  for (const NcclWay& way : log.ways)
    if (words.size() < kMostWays) words.push_back(format("{} x {}", way.channels, way.via));
  if (log.ways.size() > kMostWays)
    words.push_back(format("and {} more kinds", log.ways.size() - kMostWays));
  return joined(words);
}

std::string chosen_text(const NcclLog& log) {
  std::vector<std::string> words;
  if (!log.network.empty()) words.push_back("network " + log.network);
  if (log.channels > 0)
    words.push_back(format("{} channels{}", log.channels,
                           log.nvls_channels > 0 ? format(", {} of NVLS", log.nvls_channels) : ""));
  if (!log.tuner.empty()) words.push_back("tuner " + log.tuner);
  if (!log.ways.empty()) words.push_back("ways " + ways_text(log));
  return words.empty() ? "not known" : joined(words);
}

std::string ras_words(const RasAnswer& ras) {
  if (!ras.status) return ras.missing;
  return format("NCCL {} at {}: {} of {} answer, {} missing", ras.status->version, ras.address,
                counted(ras.status->ranks, "rank"),
                counted(ras.status->communicators, "communicator"), ras.status->missing.size());
}

std::string taken(const std::string& algorithm, const std::string& protocol, int channels) {
  if (algorithm.empty()) return "-";
  return format("{}/{}{}", algorithm, protocol, channels > 0 ? format(" x {}", channels) : "");
}

}  // namespace

void add_nccl(const NcclReport& report, Document& document) {
  Facts facts;
  facts.lines.emplace_back("the installed NCCL:");
  NamesBy<std::string> libraries, chosen, ras;
  for (const NcclHost& host : report.hosts)
    libraries[format("{}, network plugin {}, tuner plugin {}", library_text(host.facts.library),
                     library_text(host.facts.net), library_text(host.facts.tuner))]
        .push_back(host.host.name);
  add_lines("libnccl", libraries, facts);
  for (const NcclOnHost& host : report.seen) {
    chosen[chosen_text(host.log)].push_back(host.host.name);
    ras[ras_words(host.ras)].push_back(host.host.name);
  }
  add_lines("NCCL chose", chosen, facts);
  for (const NcclOnHost& host : report.seen)
    if (!host.log.ring.empty()) facts.lines.push_back("NCCL's first ring: " + host.log.ring);
  std::vector<std::string> own;
  for (const OwnWay& way : report.own_ways) own.push_back(format("{} x {}", way.links, way.via));
  if (!own.empty()) facts.lines.push_back("collctl's links: " + joined(own));
  add_lines("RAS", ras, facts);
  document.parts.push_back({std::move(facts)});
  if (report.rows.empty()) return;
  Table table{titled({"<collective", "size", "NCCL|GB/s", "collctl|GB/s", "NCCL|us", "collctl|us",
                      "NCCL/ours", "<NCCL took", "<collctl took"}),
              {"collctl took", "NCCL took"}};
  for (const NcclRow& row : report.rows)
    table.add({row.collective, human_bytes(row.bytes), four_digits(row.nccl_GBps),
               four_digits(row.own_GBps), four_digits(row.nccl_us), four_digits(row.own_us),
               format("{:.2f}{}", row.ratio(), row.again ? "*" : ""),
               taken(row.algorithm, row.protocol, row.channels),
               taken(row.own_algorithm, row.own_protocol, row.own_channels)});
  document.parts.push_back({std::move(table)});
  if (std::ranges::any_of(report.rows, &NcclRow::again))
    document.parts.push_back({Facts{{"NCCL/ours: speeds; * measured twice, the second counts"}}});
}

}  // namespace collctl::cmd
