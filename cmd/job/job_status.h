// The state of a running job: made by the process that launched it, for `collctl status` and for
// the error of a job whose time is up. Records with a JSON form, and who waits for whom. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/measure/running.h"

namespace collctl::cmd {

struct RankNow {
  int rank = 0;
  Host host = {};
  int pid = 0;
  std::string phase = {};  // the last it announced
  std::string state = {};  // of its process: a letter of /proc/PID/stat; "": gone; "?": not known
  std::optional<RankDoing> doing = {};  // its answer; none: nothing, or not yet
};
struct JobNow {
  int pid = 0;                // of the launcher: what the job is called by
  std::string what = {};      // "allreduce", or the program
  double seconds = 0;         // since it began
  std::string progress = {};  // "512 KiB, 3 of 20"
  bool answers = true;        // its ranks are ours; a program's say nothing
  std::vector<RankNow> ranks = {};
};
void fields(Record& io, JobNow& job);

// A rank that others wait for although it waits for nobody, with those that wait for it, also
// through others. Ranks that wait for each other in a circle are one, named by the lowest rank.
struct Awaited {
  int rank = -1;
  std::vector<int> waiters = {};
  double seconds = 0;  // the longest of these waits
};
std::vector<Awaited> awaited(const JobNow& job);
// "ranks 0, 1 wait for rank 2 (host b, pid 31), which is stopped (state T)"; empty: nobody waits
// longer than `least_s`.
std::string awaited_text(const JobNow& job, double least_s);

}  // namespace collctl::cmd
