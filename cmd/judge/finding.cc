#include "cmd/judge/finding.h"

#include <cstdlib>
#include <iterator>

namespace collctl::cmd {

namespace {

constexpr const char* kStatusWords[] = {"pass", "warn", "fail", "not-tested"};
static_assert(std::size(kStatusWords) == kFindingStatuses);
constexpr const char* kSubjectWords[] = {"job", "host", "rank", "gpu", "nic", "link", "launcher"};
static_assert(std::size(kSubjectWords) == kSubjectKinds);

}  // namespace

const char* status_word(FindingStatus status) {
  return kStatusWords[size_t(status)];
}

const char* subject_word(SubjectKind kind) {
  return kSubjectWords[size_t(kind)];
}

std::string subject_name(const Subject& at) {
  const auto end = [](const Host& host, const std::string& device) {
    return device.empty() ? host.name : host.name + " " + device;
  };
  const std::string name = end(at.host, at.device);
  return at.kind == SubjectKind::link ? name + " - " + end(at.peer, at.peer_device) : name;
}

double Finding::figure() const {
  return std::strtod(measured.c_str(), nullptr);
}

double Finding::asked() const {
  return std::strtod(expected.c_str(), nullptr);
}

Finding& Finding::fail(ErrorCode why, std::string in_words, std::string what_to_do) {
  if (status != FindingStatus::fail || base::severity(why) > base::severity(code)) code = why;
  status = FindingStatus::fail;
  message = std::move(in_words);
  remedy = std::move(what_to_do);
  return *this;
}

Finding& Finding::warn(std::string in_words, std::string what_to_do) {
  status = FindingStatus::warn;
  message = std::move(in_words);
  remedy = std::move(what_to_do);
  return *this;
}

Finding& Finding::leave_out(std::string why, std::string what_to_do) {
  status = FindingStatus::not_tested;
  code = ErrorCode::incomplete;
  message = std::move(why);
  remedy = std::move(what_to_do);
  return *this;
}

Finding host_finding(std::string name, const Host& host) {
  return {.name = std::move(name), .at = {.kind = SubjectKind::host, .host = host}};
}

std::string cell_text(const Finding& finding) {
  std::string text = finding.cell;
  if (text.empty()) text = finding.measured + (finding.unit.empty() ? "" : " " + finding.unit);
  if (finding.status == FindingStatus::fail) return text + " !";
  return finding.odd ? text + " *" : text;
}

std::string evidence_alone(const Culprit& culprit) {
  std::string text = culprit.evidence;
  std::string gpu;  // as messages call it
  if (culprit.kind == SubjectKind::gpu && culprit.name.starts_with(culprit.host.name + " "))
    gpu = "GPU " + culprit.name.substr(culprit.host.name.size() + 1);
  for (const std::string& name : {culprit.name, culprit.host.name, gpu})
    if (!name.empty() && text.starts_with(name + ": ")) text.erase(0, name.size() + 2);
  return text;
}

}  // namespace collctl::cmd
