// How the groups of --split keep step: each runs a BenchRun of its own over its communicator, and
// before every timed stretch and after every row all ranks of the job meet over the whole one.
// There the groups' rows come to rank 0. Every group first meets by itself, so that a rank that
// does not come is its group's to name, within --op-timeout; for a group that only takes longer the
// others wait as long as its first operation says. Made by bench_rank, used on the rank's thread;
// borrows communicators and sink.
#pragma once
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/groups.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/timing.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

class Together {
 public:
  Together(runtime::Communicator& whole, runtime::Communicator& group, const Groups& groups,
           BenchOut& out, double timeout_s, const Continued* continued = nullptr);

  runtime::Communicator& whole() { return whole_; }
  const Groups& groups() const { return groups_; }
  BenchOut& out() { return out_; }          // the job's
  BenchOut& own_out() { return own_out_; }  // this group's: keeps what hand_over() delivers
  int largest() const;                      // ranks of the largest group

  // What every rank brought, by the job's numbers.
  Result<std::vector<Bytes>> gather(ByteView mine);
  // The row of every group, and its faults, to the job's sink, in the order of the groups.
  Status hand_over();
  // All leave it at the same time.
  Status barrier();
  // One operation, of which all learn how long it takes at most; `operations` follow until the
  // next meeting, and again after that.
  Status probe(Timed& timed, int operations);
  // The error of this group's own run as the job tells it: its ranks' numbers are the job's, and
  // the group is named. What the whole said stays.
  Error told(Error error) const;

 private:
  Deadline patience() const;
  template <class T>
  Result<T> of_whole(Result<T> result);

  runtime::Communicator &whole_, &group_;
  const Groups& groups_;
  const int mine_;
  BenchOut& out_;
  BenchOut own_out_;
  std::vector<std::string> records_;
  const double timeout_s_;
  const Continued* const continued_;
  double slowest_s_ = 0;  // what is expected of the slowest group until the next meeting
  bool whole_failed_ = false;
  runtime::Stream stream_;  // of the whole
  StreamBarrier at_once_;
};

// One rank's part in a run of groups (--split): which group it is in, the group's communicator, and
// the BenchRun over it. Called by bench_rank on the rank's thread. All ranks of the job together:
// what fails in one group ends all of them; its error comes back in the job's numbers of ranks, and
// the whole has been told. `continued`: the whole is of those that are left, and the groups are
// what is left of them.
Status run_in_group(const BenchSpec& spec, runtime::Communicator& whole, BenchOut& out,
                    const Continued* continued = nullptr);

// A record of a communicator that numbers its ranks anew (of a group, or of those that others have
// left alone), in the job's numbers: people know ranks by these. members[r]: the number in the job
// of its rank r. Pure.
void in_job_numbers(const std::vector<int>& members, BenchRecord& record);

}  // namespace collctl::cmd
