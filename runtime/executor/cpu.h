// The executor of CPU ranks: channel 0 in the calling thread, further channels on helper threads,
// each through all operations of the submission in order.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/launch.h"
#include "runtime/executor/executor.h"
#include "runtime/links/wire.h"

namespace collctl::runtime {

// The sentence for a work that was aborted: "rank 3 waits for data from rank 2 (allreduce #17,
// ring, ll, channel 0, step 42: saw 41): no progress for 30 s". Code deadline or bad_data, blaming
// the peer; code interrupted, no message, and the peer it waited for when it was told to stop.
Error error_from_report(const kernels::Report& report, double op_timeout_s);

class CpuExecutor : public Executor {
 public:
  struct Options {
    uint32_t* abort_word = nullptr;
    double op_timeout_s = 30;
    base::WaitPolicy* waiting = nullptr;
    kernels::Fault fault;
    ProxyEngine* proxy = nullptr;
    const kernels::FlatRange* flat = nullptr;  // where users' windows are mapped
    kernels::WaitLog* waits = nullptr;
  };
  CpuExecutor(Wire& wire, const Options& options);
  ~CpuExecutor() override;
  Status run(Plan& plan, uint64_t first_op_count) override;

 private:
  struct Channel;
  Channel& channel(size_t index);
  bool run_work(Channel& channel, const kernels::Work& work);
  void give_up(Channel& channel);
  void run_channel(Plan& plan, size_t channel);
  Status run_one(kernels::Work& work, uint64_t op_count);
  Status outcome();

  Wire& wire_;
  Options options_;
  kernels::HelperPool channel_helpers_;  // channels 1.. of a submission
  kernels::HelperPool
      split_helpers_;  // second halves inside one work; never wait for the first pool
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace collctl::runtime
