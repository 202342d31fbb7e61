// NCCL watched while it works beside us: its log goes to memory of the process and is read at the
// end, its RAS is asked while all ranks' communicators live. Used by versus.cc, on the rank's
// thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/fd.h"
#include "base/host.h"
#include "base/wait.h"
#include "cmd/measure/nccl_log.h"
#include "cmd/measure/nccl_ras.h"

namespace collctl::runtime {
class Communicator;
}

namespace collctl::cmd {

struct RasAnswer {
  std::string address;              // that was asked; empty: none
  std::optional<RasStatus> status;  // of the job that was watched
  std::string missing;              // why there is none
};
struct NcclOnHost {
  static constexpr const char* kRecord = "what NCCL says";
  Host host;
  int rank = 0;  // the first there
  NcclLog log;   // of all its ranks' processes; choices: of the job's rank 0
  RasAnswer ras;
};
void fields(Record& io, NcclOnHost& host);

// The log of another process of the same host beside what is known of it.
void add_log(NcclLog& to, NcclLog&& more);

class NcclWatch {
 public:
  // One in a process, before NCCL's first call: NCCL reads these variables once. Error unavailable:
  // no memory for the log.
  static Result<std::unique_ptr<NcclWatch>> begin();
  // For this process, so far.
  NcclLog log() const;

 private:
  NcclWatch() = default;
  base::Fd file_;
  std::vector<std::unique_ptr<base::ScopedVariable>> variables_;
};

// Asks the RAS that this process's NCCL of that version has, and makes sure that the answer is
// about this process: the port may be another job's.
RasAnswer ask_own_ras(int nccl_version, base::Deadline deadline);
// By host, in the order of the first ranks; on all ranks alike. Collective. `watch`: null where
// another rank has this process's.
Result<std::vector<NcclOnHost>> gather_watched(const NcclWatch* watch, int nccl_version,
                                               runtime::Communicator& communicator,
                                               base::Deadline deadline);

}  // namespace collctl::cmd
