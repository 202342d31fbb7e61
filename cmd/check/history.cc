#include "cmd/check/history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "base/auth.h"
#include "base/format.h"
#include "base/host_limits.h"
#include "base/whole_file.h"
#include "cmd/measure/timing.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostFiles = 1'000'000;  // of a folder
constexpr std::string_view kEnding = ".json";

// Ours: "20260131T080000Z-0123456789abcdef.json". By their names they are in the order of their
// time, to the nanosecond (the first eight digits); the last eight keep hosts apart.
constexpr std::string_view kPattern = "00000000T000000Z-xxxxxxxxxxxxxxxx.json";
bool is_ours(std::string_view name) {
  if (name.size() != kPattern.size()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    const bool fits = kPattern[i] == '0'   ? digit
                      : kPattern[i] == 'x' ? digit || (name[i] >= 'a' && name[i] <= 'f')
                                           : name[i] == kPattern[i];
    if (!fits) return false;
  }
  return true;
}

Result<std::string> new_name() {
  constexpr int64_t kSecond = 1'000'000'000;
  std::array<uint8_t, 4> random{};
  COLL_TRY(base::fill_random(random));
  const int64_t now = base::wall_clock_ns();
  std::string name;
  for (const char c : utc_date(now / kSecond))
    if (c != '-' && c != ':') name += c;
  name += format("-{:08x}", now % kSecond);
  for (const uint8_t byte : random) name += format("{:02x}", byte);
  return name + std::string(kEnding);
}

struct Names {
  std::vector<std::string> ours, others;  // sorted
};
Result<Names> names_in(const std::string& folder) {
  Names names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (names.ours.size() + names.others.size() == kMostFiles)
      return Error(ErrorCode::usage, format("{}: more than {} files", folder, kMostFiles),
                   "--history-keep of collctl check removes the oldest");
    std::string name = at->path().filename().string();
    (is_ours(name) ? names.ours : names.others).push_back(std::move(name));
  }
  if (failed) return base::errno_error(ErrorCode::usage, folder, failed.value());
  std::ranges::sort(names.ours);
  std::ranges::sort(names.others);
  return names;
}

Result<PastCheck> past_check(const std::string& text, bool& is_check) {
  COLL_ASSIGN(const Judgement judged, read_judgement(text));
  is_check = judged.schema == "collctl.check/1";
  if (!is_check) return Error(ErrorCode::usage, format("it is {}, no check", judged.schema));
  COLL_ASSIGN(const CheckReport report, read_check(judged));
  PastCheck past{.unix_s = unix_of(judged.made.date),
                 .version = judged.made.version,
                 .exit_code = judged.exit_code,
                 .report = kept_in_history(report)};
  if (past.unix_s == 0) return Error(ErrorCode::usage, "it does not say when it was made");
  return past;
}

void add_ends(CheckReport& kept) {
  const PathMatrix& paths = kept.paths;
  for (size_t i = 0; i < paths.ends.size(); ++i)
    for (const bool sends : {true, false}) {
      std::vector<double> values;
      for (size_t j = 0; j < paths.ends.size(); ++j)
        if (const double GBps = sends ? paths.GBps[i][j] : paths.GBps[j][i];
            i != j && GBps != kNotTried)
          values.push_back(GBps);
      if (values.empty()) continue;
      Finding& finding = kept.findings.emplace_back(Finding{.name = sends ? kSends : kReceives});
      finding.at = {
          .kind = SubjectKind::nic, .host = paths.ends[i].host, .device = paths.ends[i].nic};
      finding.measured = format("{:.6g}", median(std::move(values)));
      finding.unit = "GB/s";
      if (paths.is_busy(paths.ends[i].host)) finding.reason = kBusyHost;
    }
}

// Each GPU's writes to the one that it writes to worst, in place of the matrix.
void add_gpus(CheckReport& kept) {
  for (const GpuReport& host : kept.gpus)
    for (size_t gpu = 0; gpu < host.gpus.size(); ++gpu) {
      double least = 0;
      for (const GpuPair& pair : host.pairs)
        if (const double GBps = pair.of(PairFigure::write);
            size_t(pair.from) == gpu && GBps > 0 && (least == 0 || GBps < least))
          least = GBps;
      if (least == 0) continue;
      Finding& finding = kept.findings.emplace_back(Finding{.name = "gpus/write"});
      finding.at = {.kind = SubjectKind::gpu, .host = host.host, .device = host.gpus[gpu].device};
      finding.measured = format("{:.6g}", least);
      finding.unit = "GB/s";
      if (!host.busy.empty()) finding.reason = kBusyHost;
    }
  kept.gpus.clear();
}

}  // namespace

CheckReport kept_in_history(const CheckReport& report) {
  CheckReport kept = report;
  kept.machine.clear();
  kept.burnt.clear();
  kept.nccl.reset();
  add_gpus(kept);
  std::erase_if(kept.findings, [](const Finding& finding) {
    return finding.status == FindingStatus::pass &&
           (finding.unit != "GB/s" || finding.measured.empty());
  });
  for (Finding& finding : kept.findings)
    if (finding.status == FindingStatus::pass) finding.message = finding.remedy = finding.cell = "";
  const bool has_ends = std::ranges::any_of(kept.findings, [](const Finding& finding) {
    return finding.name == kSends || finding.name == kReceives;
  });
  if (!has_ends) add_ends(kept);
  if (kept.paths.ends.size() > kMostKeptEnds) kept.paths = {};
  return kept;
}

Status add_to_history(const std::string& folder, const CheckReport& report, const Verdict& verdict,
                      size_t keep) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return base::errno_error(ErrorCode::unavailable, folder, errno);
  COLL_ASSIGN(const std::string name, new_name());
  COLL_TRY(base::write_file_atomically(folder + "/" + name,
                                       check_json(kept_in_history(report), verdict)));
  if (keep == 0) return {};
  auto names = names_in(folder);
  if (!names) {
    names.error().code = ErrorCode::unavailable;
    return std::move(names.error());
  }
  for (size_t i = 0; i + keep < names->ours.size(); ++i) {
    const std::string path = folder + "/" + names->ours[i];
    // Another check may have removed it meanwhile.
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return base::errno_error(ErrorCode::unavailable, "cannot remove " + path, errno);
  }
  return {};
}

Result<HistoryFiles> read_history(const std::string& folder, size_t last,
                                  const std::function<void(PastCheck)>& each) {
  COLL_ASSIGN(Names names, names_in(folder));
  HistoryFiles files;
  if (names.ours.size() > last) files.older = names.ours.size() - last;
  names.ours.erase(names.ours.begin(), names.ours.begin() + long(files.older));
  names.ours.insert(names.ours.end(), names.others.begin(), names.others.end());
  for (const std::string& name : names.ours) {
    if (!name.ends_with(kEnding)) {
      files.skipped.push_back({name, "its name does not end in .json", false});
      continue;
    }
    const auto text = base::read_file(folder + "/" + name, Record::kMostDocument);
    bool is_check = true;
    auto past = text ? past_check(*text, is_check) : Result<PastCheck>(text.error());
    // Another check may have removed it since.
    if (!text && ::access((folder + "/" + name).c_str(), F_OK) != 0 && errno == ENOENT) continue;
    if (!past) {
      files.skipped.push_back({name, past.error().chain(), is_check});
      continue;
    }
    past->file = name;
    each(std::move(*past));
  }
  return files;
}

}  // namespace collctl::cmd
