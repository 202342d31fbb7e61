// One thing that was looked at and what came of it: the word that all commands and checks speak. A
// list of findings, with the error that ended the job if one did, makes the verdict (verdict.h).
// Threads: values.
#pragma once
#include <compare>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace collctl::cmd {

enum class FindingStatus : uint8_t { pass, warn, fail, not_tested };
inline constexpr int kFindingStatuses = 4;
const char* status_word(FindingStatus status);  // "pass", "warn", "fail", "not-tested": stable

// Subject of a finding; names and ranks that it has no use for stay empty.
enum class SubjectKind : uint8_t { job, host, rank, gpu, nic, link, launcher };
inline constexpr int kSubjectKinds = 7;
const char* subject_word(SubjectKind kind);  // "job", "host", ...: stable
struct Subject {
  SubjectKind kind = SubjectKind::job;
  Host host = {};
  std::string device = {};  // a GPU, NIC, interface or file of that host
  Host peer = {};           // of a link: where it leads
  std::string peer_device = {};
  int rank = -1, peer_rank = -1;
  auto operator<=>(const Subject&) const = default;
};

// Reason of a finding whose figure says little, as others had its host meanwhile; also of a pass.
inline constexpr const char* kBusyHost = "busy";

struct Finding {
  std::string name;  // of the check
  Subject at = {};
  FindingStatus status = FindingStatus::pass;
  ErrorCode code{};         // the exit code that it leads to; 0: nothing to hold against anybody
  std::string reason = {};  // why not, in one stable word for scripts; may be empty
  std::string measured = {}, expected = {}, unit = {};  // numbers are plain decimal
  std::string basis = {};  // of what is expected: who asks for it, or where it comes from
  uint64_t n = 0, of = 0;  // so many of so many measurements say so; 0 of 0: uncounted
  bool odd = false;        // differs from what most hosts have
  std::string cell = {};   // for the table; empty: measured and unit
  std::string message = {}, remedy = {};

  // `measured` and `expected` as numbers; 0: there is none.
  double figure() const;
  double asked() const;

  // Each returns the finding itself. The worst code of several failures stays.
  Finding& fail(ErrorCode why, std::string in_words, std::string what_to_do = {});
  Finding& warn(std::string in_words, std::string what_to_do = {});  // to know: no code
  Finding& leave_out(std::string why, std::string what_to_do = {});  // not tested: code 8
};

// One about a host as a whole.
Finding host_finding(std::string name, const Host& host);

// "node04", "node04 eth0", of a link "node01 eth0 - node02 eth0" with the first host first.
std::string subject_name(const Subject& at);

struct Culprit {
  SubjectKind kind = SubjectKind::host;
  std::string name;
  double confidence = 0;  // failed of tried
  std::string evidence;
  bool unreachable = false;  // could not be asked at all
  Host host = {};            // itself, or where it is; of links, jobs and launchers: none
};

// Findings as people read them. Pure.

// The value that stands in a table: its mark is " !" of what fails, " *" of what is odd.
std::string cell_text(const Finding& finding);
// Without the name that it begins with, as evidence of a host's own words does.
std::string evidence_alone(const Culprit& culprit);

}  // namespace collctl::cmd
