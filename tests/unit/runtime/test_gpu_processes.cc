// GPU ranks as processes: memory travels between them as descriptors.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runtime/alone.h"
#include "tests/unit/runtime/gpu_ranks.h"

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Each rank in a child process; what they complain of. `killed`: a rank that is to be killed, so
// that the others cannot finalize.
std::string in_processes(const GpuJob& job,
                         const std::function<void(Communicator&, Complaints&)>& body,
                         int killed = -1) {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  const base::Fd reader(pipe_fds[0]);
  base::Fd writer(pipe_fds[1]);
  const auto address = base::parse_address("127.0.0.1:0");
  const auto secret = base::random_secret();
  REQUIRE((address && secret));
  // The root's thread is started after the children, who know its address before it listens.
  int ids[2];
  REQUIRE(::pipe(ids) == 0);
  const base::Fd id_reader(ids[0]);
  base::Fd id_writer(ids[1]);
  std::vector<pid_t> children;
  wait_until_alone();
  for (int r = 0; r < job.ranks; ++r) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    UniqueId id;
    Complaints complaints;
    if (::read(id_reader.get(), &id, sizeof id) != ssize_t(sizeof id)) ::_exit(1);
    CommOptions options = job.options;
    options.device = r;
    options.launcher = job.launcher;
    auto made = Communicator::init(id, r, job.ranks, options);
    if (!made) {
      complaints.add(format("rank {}: {}", r, made.error().chain()));
    } else {
      body(**made, complaints);
      if (killed < 0) complaints.add(r, (*made)->finalize(Deadline::after_seconds(60)));
      made->reset();
    }
    if (fake_cuda::counts() != fake_cuda::Counts{})
      complaints.add("left behind: " + fake_cuda::counts().text());
    const std::string text = complaints.text();
    const ssize_t written = ::write(writer.get(), text.data(), text.size());
    ::_exit(written == ssize_t(text.size()) ? 0 : 1);
  }
  writer.reset();
  const auto root = BootstrapRoot::start({.listen_at = *address, .secret = *secret});
  REQUIRE(root);
  const UniqueId id = UniqueId::make((*root)->address(), *secret);
  for (int r = 0; r < job.ranks; ++r)
    REQUIRE(::write(id_writer.get(), &id, sizeof id) == ssize_t(sizeof id));
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(reader.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(n));
  for (int r = 0; r < job.ranks; ++r) {
    int status = 0;
    REQUIRE(::waitpid(children[size_t(r)], &status, 0) == children[size_t(r)]);
    if (r == killed) {
      CHECK(WIFSIGNALED(status));
      continue;
    }
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  return text;
}

}  // namespace

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
    const int64_t start = now_ns();
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
    CHECK(now_ns() - start < 45'000'000'000);  // not by the deadline of a collective
  }
}
