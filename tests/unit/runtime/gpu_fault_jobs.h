// Jobs of GPU ranks that are to fail, and what their ranks report.
#pragma once

#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/says.h"

namespace collctl::runtime::testing {

inline constexpr double kOpTimeout = 3;  // one that is to pass; ranks begin closer to each other
inline GpuJob job_of(int ranks, const char* transport = "", double op_timeout_s = 20) {
  GpuJob job;
  job.ranks = ranks;
  job.options.transport = transport;
  job.options.op_timeout_s = op_timeout_s;
  return job;
}

// Every rank is refused, with this code and these words.
inline void check_refused(const GpuJob& job, ErrorCode code,
                          const std::vector<std::string>& words) {
  const auto results = try_gpu_job(job);
  for (size_t r = 0; r < results.size(); ++r) {
    REQUIRE_FALSE(results[r]);
    const Error& error = results[r].error();
    INFO("rank " << r << ": " << error.chain());
    CHECK(error.code == code);
    for (const std::string& each : words) {
      INFO(each);
      CHECK(says(error, each));
    }
  }
}

// A job that is destroyed although it failed; nothing may be left of it.
class FailingJob {
 public:
  explicit FailingJob(const GpuJob& job) : communicators_(start_gpu_job(job)) {}
  ~FailingJob() {
    communicators_.clear();
    CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
  }
  Communicator& operator[](int rank) { return *communicators_[size_t(rank)]; }
  void leave(int rank) { communicators_[size_t(rank)].reset(); }

 private:
  Communicators communicators_;
};

inline Status reduce(Communicator& c, Stream& stream) {
  thread_local std::vector<float> in, out;
  in.assign(200'000, 1.f);
  out.resize(in.size());
  COLL_TRY(c.start({.collective = Collective::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = in.size()},
                   stream));
  return stream.synchronize();
}

// How many ranks come through an all-reduce of all of them; makes the links.
inline int how_many_reduce(int ranks, const std::function<Communicator&(int)>& rank) {
  std::atomic<int> well{0};
  on_all(ranks, [&](int r) {
    Stream stream(rank(r));
    if (reduce(rank(r), stream)) ++well;
  });
  return well;
}

// The errors of the ranks that take part in an all-reduce; those absent wait until they hear of it.
inline std::vector<Error> reduce_without(FailingJob& job, int ranks, int absent,
                                         const std::function<void()>& absent_does) {
  std::vector<Error> errors(static_cast<size_t>(ranks));
  on_all(ranks, [&](int r) {
    if (r == absent) return absent_does();
    Stream stream(job[r]);
    const Status status = reduce(job[r], stream);
    if (!status) errors[size_t(r)] = status.error();
    if (reduce(job[r], stream)) errors[size_t(r)] = Error(ErrorCode::defect, "went on");
  });
  return errors;
}

}  // namespace collctl::runtime::testing
