// Each call of the driver is refused once, in small jobs of GPU ranks: the job goes another way and
// is right, or every rank ends in time with a code and words that fit, and nothing is left behind.
#include "tests/unit/runtime/gpu_fault_jobs.h"

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr int kRefused = 304;  // CUDA_ERROR_OPERATING_SYSTEM: by itself no sign of a broken GPU
constexpr size_t kCount = 5000;

struct Ended {
  Status status;
  bool begun = false;  // an operation of this rank had ended
};

Status expect(const std::vector<float>& data, size_t count, float want) {
  for (size_t i = 0; i < count; ++i)
    if (data[i] != want)
      return Error(ErrorCode::bad_data, format("element {} is {}, not {}", i, data[i], want));
  return {};
}

// Two streams, messages that need links of their own, a graph.
Status work(Communicator& c, std::vector<float>& in, std::vector<float>& out, bool& begun) {
  const int n = c.size(), me = c.rank();
  Stream one(c), two(c);
  const auto sum = [&](Stream& stream, size_t count) {
    return c.start({.collective = Collective::all_reduce,
                    .input = in.data(),
                    .output = out.data(),
                    .count = count},
                   stream);
  };
  COLL_TRY(sum(one, 1000));
  COLL_TRY(one.synchronize());
  begun = true;
  COLL_TRY(expect(out, 1000, float(n)));
  COLL_TRY(sum(one, kCount));
  COLL_TRY(sum(two, 100));
  COLL_TRY(two.synchronize());
  COLL_TRY(expect(out, kCount, float(n)));
  {
    Group group;
    COLL_TRY(c.start({.collective = Collective::send_recv,
                      .input = in.data(),
                      .count = 777,
                      .peer = (me + 1) % n},
                     one));
    COLL_TRY(c.start({.collective = Collective::send_recv,
                      .output = out.data(),
                      .count = 777,
                      .peer = (me + n - 1) % n},
                     one));
    COLL_TRY(group.end());
  }
  COLL_TRY(one.synchronize());
  COLL_TRY(expect(out, 777, 1.f));
  COLL_TRY(one.capture_begin());
  COLL_TRY(sum(one, 3000));
  COLL_ASSIGN(const auto graph, one.capture_end());
  COLL_TRY(one.replay(graph));
  COLL_TRY(two.replay(graph));
  COLL_TRY(two.synchronize());
  COLL_TRY(expect(out, 3000, float(n)));
  COLL_TRY(c.start({.collective = Collective::barrier}, one, Communicator::Launch::blocking));
  return c.finalize(Deadline::after_seconds(60));
}

std::vector<Ended> run_job(const std::string& transport) {
  const Root root = make_root();
  std::vector<Ended> all(2);
  on_all(2, [&](int r) {
    Ended& ended = all[size_t(r)];
    // These outlive the communicator.
    std::vector<float> in(kCount, 1.f), out(kCount);
    CommOptions options;
    options.transport = transport;
    if (transport.empty()) options.algo = "two-shot,ring,pairwise";
    options.op_timeout_s = 120;
    options.device = r;
    options.launcher = &host_launcher();
    auto made = Communicator::init(root.id, r, 2, options);
    ended.status = made ? work(**made, in, out, ended.begun) : Status(std::move(made.error()));
  });
  return all;
}

void check(const std::vector<Ended>& all) {
  const auto words = [](const Error& e) {
    return says(e, "CUDA") || says(e, "the launcher's own words");
  };
  bool told = false;
  int well = 0;
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

// `positions` of the calls of each function, spread over them; those of looks that are repeated
// until something has happened have no place of their own.
void refuse(const std::string& transport, int positions) {
  set_up_gpus(2);
  for (const Ended& rank : run_job(transport)) {
    INFO((rank.status ? "" : rank.status.error().chain()));
    REQUIRE(rank.status);
  }
  for (const auto& [function, count] : fake_cuda::calls()) {
    if (function == "cuCtxSetCurrent" || function == "cuStreamQuery" || function == "cuEventQuery")
      continue;
    const int step = std::max(1, count / positions);
    for (int after = (count - 1) % step; after < count; after += step) {
      INFO(transport << ": " << function << " after " << after << " of " << count);
      set_up_gpus(2);
      fake_cuda::fail(function, kRefused, after);
      const int64_t start = now_ns();
      check(run_job(transport));
      CHECK(now_ns() - start < 60'000'000'000);  // by no deadline of theirs
      CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
    }
  }
}

}  // namespace

TEST_CASE("what the driver refuses once ends GPU ranks in order or is gone round",
          "[gpu][faults]") {
  for (const char* transport : {"", "p2p", "shm", "net"}) refuse(transport, 1);
}

TEST_CASE("the same at every call", "[.][refusals]") {
  for (const char* transport : {"", "p2p", "shm", "net"}) refuse(transport, 1 << 20);
}
