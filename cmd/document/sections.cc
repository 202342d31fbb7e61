// Findings, in the words and the order in which text and page have them.
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/text/hosts.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

bool says(const Finding& finding, const Culprit& culprit) {
  return finding.status == FindingStatus::fail && finding.at.kind == culprit.kind &&
         finding.message.ends_with(culprit.evidence) && subject_name(finding.at) == culprit.name;
}

// Culprits, each with the remedy of the finding that says the same of it, if there is one.
Section culprits_of(const Judgement& judged, std::set<const Finding*>& told) {
  Section section{.title = "at fault"};
  for (const Culprit& culprit : judged.culprits) {
    Section::Entry& entry = section.entries.emplace_back();
    entry.lines.emplace_back(format("{} {}", subject_word(culprit.kind), culprit.name),
                             evidence_alone(culprit));
    const auto same = std::ranges::find_if(
        judged.checks, [&](const Finding& finding) { return says(finding, culprit); });
    if (same == judged.checks.end()) continue;
    told.insert(&*same);
    entry.remedy = same->remedy;
  }
  return section;
}

bool is_listed(const Finding& finding, FindingStatus status) {
  if (finding.message.empty()) return false;
  if (status == FindingStatus::warn && finding.odd && finding.status == FindingStatus::pass)
    return true;
  return finding.status == status &&
         (status != FindingStatus::not_tested || finding.code != ErrorCode{});
}

// Those of one check that say the same of several hosts are one line, and so are checks that say
// the same; lines with one remedy have it once.
Section findings_of(const Judgement& judged, FindingStatus status, const char* title, size_t most,
                    const std::set<const Finding*>& told) {
  struct Said {
    std::string words, remedy;
    bool of_hosts = false;
    auto operator<=>(const Said&) const = default;
  };
  NamesBy<std::pair<std::string, Said>> by_check;  // hosts by check and words
  for (const Finding& finding : judged.checks) {
    if (!is_listed(finding, status) || told.contains(&finding)) continue;
    const std::string& host = finding.at.host.name;
    // The check's name stands before its words.
    std::string words = finding.message;
    if (words.starts_with(finding.name + ": ")) words.erase(0, finding.name.size() + 2);
    const bool named = host.empty() || finding.message.find(host) != std::string::npos;
    auto& hosts = by_check[{finding.name, {std::move(words), finding.remedy, !named}}];
    if (!named) hosts.push_back(host);
  }
  NamesBy<Said> lines;  // checks by all that is said
  std::map<std::string, size_t> count, left_out;
  for (const auto& [key, hosts] : by_check.groups()) {
    const auto& [check, said] = key;
    if (count[check]++ >= most) {
      ++left_out[check];
      continue;
    }
    Said whole = said;
    if (said.of_hosts) whole.words = format("{}: {}", folded_hosts(hosts), said.words);
    lines[whole].push_back(check);
  }
  Section section{.title = title};
  std::map<std::string, size_t> places;  // of entries by remedy
  for (const auto& [said, checks] : lines.groups()) {
    const auto [place, is_new] = places.try_emplace(said.remedy, section.entries.size());
    if (is_new) section.entries.push_back({.remedy = said.remedy});
    section.entries[place->second].lines.emplace_back(joined(checks), said.words);
  }
  for (const auto& [check, more] : left_out)
    section.entries.push_back({.lines = {{check, format("and {} more", more)}}});
  return section;
}

std::vector<std::string> hosts_at_fault(const Judgement& judged) {
  std::vector<std::string> names;
  for (const Culprit& culprit : judged.culprits)
    if (culprit.host.named()) names.push_back(culprit.host.name);
  if (judged.culprits.empty())
    for (const Finding& finding : judged.checks)
      if (finding.status == FindingStatus::fail && finding.at.kind == SubjectKind::host &&
          finding.at.host.named())
        names.push_back(finding.at.host.name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::vector<Section> sections_of(const Judgement& judged, size_t most) {
  std::set<const Finding*> told;
  std::vector<Section> sections{culprits_of(judged, told)};
  sections.push_back(findings_of(judged, FindingStatus::fail, "failed", most, told));
  sections.push_back(findings_of(judged, FindingStatus::warn, "to know", most, told));
  sections.push_back(findings_of(judged, FindingStatus::not_tested, "not tested", most, told));
  std::erase_if(sections, [](const Section& section) { return section.entries.empty(); });
  return sections;
}

std::string verdict_words(const Judgement& judged, size_t hosts, const std::string& summary) {
  const Verdict& verdict = judged.verdict;
  if (verdict.ok()) return "passed";
  if (verdict.incomplete()) return "passed, but not everything that was asked for was tested";
  std::string text = "FAILED";
  if (verdict.error()) return text + ", the run broke off";
  if (verdict.code() != ErrorCode::failed) text += format(" ({})", base::code_name(verdict.code()));
  if (const auto bad = hosts_at_fault(judged); !bad.empty() && hosts > 1)
    text += format(": {} of {} ({})", bad.size(), counted(hosts, "host"), folded_hosts(bad));
  return summary.empty() ? text : format("{}: {}", text, summary);
}

}  // namespace collctl::cmd
