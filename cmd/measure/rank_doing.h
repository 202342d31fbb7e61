// What the ranks of this process do at this moment, for whoever asks from another thread (`collctl
// status`, a job that does not end). Who runs a communicator opens a scope. Threads: any.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/record.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct WaitDoing {
  int peer = -1;
  bool receives = true;  // waits for its data; else for it to take data
  double seconds = 0;
  // Empty: by a kernel made for windows, which does not say; the peer has not begun `number`.
  std::string operation = {}, algorithm = {}, protocol = {};
  uint64_t number = 0;  // of the operation
  int channel = 0;
  uint64_t step = 0, seen = 0, wanted = 0;
};
struct RankDoing {
  int rank = 0;
  uint64_t calls = 0;  // of collectives, so far
  std::string last;    // of them
  bool busy = false;   // it is not over
  bool on_gpu = false;
  std::vector<WaitDoing> waits;  // the longest first
};
void fields(Record& io, RankDoing& doing);

class DoingScope {
 public:
  explicit DoingScope(const runtime::Communicator& communicator);
  // Of one that was split off `whole`, in whose place it is asked meanwhile; told by the ranks'
  // numbers there.
  DoingScope(const runtime::Communicator& communicator, const runtime::Communicator& whole);
  ~DoingScope();  // afterwards nobody asks the communicator any more
  DoingScope(const DoingScope&) = delete;
  DoingScope& operator=(const DoingScope&) = delete;

 private:
  const runtime::Communicator& communicator_;
  const runtime::Communicator* const whole_ = nullptr;
};
std::vector<RankDoing> ranks_doing();

}  // namespace collctl::cmd
