// Ranks as threads of this process over loopback addresses: a whole job in milliseconds. For the
// tests of the communicator; Catch's macros are for the main thread only, so ranks report by text.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/socket.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/communicator.h"
#include "tests/catch.h"

namespace collctl::runtime::testing {

struct Root {
  std::unique_ptr<BootstrapRoot> root;
  UniqueId id;
};
inline Root make_root() {
  auto address = base::parse_address("127.0.0.1:0");
  REQUIRE(address);
  auto secret = base::random_secret();
  REQUIRE(secret);
  auto root = BootstrapRoot::start({.listen_at = *address, .secret = *secret});
  REQUIRE(root);
  Root made{std::move(*root), {}};
  made.id = UniqueId::make(made.root->address(), *secret);
  return made;
}

inline std::vector<int> all_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The mistakes found on the ranks; the first few.
class Complaints {
 public:
  void add(const std::string& text) {
    std::lock_guard lock(mutex_);
    if (count_++ < 5) text_ += text + "\n";
  }
  void add(int rank, const Status& status) {
    if (!status) add(format("rank {}: {}", rank, status.error().chain()));
  }
  std::string text() const {
    std::lock_guard lock(mutex_);
    return count_ == 0 ? "" : format("{}({} in all)", text_, count_);
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  int count_ = 0;
};

inline void on_all(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back([&body, r] { body(r); });
  for (auto& t : threads) t.join();
}

using Communicators = std::vector<std::unique_ptr<Communicator>>;

inline Communicators start_job(int n, const CommOptions& options) {
  const Root root = make_root();
  const auto ranks = all_ranks(n);
  auto made = Communicator::init_many(root.id, ranks, n, options);
  INFO((made ? "" : made.error().chain()));
  REQUIRE(made);
  return std::move(*made);
}

// Starts n ranks, runs `body` on each in a thread, finalizes. Empty when all went well.
inline std::string with_ranks(int n, const CommOptions& options,
                              const std::function<void(Communicator&, Complaints&)>& body) {
  const Communicators job = start_job(n, options);
  Complaints complaints;
  on_all(n, [&](int r) {
    Communicator& c = *job[size_t(r)];
    body(c, complaints);
    complaints.add(r, c.finalize(Deadline::after_seconds(60)));
  });
  return complaints.text();
}

// A value that differs by rank and element, small enough that float32 sums are exact.
inline float value_of(int rank, uint64_t i) {
  return float(rank * 3 + 1) + float(i % 509);
}

// One collective on float32 with a known answer: fills, runs, compares.
struct Case {
  Collective collective = Collective::all_reduce;
  uint64_t count = 1;
  int root = 0;
  bool in_place = false;
  float* memory = nullptr;  // for its buffers, 3 x ranks x count elements; null: its own
};
std::string run_case(Communicator& c, Stream& stream, const Case& test,
                     Communicator::Launch launch = Communicator::Launch::blocking);

}  // namespace collctl::runtime::testing
