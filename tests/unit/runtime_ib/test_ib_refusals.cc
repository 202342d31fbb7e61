// Calls that libibverbs or the GPUs' driver refuse once, in jobs over NET/IB: collectives and
// one-sided operations, of CPU ranks and of GPU ranks.
#include <cerrno>

#include "tests/unit/runtime/driver_refusals.h"
#include "tests/unit/runtime_ib/one_sided_ib.h"

namespace ib_refusals_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

const fake_verbs::Setup kFabric{.devices = "fake_0:ib:dmabuf", .time_scale = 0.02};

// The adapters, or the GPUs' driver beside them.
Refusable verbs_library() {
  return {[] {
            fake_verbs::fail("");
            set_up_gpus(2);
          },
          fake_verbs::calls,
          [](const std::string& function, int after) { fake_verbs::fail(function, EIO, after); },
          [] {
            return fake_verbs::counts() == fake_verbs::Counts{} ? "" : fake_verbs::counts().text();
          },
          {"NET/IB", "fake_0", "libibverbs", "no RDMA"},
          {"ibv_req_notify_cq"}};
}

Status collectives(Communicator& c, bool& begun) {
  constexpr size_t kCount = 50'000;
  std::vector<float> in(kCount, 1.f), out(kCount);
  {
    Stream stream(c);
    for (const size_t count : {size_t(1000), kCount}) {
      COLL_TRY(c.start({.collective = Collective::all_reduce,
                        .input = in.data(),
                        .output = out.data(),
                        .count = count},
                       stream));
      COLL_TRY(stream.synchronize());
      begun = true;
      COLL_TRY(expect_all(out, count, float(c.size())));
    }
  }
  return c.finalize(Deadline::after_seconds(60));
}

void refuse_collectives(const Refusable& library, const std::string& what, bool gpus, int positions,
                        test::Part* part) {
  refuse_each(
      what + (gpus ? " of GPU ranks" : " of CPU ranks"), library, positions,
      [&] { return ends_of_job(2, only_ib(), collectives, gpus); }, part);
}

void refuse_one_sided(const Refusable& library, const std::string& what, bool gpus, int positions,
                      test::Part* part) {
  Refusable driver = library;
  driver.words.push_back("cannot share memory by descriptors");
  refuse_each(
      what + (gpus ? " of GPU ranks" : " of CPU ranks"), driver, positions,
      [&] { return ends_of_one_sided_job(2, one_sided_over_ib(), gpus); }, part);
}

void refuse_all(int positions, test::Part* part) {
  const Adapters adapters(kFabric);
  for (const bool gpus : {false, true}) {
    refuse_collectives(verbs_library(), "verbs: collectives", gpus, positions, part);
    refuse_one_sided(verbs_library(), "verbs: one-sided", gpus, positions, part);
  }
  fake_verbs::fail("");
  refuse_collectives(cuda_driver(2), "CUDA: collectives", true, positions, part);
  refuse_one_sided(cuda_driver(2), "CUDA: one-sided", true, positions, part);
}

}  // namespace

TEST_CASE("what libraries refuse once over NET/IB ends ranks in order or is gone round",
          "[ib][one_sided][faults]") {
  test::Part part(test::Sweep::refused_calls);
  refuse_all(1, &part);
}

TEST_CASE("over NET/IB, the same at every call", "[.][refusals]") {
  refuse_all(1 << 20, nullptr);
}

}  // namespace ib_refusals_tests
