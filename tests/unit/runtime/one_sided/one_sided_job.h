// A job of threads whose ranks have a window each, and one-sided operations on it: for the tests of
// those, over all networks.
#pragma once
#include <cstring>

#include "runtime/one_sided/one_sided.h"
#include "tests/unit/runtime/window/window_job.h"

namespace collctl::runtime::testing {

// A window of every rank, and operations on it.
struct OneSidedJob {
  Communicator& communicator;
  std::unique_ptr<OneSided> ops;
  void* memory = nullptr;
  WindowPointer window;

  static Result<std::unique_ptr<OneSidedJob>> start(Communicator& c, uint64_t bytes,
                                                    const kernels::Fault& fault = {}) {
    auto job = std::unique_ptr<OneSidedJob>(new OneSidedJob{c, nullptr, nullptr, nullptr});
    COLL_ASSIGN(job->ops, OneSided::open(c, soon(), fault));
    COLL_ASSIGN(job->memory, allocate_window_memory(bytes, c.device()));
    const WindowRange range{.address = job->memory, .bytes = bytes};
    COLL_ASSIGN(const auto windows, c.register_windows({&range, 1}, soon()));
    job->window = windows[0];
    COLL_TRY(job->ops->share(windows, soon()));
    return job;
  }
  Status end() {
    const std::vector<WindowPointer> all{window};
    COLL_TRY(ops->withdraw(all, soon()));
    COLL_TRY(communicator.deregister_windows(all, soon()));
    ops.reset();
    return free_window_memory(memory);
  }
  // After an error of the operations: meets over the bootstrap.
  Status abandon() {
    ops.reset();
    COLL_TRY(communicator.barrier(soon()));
    const std::vector<WindowPointer> all{window};
    COLL_TRY(communicator.deregister_windows(all, soon()));
    return free_window_memory(memory);
  }
  int rank() const { return communicator.rank(); }
  int size() const { return communicator.size(); }
  const uint8_t* data() const { return static_cast<const uint8_t*>(memory); }
};

// Another byte for every owner, writer, round and place; by hand, nothing of the product's.
inline uint8_t byte_of(int owner, int writer, int round, uint64_t at) {
  return uint8_t(owner * 131 + writer * 31 + round * 7 + int(at % 251));
}

inline std::vector<uint8_t> bytes_of(int owner, int writer, int round, uint64_t at,
                                     uint64_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint64_t i = 0; i < count; ++i) bytes[i] = byte_of(owner, writer, round, at + i);
  return bytes;
}

// Every rank puts a stripe into every window, with a signal; looks, and gets back what it put.
inline Status exchange(OneSidedJob& job, uint64_t stripe, int round, Complaints& wrong) {
  const auto mine = stripe * uint64_t(job.rank());
  for (int peer = 0; peer < job.size(); ++peer) {
    const auto bytes = bytes_of(peer, job.rank(), round, mine, stripe);
    COLL_TRY(job.ops->put_signal({job.window, peer, mine}, bytes.data(), stripe, 3, soon()));
  }
  for (int peer = 0; peer < job.size(); ++peer) {
    COLL_TRY(job.ops->wait(peer, 3, 1, soon()));
    const uint64_t at = stripe * uint64_t(peer);
    const auto expected = bytes_of(job.rank(), peer, round, at, stripe);
    if (std::memcmp(job.data() + at, expected.data(), stripe) != 0)
      wrong.add(format("rank {} of rank {}, round {}: wrong bytes", job.rank(), peer, round));
    std::vector<uint8_t> back(stripe);
    COLL_TRY(job.ops->get({job.window, peer, mine}, back.data(), stripe, soon()));
    if (back != bytes_of(peer, job.rank(), round, mine, stripe))
      wrong.add(format("rank {} gets other bytes from rank {}", job.rank(), peer));
  }
  return job.ops->barrier(soon());
}

// Runs `body` on every rank of a job with windows; what went wrong.
inline std::string with_one_sided(int n, const CommOptions& options, uint64_t bytes,
                                  const std::function<Status(OneSidedJob&, Complaints&)>& body) {
  return with_ranks(n, options, [&](Communicator& c, Complaints& wrong) {
    auto job = OneSidedJob::start(c, bytes);
    if (!job) return wrong.add(c.rank(), job.error());
    wrong.add(c.rank(), body(**job, wrong));
    wrong.add(c.rank(), (*job)->end());
  });
}

}  // namespace collctl::runtime::testing
