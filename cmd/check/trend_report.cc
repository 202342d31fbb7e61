// The trend of a history as a document: what is new and what goes on as its findings, what got
// better and whom to resume after them, then every host and speed.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/trend.h"
#include "cmd/judge/json.h"
#include "cmd/text/hosts.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostFigures = 40;  // in the table; all of them are in the JSON
constexpr size_t kSpark = 16;

std::string ends_of(const Subject& at) {
  if (at.kind != SubjectKind::link) return subject_name(at);
  return PathEnd{at.host, at.device}.text() + " -> " + PathEnd{at.peer, at.peer_device}.text();
}

std::string words_of(const TrendFinding& one) {
  const Finding& finding = one.finding;
  const std::string& said = finding.message.empty() ? finding.name : finding.message;
  const std::string last = utc_date(one.last);
  if (one.state == TrendState::open)
    return format("failed at {}, in {} of {} checks, and is in none of the newer ones: {}", last,
                  one.failed, one.looked, said);
  const std::string unseen = one.after > 0 ? format(", not looked at in {} newer", one.after) : "";
  if (one.state == TrendState::ongoing)
    return format("since {}, in {} of {} checks{}: {}", utc_date(one.since), one.failed, one.looked,
                  unseen, said);
  return one.failed > 1 ? format("again at {}, in {} of {} checks{}: {}", last, one.failed,
                                 one.looked, unseen, said)
                        : format("new at {}{}: {}", last, unseen, said);
}

Finding finding_of(const TrendFinding& one) {
  Finding finding = one.finding;
  finding.n = one.failed;
  finding.of = one.looked;
  finding.message = words_of(one);
  if (one.state == TrendState::open) finding.leave_out(finding.message, finding.remedy);
  return finding;
}

Finding finding_of(const TrendFigure& figure, double below) {
  Finding finding{.name = figure.what, .at = figure.at};
  finding.reason = "declines";
  finding.measured = format("{:.6g}", figure.late);
  finding.expected = format("{:.6g}", below * figure.early);
  finding.unit = "GB/s";
  finding.basis = format("{:g} of the median of the first third", below);
  finding.of = figure.values.size();
  finding.n = finding.of / 3;
  const std::string who = ends_of(figure.at);
  finding.fail(ErrorCode::failed,
               format("{}declines: median {} GB/s in the last {} of {} checks, {} in the first {}",
                      who.empty() ? "" : who + " ", four_digits(figure.late), finding.n, finding.of,
                      four_digits(figure.early), finding.n),
               "compare its newest check with an old one: collctl report --diff OLD NEW");
  return finding;
}

std::vector<Finding> findings_of(const Trend& trend, const std::string& folder,
                                 const HistoryFiles& files) {
  std::vector<Finding> all;
  std::set<Host> told;
  for (const TrendFinding& one : trend.findings) {
    if (one.state == TrendState::better) continue;
    all.push_back(finding_of(one));
    told.insert(one.finding.at.host);
  }
  for (const TrendFigure& figure : trend.figures)
    if (figure.declines) all.push_back(finding_of(figure, trend.below));
  for (const TrendHost& host : trend.hosts) {
    if (!host.missing || told.contains(host.host)) continue;
    all.push_back(host_finding("hosts", host.host)
                      .warn(format("not in the newer checks of its peers, the last was at {}",
                                   utc_date(host.last))));
  }
  for (const HistoryFiles::Skipped& file : files.skipped)
    if (file.damaged)
      all.emplace_back(Finding{.name = "history"})
          .leave_out(format("{}: {}", file.file, file.why), "remove the file");
  if (trend.runs.empty())
    all.emplace_back(Finding{.name = "history"})
        .leave_out(format("there is no check in {}", folder),
                   format("collctl check --history {}", folder));
  return all;
}

// With the words of its first failure, those that are new before the others.
std::vector<Culprit> culprits_of(const Trend& trend) {
  std::vector<std::pair<size_t, Culprit>> ranked;
  for (const Culprit& culprit : trend.culprits) {
    const auto same = std::ranges::find_if(trend.findings, [&](const TrendFinding& one) {
      return one.state <= TrendState::ongoing && one.finding.at.kind == culprit.kind &&
             subject_name(one.finding.at) == culprit.name;
    });
    auto& [rank, told] = ranked.emplace_back(size_t(same - trend.findings.begin()), culprit);
    if (same != trend.findings.end()) told.evidence = words_of(*same);
  }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Culprit> culprits;
  for (auto& [rank, culprit] : ranked) culprits.push_back(std::move(culprit));
  return culprits;
}

Facts better_lines(const Trend& trend) {
  Facts facts;
  for (const TrendFinding& one : trend.findings)
    if (one.state == TrendState::better)
      facts.lines.push_back(
          format("no longer failing: {}: failed in {} of {} checks, the last at "
                 "{}; good since {}: {}",
                 one.finding.name, one.failed, one.looked, utc_date(one.last), utc_date(one.well),
                 one.finding.message));
  return facts;
}

Table hosts_table(const Trend& trend) {
  using Row = std::vector<std::string>;
  NamesBy<Row> alike;
  for (const TrendHost& host : trend.hosts) {
    std::string state = host_word(host.state);
    if (host.state == HostState::unsure) state += ": " + joined(host.not_passed);
    if (host.missing) state += ", missing";
    alike[{state, utc_date(host.since), format("{} of {}", host.failed, host.checks),
           utc_date(host.last)}]
        .push_back(host.host.name);
  }
  // Those that fail first.
  std::ranges::stable_sort(alike.groups(), [](const auto& a, const auto& b) {
    const auto is_well = [](const auto& group) { return group.first[0] == "well"; };
    return is_well(a) < is_well(b);
  });
  Table table{titled({"<hosts", "<state", "<since", "failed", "<last check"})};
  for (const auto& [row, names] : alike.groups())
    table.add({folded_hosts(names), row[0], row[1], row[2], row[3]});
  return table;
}

// Things that are not the same in all of them.
struct Apart {
  bool level = false, version = false;
};
Apart apart(const Trend& trend) {
  Apart made;
  for (const TrendRun& run : trend.runs) {
    made.level |= run.level != trend.runs[0].level;
    made.version |= run.version != trend.runs[0].version;
  }
  return made;
}

std::string name_of_figure(const TrendFigure& figure, const Apart& apart) {
  std::string name = figure.what;
  if (const std::string ends = ends_of(figure.at); !ends.empty()) name += " " + ends;
  if (!figure.hosts.empty()) name += " " + figure.hosts;
  if (figure.size.starts_with("bus bandwidth at ")) name += figure.size.substr(13);  // " at 4 MiB"
  if (apart.level) name += ", " + figure.level;
  if (apart.version) name += ", " + figure.version;
  return name;
}

Table figures_table(const Trend& trend, Facts& counts) {
  Table table{
      titled({"<GB/s of", "checks", "first", "median", "last", "worst", "<curve", "<trend"}),
      {"first", "curve", "checks"}};
  const Apart differ = apart(trend);
  size_t more = 0, spoilt = 0;
  for (const TrendFigure& figure : trend.figures) {
    spoilt += figure.spoilt;
    if (figure.values.empty()) continue;
    if (!figure.declines && table.columns[0].cells.size() >= kMostFigures) {
      ++more;
      continue;
    }
    table.add({name_of_figure(figure, differ), std::to_string(figure.values.size()),
               four_digits(figure.first), four_digits(figure.median), four_digits(figure.last),
               four_digits(figure.worst), spark(figure.values, kSpark),
               figure.declines ? "declines" : ""});
  }
  if (more > 0)
    counts.lines.push_back(
        format("{} more are not shown, none of which declines: --host shows those of one host, "
               "--json all",
               counted(more, "speed")));
  if (spoilt > 0)
    counts.lines.push_back(format("without {} that others spoilt, who had the host meanwhile",
                                  counted(spoilt, "value")));
  if (differ.level || differ.version)
    counts.lines.push_back(
        "speeds of other levels and versions stand by themselves; a failure is gone when a check "
        "of its level or a higher one has passed there");
  return table;
}

Facts head_lines(const Trend& trend, const HistoryFiles& files) {
  Facts facts;
  if (!trend.runs.empty())
    facts.lines.push_back(format("{}, from {} to {}", counted(trend.runs.size(), "check"),
                                 utc_date(trend.runs.front().unix_s),
                                 utc_date(trend.runs.back().unix_s)));
  if (files.older > 0)
    facts.lines.push_back(format("{} older {} not read (--last)", files.older,
                                 files.older == 1 ? "file is" : "files are"));
  for (const HistoryFiles::Skipped& file : files.skipped)
    if (!file.damaged) facts.lines.push_back(format("skipped {}: {}", file.file, file.why));
  return facts;
}

}  // namespace

std::string spark(const std::vector<std::pair<int64_t, double>>& values, size_t most) {
  constexpr std::string_view kRamp = ".:-=+*#@";
  if (values.size() < 2) return "";
  double best = 0;
  for (const auto& [time, value] : values) best = std::max(best, value);
  const size_t columns = std::min(values.size(), most);
  std::string text;
  for (size_t c = 0; c < columns; ++c) {
    // The worst of those that share a column.
    double least = best;
    for (size_t i = c * values.size() / columns; i < (c + 1) * values.size() / columns; ++i)
      least = std::min(least, values[i].second);
    const double part = best > 0 ? (least / best - 0.5) * 2 : 1;
    text += part < 0 ? '_' : kRamp[std::min(kRamp.size() - 1, size_t(part * double(kRamp.size())))];
  }
  return text;
}

Document trend_document(const Trend& trend, const std::string& folder, const HistoryFiles& files) {
  const std::vector<Finding> findings = findings_of(trend, folder, files);
  size_t fresh = 0, ongoing = 0, declines = 0;
  for (const TrendFinding& one : trend.findings) {
    fresh += one.state == TrendState::fresh;
    ongoing += one.state == TrendState::ongoing;
  }
  for (const TrendFigure& figure : trend.figures) declines += figure.declines;
  std::vector<std::string> summary;
  if (fresh > 0) summary.push_back(counted(fresh, "new failure"));
  if (ongoing > 0) summary.push_back(counted(ongoing, "failure") + " as before");
  if (declines > 0) summary.push_back(counted(declines, "declining speed"));
  JsonWriter json;
  write_trend(begin_document(json, "collctl.trend/1"), trend, folder, files);
  write_checks(json, findings, culprits_of(trend));
  Document document = document_with(judged_json(json, Verdict(findings, std::nullopt)), "figures");
  document.title = format("collctl report --trend: {}", folder);
  document.heading = document.title;
  for (const TrendHost& host : trend.hosts) document.hosts.push_back(host.host.name);
  document.summary = joined(summary);
  document.svg = trend_svg(trend);
  const auto add = [&](auto part, bool after) {
    document.parts.push_back({std::move(part), Shown::always, after});
  };
  add(head_lines(trend, files), false);
  add(better_lines(trend), true);
  if (const std::string lines = resume_lines(trend.well_again()); !lines.empty())
    add(Drawn{[text = "to resume them under Slurm:\n" + lines](size_t) { return text; }}, true);
  add(hosts_table(trend), true);
  Facts counts;
  add(figures_table(trend, counts), true);
  add(std::move(counts), true);
  return document;
}

}  // namespace collctl::cmd
