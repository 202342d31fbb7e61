// Both ends of a relay (cmd/measure/relay.h): a rank's, over its control connection, and the job's,
// which passes frames on. Payload of a frame: the other rank, then what is sent.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cmd/measure/relay.h"
#include "launcher/local/control.h"
#include "launcher/local/rank_group.h"

namespace collctl::cmd {

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
