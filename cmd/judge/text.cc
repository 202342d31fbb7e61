#include "cmd/judge/text.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostLines = 10;  // of one check that fails at many places, of culprits

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

bool is_problem(const Finding& finding) {
  const bool missing = finding.status == FindingStatus::not_tested && finding.code != ErrorCode{};
  return finding.status == FindingStatus::fail || missing;
}

// What a problem is listed under.
const std::string& heading(const Finding& finding) {
  return finding.reason.empty() ? finding.name : finding.reason;
}

}  // namespace

std::string cell_text(const Finding& finding) {
  std::string text = finding.cell;
  if (text.empty()) text = finding.measured + (finding.unit.empty() ? "" : " " + finding.unit);
  if (finding.status == FindingStatus::fail) return text + " !";
  return finding.odd ? text + " *" : text;
}

std::string told(const Finding& finding) {
  const std::string& host = finding.at.host.name;
  const bool named = host.empty() || finding.message.find(host) != std::string::npos;
  return named ? finding.message : format("{}: {}", host, finding.message);
}

std::string problems_text(std::span<const Finding> findings) {
  std::vector<std::string> headings;
  for (const Finding& finding : findings)
    if (is_problem(finding)) add_once(headings, heading(finding));
  std::string text;
  for (const std::string& name : headings) {
    std::vector<std::string> remedies;
    size_t lines = 0;
    for (const Finding& finding : findings) {
      if (!is_problem(finding) || heading(finding) != name) continue;
      add_once(remedies, finding.remedy);
      if (lines++ >= kMostLines) continue;
      const char* word = finding.status == FindingStatus::fail ? "FAIL" : "not tested";
      text += format("{} {}: {}\n", word, name, told(finding));
    }
    if (lines > kMostLines) text += format("  and {} more\n", lines - kMostLines);
    for (const auto& remedy : remedies) text += format("  remedy: {}\n", remedy);
  }
  return text;
}

std::string suspects_text(std::span<const Culprit> culprits) {
  std::string text;
  size_t lines = 0;
  for (const Culprit& culprit : culprits)
    if (!culprit.unreachable && lines++ < kMostLines)
      text += format("# suspect {} {}: {}\n", subject_word(culprit.kind), culprit.name,
                     culprit.evidence);
  if (lines > kMostLines) text += format("#   and {} more\n", lines - kMostLines);
  return text;
}

std::string verdict_text(const Verdict& verdict) {
  std::string text;
  if (verdict.error()) text = "FAILED, the run broke off";
  for (const Reason& reason : verdict.reasons())
    text += (text.empty() ? "" : ", ") + reason.message;
  if (text.empty()) text = verdict.ok() ? "passed" : base::code_name(verdict.code());
  return format("# Verdict: {}\n", text);
}

std::string shown(std::string text) {
  for (char& c : text)
    if ((uint8_t(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  return text;
}

}  // namespace collctl::cmd
