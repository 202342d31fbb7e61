// The folder of a history (check --history): a file for each check, an ordinary report. Several
// processes and hosts may add to one folder at the same time. Nothing in it is trusted when it is
// read. Threads: any.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cmd/check/check.h"

namespace collctl::cmd {

// Medians of the paths that begin and end at a NIC, in place of a matrix that would be too large.
inline constexpr const char *kSends = "pairs/sends", *kReceives = "pairs/receives";

// A check as a history keeps it: what failed, was odd or was not tested, and of the rest the speeds
// (GB/s), with sends and receives of each NIC. Without the machine, and without the matrix of more
// than kMostKeptEnds NICs. A report that has been kept stays as it is. Pure.
inline constexpr size_t kMostKeptEnds = 64;
CheckReport kept_in_history(const CheckReport& report);

// A new file in the folder, which is made when it is missing (its parent is not), whole or not at
// all. `keep`: then the oldest files that this function has written are removed until so many are
// left; 0: nothing is. Error unavailable, with the path.
Status add_to_history(const std::string& folder, const CheckReport& report, const Verdict& verdict,
                      size_t keep);

struct PastCheck {
  std::string file = {};  // its name in the folder
  int64_t unix_s = 0;     // when it began
  std::string version = {};
  int exit_code = 0;
  CheckReport report = {};  // kept_in_history()
};
struct HistoryFiles {
  size_t older = 0;  // that were not read, for there are `last` newer ones
  struct Skipped {
    std::string file, why;
    bool damaged = false;  // it may have been a check; else it is something else
  };
  std::vector<Skipped> skipped = {};
};
// Each check of the folder, in no particular order; of the files that add_to_history() has written
// the newest `last`. A file that is no check is skipped. Errors: usage, the folder cannot be read.
Result<HistoryFiles> read_history(const std::string& folder, size_t last,
                                  const std::function<void(PastCheck)>& each);

}  // namespace collctl::cmd
