#include "cmd/job/rank_output.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/format.h"
#include "base/log.h"
#include "base/own_file.h"

namespace collctl::cmd {
namespace {

constexpr size_t kLastLines = 5;
constexpr size_t kMostOfLine = 400;

constexpr int64_t kLogMs = 200;  // for the reader of the ranks' log, each line

// mkdir -p
Status make_directories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      return base::errno_error(ErrorCode::unavailable, "make the folder " + part, errno);
  }
  struct stat s;
  if (::stat(path.c_str(), &s) != 0 || !S_ISDIR(s.st_mode))
    return Error(ErrorCode::usage, format("--output-dir {}: is not a folder", path));
  return {};
}

Status write_file(int fd, std::string_view text, int rank) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return base::errno_error(ErrorCode::unavailable, format("write the output of rank {}", rank),
                               errno);
    text.remove_prefix(size_t(n));
  }
  return {};
}

// "[0-3,7]"
std::string ranges(const std::vector<int>& ranks) {
  std::string text = "[";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += format("{}{}", i == 0 ? "" : ",", ranks[i]);
    if (last > i) text += format("-{}", ranks[last]);
    i = last + 1;
  }
  return text + "]";
}

}  // namespace

void LastWords::add(const launcher::Event& line) {
  if (!line.is_stderr || line.line.empty()) return;
  // Those who knock at a rank's door must not drown what the rank itself has to say.
  if (line.line.find(base::kOfStrangers) != std::string::npos) return;
  std::deque<std::string>& mine = lines_[line.rank];
  mine.push_back(line.line.substr(0, kMostOfLine));
  if (mine.size() > kLastLines) mine.pop_front();
}

std::string LastWords::of(int rank) const {
  const auto found = lines_.find(rank);
  if (found == lines_.end()) return {};
  std::string text = "its last lines on standard error:";
  for (const std::string& line : found->second) text += "\n  " + line;
  return text;
}

void forward_line(const launcher::Event& event, const std::string& tag) {
  static std::atomic<size_t> dropped{0};
  std::string text = tag + event.line + "\n";
  // A reader that sleeps must not hold up the job: hosts would take that for its end. Once a line
  // has waited in vain the next ones do not wait.
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  const auto room = base::poll_fds({&ready, 1}, Deadline::after_ms(dropped > 0 ? 0 : kLogMs));
  if (!room.ok() || *room == 0) {
    ++dropped;
    return;
  }
  if (const size_t lost = dropped.exchange(0); lost > 0)
    text = format("collctl: note: {} lines of the ranks' log were dropped: nobody read them\n{}",
                  lost, text);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a log that nobody takes must not end the measurement
    left.remove_prefix(size_t(n));
  }
}

std::string rank_tag(int rank, const std::string& host) {
  return host.empty() ? format("[{}] ", rank) : format("[{} {}] ", rank, host);
}

Result<RankOutput> RankOutput::open(const OutputPolicy& policy, int ranks) {
  RankOutput output(policy);
  if (policy.gather)
    for (auto& kept : output.kept_) kept.resize(size_t(ranks));
  if (!policy.directory.empty()) COLL_TRY(output.open_files(ranks));
  return output;
}

Status RankOutput::open_files(int ranks) {
  COLL_TRY(make_directories(policy_.directory));
  for (int rank = 0; rank < ranks; ++rank)
    for (const char* ending : {"out", "err"}) {
      const std::string path = format("{}/rank.{}.{}", policy_.directory, rank, ending);
      auto fd = base::open_own_file(path, false);
      if (!fd) return std::move(fd.error().within("--output-dir"));
      files_.push_back(std::move(*fd));
    }
  return {};
}

Status RankOutput::add(const launcher::Event& line) {
  const int stream = line.is_stderr ? 1 : 0;
  if (!files_.empty())
    return write_file(files_[size_t(2 * line.rank + stream)].get(),
                      line.partial ? line.line : line.line + "\n", line.rank);
  if (!kept_[stream].empty() && kept_bytes_ + line.line.size() <= kGatherBytes)
    keep(stream, line.rank, line.line, line.partial);
  else
    print(stream, line.rank, line.line, line.partial);
  return {};
}

void RankOutput::print(int stream, int rank, const std::string& text, bool open) {
  std::string& to = pending_[stream];
  int& open_rank = open_rank_[stream];
  if (open_rank >= 0 && open_rank != rank) {
    to += '\n';
    open_rank = -1;
  }
  if (policy_.tag && open_rank != rank)
    to += rank_tag(rank, policy_.hosts.empty() ? "" : policy_.hosts[size_t(rank)]);
  to += text;
  if (!open) to += '\n';
  open_rank = open ? rank : -1;
}

void RankOutput::keep(int stream, int rank, const std::string& text, bool open) {
  std::string& to = kept_[stream][size_t(rank)];
  to += text;
  if (!open) to += '\n';
  kept_bytes_ += text.size() + 1;
}

void RankOutput::print_groups(int stream) {
  std::map<std::string_view, std::vector<int>> groups;
  for (int rank = 0; rank < int(kept_[stream].size()); ++rank)
    groups[kept_[stream][size_t(rank)]].push_back(rank);
  std::vector<std::pair<std::string_view, std::vector<int>>> list(groups.begin(), groups.end());
  std::ranges::sort(
      list, [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
  std::string& to = pending_[stream];
  for (const auto& [text, ranks] : list) {
    if (text.empty()) continue;
    to += format("{} {}\n", ranges(ranks),
                 ranks.size() == 1 ? std::string("1 rank") : format("{} ranks", ranks.size()));
    to += text;
    if (text.back() != '\n') to += '\n';
  }
  kept_[stream].clear();
}

void RankOutput::finish() {
  for (int stream = 0; stream < 2; ++stream)
    if (!kept_[stream].empty()) print_groups(stream);
}

void RankOutput::add_interest(std::vector<pollfd>& fds) const {
  if (!pending_[0].empty()) fds.push_back({policy_.out_fd, POLLOUT, 0});
  if (!pending_[1].empty()) fds.push_back({policy_.err_fd, POLLOUT, 0});
}

Status RankOutput::flush_stream(int stream) {
  const int fd = stream == 0 ? policy_.out_fd : policy_.err_fd;
  std::string& text = pending_[stream];
  size_t at = 0;
  while (at < std::min(text.size(), kFlushBytes)) {
    pollfd p{fd, POLLOUT, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, Deadline::after_ns(0)));
    if (ready == 0) break;
    // A pipe that polls writable takes PIPE_BUF bytes without blocking, not more.
    const ssize_t n = ::write(fd, text.data() + at, std::min<size_t>(text.size() - at, PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) {
      const int failure = errno;
      text.clear();
      return base::errno_error(failure == EPIPE ? ErrorCode::lost : ErrorCode::unavailable,
                               stream == 0 ? "standard output" : "standard error", failure);
    }
    at += size_t(n);
  }
  text.erase(0, at);
  return {};
}

Status RankOutput::flush() {
  Status out = flush_stream(0);
  COLL_TRY(flush_stream(1));
  return out;
}

}  // namespace collctl::cmd
