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
           BenchSink& sink, double timeout_s, const Continued* continued = nullptr);

  runtime::Communicator& whole() { return whole_; }
  const Groups& groups() const { return groups_; }
  BenchSink& sink() { return sink_; }          // the job's
  BenchSink& own_sink() { return own_sink_; }  // this group's: keeps what hand_over() delivers
  int largest() const;                         // ranks of the largest group

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
  class GroupSink : public BenchSink {
   public:
    explicit GroupSink(Together& together) : together_(together) {}
    void header(const BenchHeader&) override {}
    void row(const BenchRow& row) override { records_.push_back(encode_record(row)); }
    void closing(const BenchClosing&) override {}
    void fault(const DataFault& fault) override { records_.push_back(encode_record(fault)); }
    void progress(const std::string& text) override;
    void phase(int, const std::string& name) override;
    std::vector<std::string> take() { return std::exchange(records_, {}); }

   private:
    Together& together_;
    std::vector<std::string> records_;
  };

  Deadline patience() const;
  template <class T>
  Result<T> of_whole(Result<T> result);

  runtime::Communicator &whole_, &group_;
  const Groups& groups_;
  const int mine_;
  BenchSink& sink_;
  GroupSink own_sink_;
  const double timeout_s_;
  const Continued* const continued_;
  double slowest_s_ = 0;  // what is expected of the slowest group until the next meeting
  bool whole_failed_ = false;
  runtime::Stream stream_;  // of the whole
  StreamBarrier at_once_;
};

}  // namespace collctl::cmd
