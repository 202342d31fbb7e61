// Recordings of other hosts (doctor --record), judged here.
#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "base/whole_file.h"
#include "cmd/doctor/doctor.h"

namespace collctl::cmd {

namespace {

constexpr size_t kMostFilesSeen = 100'000, kMostRecordings = 10'000;
constexpr size_t kMostRecording = 16 << 20;  // bytes of one

Result<std::vector<std::filesystem::path>> recordings_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  size_t seen = 0;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (++seen > kMostFilesSeen || files.size() == kMostRecordings)
      return Error(ErrorCode::usage, format("{}: more files than recordings of hosts", folder),
                   "name the folder that collctl doctor --record has made");
    if (at->path().extension() == ".json") files.push_back(at->path());
  }
  if (failed) return base::errno_error(ErrorCode::usage, folder, failed.value());
  if (files.empty())
    return Error(ErrorCode::usage, format("{}: no recording (HOST.json) is there", folder),
                 "collctl doctor --record DIR writes them");
  std::ranges::sort(files);
  return files;
}

Result<StateRecording> recording_of(const std::string& file) {
  COLL_ASSIGN(const std::string text, base::read_file(file, kMostRecording));
  return read_recording(text);
}

}  // namespace

Result<Survey> replayed_survey(const std::string& folder) {
  COLL_ASSIGN(const auto files, recordings_in(folder));
  Survey survey;
  for (const auto& file : files) {
    SurveyedHost& host = survey.hosts.emplace_back();
    host.spec.id = HostId(int(survey.hosts.size()) - 1);
    host.spec.name = file.stem();
    auto recording = recording_of(file);
    if (recording) {
      if (!recording->host.empty()) host.spec.name = recording->host;
      host.client = format("{}, {}", file.string(), recording->source);
      host.state.state = std::move(recording->state);
    } else {
      host.state.missing = std::move(recording.error()).within(file).chain();
    }
  }
  return survey;
}

}  // namespace collctl::cmd
