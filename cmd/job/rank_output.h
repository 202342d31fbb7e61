// The output of ranks on its way out: the log of ranks of ours, the last words of each, and all
// that program ranks write. Used by the jobs, on their thread.
#pragma once
#include <poll.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/wait.h"
#include "launcher/local/local.h"

namespace collctl::cmd {

// The last lines that each rank wrote on its standard error, for the error that names it.
class LastWords {
 public:
  void add(const launcher::Event& line);
  // A hint's worth of them: "its last lines on standard error:\n  ..."; empty when there are none.
  std::string of(int rank) const;

 private:
  std::map<int, std::deque<std::string>> lines_;
};

struct OutputPolicy {
  bool tag = false;
  std::vector<std::string> hosts = {};  // by rank, for tags; empty: one host, which goes unsaid
  bool gather = false;
  std::string directory;  // non-empty: files only
  int out_fd = 1, err_fd = 2;
};

// The log that a rank of ours writes goes to standard error: standard output is the report's.
// `tag`: what stands before each line.
void forward_line(const launcher::Event& event, const std::string& tag);
// "[2 node02] ", or "[2] " where all ranks are on one host (an empty name).
std::string rank_tag(int rank, const std::string& host);

// To our standard output and error by whole lines, with tags or grouped at the end, or to one file
// per rank. Output that cannot be written now is kept, up to kKeepBytes; then the job stops
// reading, which holds the ranks back through their pipes. The files are the object's, the standard
// streams are not.
class RankOutput {
 public:
  static constexpr size_t kKeepBytes = 1 << 20;
  static constexpr size_t kFlushBytes = 64 << 10;   // at a time
  static constexpr size_t kGatherBytes = 64 << 20;  // of all ranks; above it output is not grouped

  // Makes the directory and its files (rank.N.out, rank.N.err).
  static Result<RankOutput> open(const OutputPolicy& policy, int ranks);

  // A line event. An error is a file that cannot be written.
  Status add(const launcher::Event& line);
  // Prints what --gather has kept.
  void finish();
  // Writes what can be written without waiting, of each stream kFlushBytes at most: a reader that
  // takes it piece by piece must not keep the job from its hosts. Code lost: the reader of that
  // stream is gone.
  Status flush();
  bool full() const { return pending_[0].size() + pending_[1].size() > kKeepBytes; }
  bool empty() const { return pending_[0].empty() && pending_[1].empty(); }
  // The streams that flush() waits for.
  void add_interest(std::vector<pollfd>& fds) const;

 private:
  explicit RankOutput(const OutputPolicy& policy) : policy_(policy) {}
  Status open_files(int ranks);
  void print(int stream, int rank, const std::string& text, bool open);
  void keep(int stream, int rank, const std::string& text, bool open);
  void print_groups(int stream);
  Status flush_stream(int stream);

  OutputPolicy policy_;
  std::string pending_[2];
  int open_rank_[2] = {-1, -1};  // rank whose line has no end yet
  std::vector<base::Fd> files_;  // 2 * rank + stream
  std::vector<std::string> kept_[2];
  size_t kept_bytes_ = 0;
};

}  // namespace collctl::cmd
