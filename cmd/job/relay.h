// A rank's words to its job, as frames: a sink, and both ends of a relay (cmd/measure/task.h), the
// rank's over its control connection and the job's, which passes frames on. Payload of a relay's
// frame: the other rank, then what is sent.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cmd/measure/task.h"
#include "launcher/local/control.h"
#include "launcher/local/rank_group.h"

namespace collctl::cmd {

// A rank's results on their way to the job. Threads: any.
class FrameSink : public TaskSink {
 public:
  using Send = std::function<Status(launcher::FrameType, const std::string&)>;
  explicit FrameSink(Send send) : send_(std::move(send)) {}
  // A failure is kept for status().
  Status record(const std::string& json) override;
  void progress(const std::string& text) override { put(launcher::FrameType::progress, text); }
  void phase(int, const std::string& name) override { put(launcher::FrameType::phase, name); }
  // A job that cannot be reached any more: found at the end, where it can be returned.
  Status status() const;

 private:
  void put(launcher::FrameType type, const std::string& text);
  Send send_;
  mutable std::mutex mutex_;
  std::optional<Error> broken_;
};

class LauncherRelay : public RankRelay {
 public:
  explicit LauncherRelay(launcher::FrameChannel& channel) : channel_(channel) {}
  Status send(int rank, ByteView bytes, Deadline deadline) override;
  Result<Bytes> receive(int from, Deadline deadline) override;
  // Called by the thread that listens to the launcher. Error lost: it is malformed.
  Status arrived(ByteView payload);
  // Nothing more comes: who receives ends with the reason.
  void end(const Error& why);

 private:
  launcher::FrameChannel& channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::deque<Bytes>> inbox_;  // by sender
  std::optional<Error> ended_;
};

// Passes what rank `from` sends to the rank or ranks that it is for. Errors: lost: malformed;
// deadline: a rank takes nothing.
Status pass_on(launcher::RankGroup& job, const std::vector<int>& members, int from,
               ByteView payload);

}  // namespace collctl::cmd
