// Ranks that measure at the same time, and how they keep step: the ranks of one communicator, or
// with --split groups of them, each of which runs a BenchRun of its own over its communicator. Made
// by bench_rank, used on the rank's thread; borrows communicators and sink.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cmd/measure/bench.h"
#include "cmd/measure/fields.h"
#include "cmd/measure/groups.h"
#include "cmd/measure/rows.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/timing.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

// The ranks of one communicator.
class Everyone {
 public:
  Everyone(runtime::Communicator& own, BenchOut& out, double timeout_s)
      : own_(own), out_(out), timeout_s_(timeout_s) {}
  virtual ~Everyone() = default;
  Everyone(const Everyone&) = delete;
  Everyone& operator=(const Everyone&) = delete;

  runtime::Communicator& own() const { return own_; }  // that these ranks' rows run on
  virtual runtime::Communicator& whole() const { return own_; }
  BenchOut& out() const { return out_; }           // the job's
  virtual BenchOut& row_out() { return out_; }     // of rows, and what is wrong with them
  double timeout_s() const { return timeout_s_; }  // of what these ranks do together
  Deadline deadline() const { return Deadline::after_seconds(timeout_s_); }
  virtual void tell(HeaderFacts&) const {}
  // After what takes some much longer than others.
  virtual Status meet() { return {}; }
  // The bytes of every rank, by the job's numbers.
  virtual Result<std::vector<Bytes>> gather(ByteView mine);
  // Maximum over all ranks; all learn it.
  Result<int64_t> largest(int64_t mine);
  // Before a timed stretch on `stream`, which it borrows.
  virtual std::unique_ptr<Barrier> barrier(runtime::Stream& stream);
  // One operation, of which all learn how long it takes at most; `operations` follow until the
  // next meeting, and again after that.
  virtual Status probe(Timed&, int /*operations*/) { return {}; }
  // Leaves those of `sizes` in `able` that all can serve; the others get a reason.
  virtual Status agree(const std::vector<uint64_t>& /*sizes*/, std::vector<uint64_t>& /*able*/,
                       std::map<uint64_t, Error>& /*refused*/) {
    return {};
  }
  // Bytes that a row's operation moves, in the largest group.
  virtual uint64_t most_moved(const RowToMeasure& row) const;
  // A row is done: what row_out() has kept of it goes to the job's sink.
  virtual Status hand_over() { return {}; }

 private:
  runtime::Communicator& own_;
  BenchOut& out_;
  const double timeout_s_;
};

// Groups: before every timed stretch and after every row all ranks of the job meet over the whole
// communicator. There the groups' rows come to rank 0. Every group first meets by itself, so that a
// rank that does not come is its group's to name, within --op-timeout; for a group that only takes
// longer the others wait as long as its first operation says.
class Together : public Everyone {
 public:
  Together(runtime::Communicator& whole, runtime::Communicator& group, const Groups& groups,
           BenchOut& out, double timeout_s, const Continued* continued = nullptr);

  runtime::Communicator& whole() const override { return whole_; }
  BenchOut& row_out() override { return own_out_; }  // keeps what hand_over() delivers
  void tell(HeaderFacts& facts) const override;
  // All leave it at the same time.
  Status meet() override;
  Result<std::vector<Bytes>> gather(ByteView mine) override;
  std::unique_ptr<Barrier> barrier(runtime::Stream& stream) override;
  Status probe(Timed& timed, int operations) override;
  // A size that one group cannot serve is left out by all: they have the same rows.
  Status agree(const std::vector<uint64_t>& sizes, std::vector<uint64_t>& able,
               std::map<uint64_t, Error>& refused) override;
  uint64_t most_moved(const RowToMeasure& row) const override;
  // The row of every group, and its faults, in the order of the groups.
  Status hand_over() override;
  // The error of this group's own run as the job tells it: its ranks' numbers are the job's, and
  // the group is named. An error of the whole stays as it is.
  Error told(Error error) const;

 private:
  Deadline patience() const;
  template <class T>
  Result<T> of_whole(Result<T> result);

  runtime::Communicator& whole_;
  const Groups& groups_;
  const int mine_;
  BenchOut own_out_;
  std::vector<std::string> records_;
  const Continued* const continued_;
  double slowest_s_ = 0;  // what is expected of the slowest group until the next meeting
  bool whole_failed_ = false;
  runtime::Stream stream_;  // of the whole
  StreamBarrier at_once_;
};

// A record of a communicator that numbers its ranks anew (of a group, or of those that others have
// left alone), in the job's numbers: people know ranks by these. members[r]: the number in the job
// of its rank r. Pure.
void in_job_numbers(const std::vector<int>& members, BenchRecord& record);

}  // namespace collctl::cmd
