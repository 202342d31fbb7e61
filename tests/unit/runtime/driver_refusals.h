// Each call of a driver is refused once, in small jobs of GPU ranks: the job goes another way and
// is right, or every rank ends in time with a code and words that fit, and nothing is left behind.
#pragma once
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/one_sided/one_sided_job.h"

namespace collctl::runtime::testing {

inline constexpr int kRefused = 304;  // CUDA_ERROR_OPERATING_SYSTEM: no sign of a broken GPU

struct Ended {
  Status status;
  bool begun = false;  // an operation of this rank had ended
};

// `own_words`: any of them shows that it was the driver.
inline void check_ended(const std::vector<Ended>& all, const std::vector<std::string>& own_words) {
  const auto words = [&](const Error& e) {
    for (const std::string& word : own_words)
      if (e.chain().find(word) != std::string::npos) return true;
    return false;
  };
  bool told = false;
  int well = 0;
  std::string ends;
  for (const Ended& rank : all)
    ends += format("\n{}", rank.status ? "well" : rank.status.error().chain());
  INFO(ends);
  for (const Ended& rank : all) {
    if (rank.status) {
      ++well;
      continue;
    }
    const Error& error = rank.status.error();
    INFO(error.chain());
    // A rank that only found the other gone cannot know why.
    const bool may_not_work = !rank.begun && words(error);
    CHECK(
        (error.code == ErrorCode::lost || (may_not_work && error.code == ErrorCode::unavailable)));
    told |= words(error);
  }
  CHECK((well == int(all.size()) || (well == 0 && told)));
}

// A library whose calls can be refused.
struct Refusable {
  std::function<void()> set_up;                       // as it is before each job
  std::function<std::map<std::string, int>()> calls;  // since then
  std::function<void(const std::string& function, int after)> refuse;
  std::function<std::string()> left;  // what is still held; empty: nothing
  std::vector<std::string> words;
  // Looks that are repeated until something has happened: these calls have no place of their own.
  std::vector<std::string> looks;
};

inline Refusable cuda_driver(int devices) {
  return {
      [=] { set_up_gpus(devices); },
      fake_cuda::calls,
      [](const std::string& function, int after) { fake_cuda::fail(function, kRefused, after); },
      [] { return fake_cuda::counts() == fake_cuda::Counts{} ? "" : fake_cuda::counts().text(); },
      {"CUDA", "the launcher's own words"},
      {"cuCtxSetCurrent", "cuStreamQuery", "cuEventQuery"}};
}

// `positions` of the calls of each function, spread over them; with `part`, of the functions that
// it takes, which may be of several jobs. `run` has the ranks' ends.
inline void refuse_each(const std::string& job, const Refusable& driver, int positions,
                        const std::function<std::vector<Ended>()>& run,
                        test::Part* part = nullptr) {
  driver.set_up();
  for (const Ended& rank : run()) {
    INFO(job << ": " << (rank.status ? "" : rank.status.error().chain()));
    REQUIRE(rank.status);
  }
  for (const auto& [function, count] : driver.calls()) {
    if (std::find(driver.looks.begin(), driver.looks.end(), function) != driver.looks.end())
      continue;
    if (part != nullptr && !part->takes({int(std::hash<std::string>()(function))})) continue;
    const int step = std::max(1, count / positions);
    for (int after = (count - 1) % step; after < count; after += step) {
      INFO(job << ": " << function << " after " << after << " of " << count);
      driver.set_up();
      driver.refuse(function, after);
      check_ended(run(), driver.words);
      CHECK(driver.left() == "");
    }
  }
}

inline Status expect_all(const std::vector<float>& data, size_t count, float want) {
  for (size_t i = 0; i < count; ++i)
    if (data[i] != want)
      return Error(ErrorCode::bad_data, format("element {} is {}, not {}", i, data[i], want));
  return {};
}

// `work` on each of `n` ranks that are made with `options`.
inline std::vector<Ended> ends_of_job(int n, const CommOptions& options,
                                      const std::function<Status(Communicator&, bool& begun)>& work,
                                      bool gpus = true) {
  const Root root = make_root();
  std::vector<Ended> all(static_cast<size_t>(n));
  on_all(n, [&](int r) {
    Ended& ended = all[size_t(r)];
    CommOptions own = options;
    own.op_timeout_s = 120;
    if (gpus) own.device = r;
    own.launcher = &host_launcher();
    bool checked_in = false;
    own.checks_in = [&] { checked_in = true; };
    auto made = Communicator::init(root.id, r, n, own);
    // As the command does: the error stays what it is when nobody can be told.
    if (!made && !checked_in)
      (void)decline_start(root.id, r, n, format("host{}", r), made.error(), soon());
    ended.status = made ? work(**made, ended.begun) : Status(std::move(made.error()));
  });
  return all;
}

// One-sided operations with windows in `memory`, which is the caller's to free when the
// communicator has gone.
inline Status one_sided_work(Communicator& c, bool& begun, void*& memory) {
  constexpr uint64_t kStripe = 70001;
  Complaints wrong;
  OneSidedJob job{c, nullptr, nullptr, nullptr};
  COLL_ASSIGN(job.ops, OneSided::open(c, soon()));
  const uint64_t bytes = uint64_t(c.size()) * kStripe;
  COLL_ASSIGN(memory, allocate_window_memory(bytes, c.device()));
  job.memory = memory;
  const WindowRange mine{.address = memory, .bytes = bytes};
  COLL_ASSIGN(const auto windows, c.register_windows({&mine, 1}, soon()));
  job.window = windows[0];
  COLL_TRY(job.ops->share(windows, soon()));
  for (int round = 0; round < 2; ++round) {
    COLL_TRY(exchange(job, kStripe, round, wrong));
    begun = true;
  }
  COLL_TRY(job.ops->withdraw(windows, soon()));
  COLL_TRY(c.deregister_windows(windows, soon()));
  job.ops.reset();
  if (!wrong.text().empty()) return Error(ErrorCode::bad_data, wrong.text());
  return c.finalize(Deadline::after_seconds(60));
}

inline std::vector<Ended> ends_of_one_sided_job(int n, const CommOptions& options,
                                                bool gpus = true) {
  std::vector<void*> memory(static_cast<size_t>(n), nullptr);
  auto all = ends_of_job(
      n, options,
      [&](Communicator& c, bool& begun) {
        return one_sided_work(c, begun, memory[size_t(c.rank())]);
      },
      gpus);
  for (size_t r = 0; r < all.size(); ++r)
    if (memory[r] != nullptr)
      if (Status freed = free_window_memory(memory[r]); !freed && all[r].status)
        all[r].status = std::move(freed);
  return all;
}

}  // namespace collctl::runtime::testing
