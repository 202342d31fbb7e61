// GPU ranks as processes: memory travels between them as descriptors.
#include "tests/unit/runtime/gpu_processes.h"

namespace gpu_processes_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

TEST_CASE("GPU ranks as processes, by window and by links", "[gpu]") {
  static_assert(std::is_trivially_copyable_v<UniqueId>);
  for (const char* algo : {"", "ring,pairwise"})
    for (const char* transport : {"", "p2p", "shm"}) {
      set_up_gpus(3);
      INFO(algo << " " << transport);
      GpuJob job;
      job.ranks = 3;
      job.options.algo = algo;
      job.options.transport = transport;
      job.options.op_timeout_s = 60;
      CHECK(in_processes(job, [](Communicator& c, Complaints& complaints) {
              Stream stream(c);
              for (const Collective collective :
                   {Collective::all_reduce, Collective::all_gather, Collective::all_to_all})
                for (const uint64_t count : {uint64_t(5), uint64_t(50'000)}) {
                  const std::string wrong =
                      run_case(c, stream, {.collective = collective, .count = count});
                  if (!wrong.empty()) complaints.add(wrong);
                }
              for (const LinkInfo& link : c.links())
                if (link.via != "P2P/CUMEM" && link.via != "SHM")
                  complaints.add("processes joined via " + link.via);
            }) == "");
    }
}

TEST_CASE("a GPU rank that dies in the middle is lost, and named by all others", "[gpu][faults]") {
  for (const char* algo : {"ring", "two-shot"}) {  // by links and by the window
    set_up_gpus(3);
    INFO(algo);
    GpuJob job;
    job.ranks = 3;
    job.options.algo = algo;
    job.options.op_timeout_s = 60;
    ::setenv("COLLCTL_FAULT", "exit:rank=1:channel=0:step=1", 1);  // its second operation
    CHECK(in_processes(
              job,
              [](Communicator& c, Complaints& complaints) {
                Stream stream(c);
                for (int i = 0; i < 2; ++i) {
                  const std::string wrong =
                      run_case(c, stream, {.collective = Collective::all_reduce, .count = 50'000});
                  if (i == 0 && !wrong.empty()) complaints.add(wrong);
                  // Rank 1 dies when all have come through the first, not as soon as it has itself;
                  // that it is gone may be heard in here.
                  if (i == 0) (void)c.barrier(Deadline::after_seconds(60));
                }
                const Status status = c.async_error();
                if (status) return complaints.add("did not hear of it");
                const Error& e = status.error();
                if (e.code != ErrorCode::lost || e.rank != 1)
                  complaints.add(format("rank {}: code {}, rank {}: {}", c.rank(), int(e.code),
                                        e.rank, e.chain()));
              },
              1) == "");
    ::unsetenv("COLLCTL_FAULT");
  }
}

}  // namespace gpu_processes_tests
